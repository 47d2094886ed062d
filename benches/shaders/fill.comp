// Fills a buffer with words that look random: (hash & keep) | set. Also the write ceiling.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vectors { uvec4 v; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint vectors;
    uint keep;
    uint set;
} p;

void main() {
    uint64_t serial = flat_group() * 256 + gl_LocalInvocationID.x;
    if (serial >= p.vectors) return;
    uvec4 x = (uint(serial) * 4 + uvec4(0, 1, 2, 3)) * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    Vectors(p.dst + serial * 16).v = ((x ^ (x >> 16)) & p.keep) | p.set;
}
