// The values of CAST_TO_BLOCK_SCALED, over scales that are known. An invocation makes a word of values, which may share their
// bits with the words beside it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "blocks/format.glsl"
layout(local_size_x_id = 31) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src; // FP32
    uint64_t scales;
    uint count; // of words
} p;

uint encode(uint index) {
    uint scale = uint(PtrU8(p.scales + index / BLOCK).v);
    if (scale == SCALE_NAN) return UNDEFINED;
    uint x = PtrU32(p.src + uint64_t(index) * 4).v;
    uint magnitude = min(quantize(x & 0x7fffffffu, int(scale) - 127), TOP);
    if (x >> 31 == 0u) return magnitude;
    return KIND == K_FIXED ? -magnitude & 0xffu : SIGN | magnitude;
}

void main() {
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint64_t from = serial * 32;
    uint index = uint(from / BITS);
    int shift = int(index * uint64_t(BITS) - from);
    uint word = 0u;
    [[dont_unroll]] for (; shift < 32; shift += int(BITS)) {
        uint code = encode(index++);
        word |= shift < 0 ? code >> -shift : code << shift;
    }
    PtrU32(p.dst + serial * 4).v = word;
}
