// CAST_FROM_BLOCK_SCALED: values times their scales as FP32, which holds all but the products beyond its range. An invocation
// makes one number.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "blocks/format.glsl"
layout(local_size_x_id = 31) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t values;
    uint64_t scales;
    uint count; // of values
} p;

uint value(uint index) {
    uint64_t at = uint64_t(index) * BITS;
    uint64_t word = p.values + (at >> 5) * 4;
    uint shift = uint(at) & 31u;
    uint low = PtrU32(word).v >> shift;
    if (shift + BITS > 32u) low |= PtrU32(word + 4).v << (32u - shift);
    return low & (2u * SIGN - 1u);
}

uint product(uint code, uint scale) {
    if (scale == SCALE_NAN) return F32_NAN;
    uint sign = (code & SIGN) << (32u - BITS);
    uint magnitude = code & (SIGN - 1u);
    if (KIND == K_FIXED && sign > 0u) magnitude = 2u * SIGN - code;
    if (KIND == K_E4M3 && magnitude > TOP) return F32_NAN;
    if (KIND == K_E5M2 && magnitude > TOP) return magnitude == TOP + 1u ? sign | F32_INFINITY : F32_NAN;
    uint field = magnitude >> FRACTION;
    uint count = magnitude & ((1u << FRACTION) - 1u);
    if (field > 0u) count |= 1u << FRACTION;
    if (count == 0u) return sign;
    int place = LEAST - int(FRACTION) + max(int(field), 1) - 1 + int(scale) - 127;
    int first = findMSB(count);
    int reach = place + first;
    if (reach > 127) return sign | F32_INFINITY;
    // No place is below -146, and FP32's last is -149.
    if (reach < -126) return sign | count << (place + 149);
    return sign | uint(reach + 127) << 23 | (count << (23 - first) & 0x7fffffu);
}

void main() {
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint index = uint(serial);
    uint scale = uint(PtrU8(p.scales + index / BLOCK).v);
    PtrU32(p.dst + serial * 4).v = product(value(index), scale);
}
