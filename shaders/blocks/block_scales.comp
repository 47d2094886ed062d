// The scales of CAST_TO_BLOCK_SCALED: the smallest power of two with which the block's largest magnitude, rounded to the element
// format, fits that; NaN for blocks with anything that is not finite. An invocation makes four scales, a word.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "blocks/format.glsl"
layout(local_size_x_id = 31) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src; // FP32
    uint count; // of scales
} p;

uint block_scale(uint64_t src) {
    uint largest = 0u;
    [[dont_unroll]] for (uint i = 0u; i < BLOCK; i++) largest = max(largest, PtrU32(src + i * 4u).v & 0x7fffffffu);
    if (largest >= F32_INFINITY) return SCALE_NAN;
    if (largest == 0u) return 0u;
    int scale = max(exponent(largest) - MOST, -127);
    if (quantize(largest, scale) > TOP && scale < 127) scale++;
    return uint(scale + 127);
}

void main() {
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial * 4 >= p.count) return;
    uint first = uint(serial) * 4u;
    uint own = min(4u, p.count - first);
    uint word = 0u;
    [[dont_unroll]] for (uint i = 0u; i < own; i++) {
        word |= block_scale(p.src + uint64_t(first + i) * BLOCK * 4) << 8u * i;
    }
    if (own == 4u) {
        PtrU32(p.dst + first).v = word;
    } else {
        for (uint i = 0u; i < own; i++) PtrU8(p.dst + first + i).v = uint8_t(word >> 8u * i);
    }
}
