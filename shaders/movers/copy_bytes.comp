// Copies `bytes` bytes, a 32-bit word an invocation; the last partial word by bytes, so that nothing
// beyond the destination is written. Both addresses are multiples of 4.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint bytes_low;
    uint bytes_high;
} p;

void main() {
    uint64_t bytes = (uint64_t(p.bytes_high) << 32) | p.bytes_low;
    uint64_t at = (flat_group() * 64 + gl_LocalInvocationID.x) * 4;
    if (at + 4 <= bytes) {
        PtrU32(p.dst + at).v = PtrU32(p.src + at).v;
    } else {
        for (; at < bytes; at++) PtrU8(p.dst + at).v = PtrU8(p.src + at).v;
    }
}
