// Copies `bytes` bytes, a vector of four words an invocation; the last words singly and the last partial word by bytes, so that
// nothing beyond the destination is written. Both addresses are multiples of 4.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/words.glsl"
layout(local_size_x_id = 31) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint bytes_low;
    uint bytes_high;
} p;

void main() {
    uint64_t bytes = (uint64_t(p.bytes_high) << 32) | p.bytes_low;
    uint64_t at = (flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x) * 16;
    if (at + 16 <= bytes) {
        store_words(p.dst + at, 4u, load_words(p.src + at, 4u));
        return;
    }
    for (; at + 4 <= bytes; at += 4) PtrU32(p.dst + at).v = PtrU32(p.src + at).v;
    for (; at < bytes; at++) PtrU8(p.dst + at).v = PtrU8(p.src + at).v;
}
