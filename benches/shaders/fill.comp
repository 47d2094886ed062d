// Fills a buffer with words that look random: (hash & keep) | set.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint words;
    uint keep;
    uint set;
} p;

void main() {
    uint64_t serial = flat_group() * 256 + gl_LocalInvocationID.x;
    if (serial >= p.words) return;
    uint x = uint(serial) * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    PtrU32(p.dst + serial * 4).v = ((x ^ (x >> 16)) & p.keep) | p.set;
}
