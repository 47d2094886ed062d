// One stage of a pointwise chain, on four elements in register form.
//
// A stage is a 32-bit word, a specialization constant so that all but its own code is removed: bits 0-7 the code, 8-11,
// 12-15 and 16-19 its sources (SOURCE_CHAIN, or the number of an operand), 20-23 its first immediate, 24-27 its element type.
#include "common/element.glsl"
#include "common/float_math.glsl"
#include "common/int_math.glsl"
#include "common/stage_codes.glsl"

const uint SOURCE_CHAIN = 15u;

#define AS_F(x) uintBitsToFloat(x)
#define F(x) return floatBitsToUint(x)
#define I(x) return uvec4(x)
#define B(x) return uvec4(x)

uvec4 float_stage(uint code, uvec4 a, uvec4 b, uint first, uint second) {
    vec4 x = AS_F(a), y = AS_F(b);
    switch (code) {
    case S_ABS_F: return a & 0x7fffffffu;
    case S_NEGATE_F: return a ^ 0x80000000u;
    case S_CEIL: F(ceil(with_visible_subnormals(a)));
    case S_FLOOR: F(floor(with_visible_subnormals(a)));
    case S_EXP: F(exp_accurate(x));
    case S_LOG: F(log_accurate(x));
    case S_RECIPROCAL: F(reciprocal_accurate(x));
    case S_RSQRT: F(rsqrt_accurate(x));
    case S_SIN: F(sine_of(x, 0.0));
    case S_COS: F(sine_of(x, 1.0));
    case S_TANH: F(tanh_accurate(x));
    case S_SIGMOID: F(sigmoid_accurate(x));
    case S_ERF: F(erf_accurate(x));
    case S_ADD_F: F(x + y);
    case S_SUB_F: F(x - y);
    case S_MUL_F: F(x * y);
    case S_POW: F(pow_accurate(x, y));
    case S_MAX_F: return mix(mix(mix(b, a, greaterThan(x, y)), b, is_nan(b)), a, is_nan(a));
    case S_MIN_F: return mix(mix(mix(b, a, lessThan(x, y)), b, is_nan(b)), a, is_nan(a));
    case S_MAX_F_IGNORE: return mix(mix(mix(b, a, greaterThan(x, y)), a, is_nan(b)), b, is_nan(a));
    case S_MIN_F_IGNORE: return mix(mix(mix(b, a, lessThan(x, y)), a, is_nan(b)), b, is_nan(a));
    case S_EQUAL_F: B(equal(x, y));
    case S_GREATER_F: B(greaterThan(x, y));
    case S_GREATER_EQUAL_F: B(greaterThanEqual(x, y));
    case S_CLAMP_F:
    case S_CLAMP_F_IGNORE: {
        uvec4 low = uvec4(first), high = uvec4(second);
        uvec4 r = mix(mix(a, low, lessThan(x, AS_F(low))), high, greaterThan(x, AS_F(high)));
        return mix(r, code == S_CLAMP_F ? a : low, is_nan(a));
    }
    }
    return a;
}

uvec4 int_stage(uint code, uvec4 a, uvec4 b, uint type, uint first, uint second) {
    ivec4 x = ivec4(a), y = ivec4(b);
    switch (code) {
    case S_ABS_I: I(abs(x));
    case S_NEGATE_I: I(negate(x, ivec4(int(first)), type));
    case S_NOT: return ~a;
    case S_CLZ: I(31 - findMSB(a));
    case S_LOGICAL_NOT: return a ^ 1u;
    case S_ADD_I: return a + b;
    case S_SUB_I: return a - b;
    case S_MUL_I: return a * b;
    case S_MUL_SHIFT: I(multiply_shift(x, y, ivec4(int(first))));
    case S_MAX_I: I(max(x, y));
    case S_MIN_I: I(min(x, y));
    case S_DIVIDE: I(divide(x, y));
    case S_SHIFT_LEFT: I(wrap(type, ivec4(a << (b & 31u))));
    case S_SHIFT_RIGHT: I(wrap(type, ivec4(zero_extend(type, a) >> (b & 31u))));
    case S_SHIFT_ARITHMETIC: I(shift_right(x, y, false));
    case S_SHIFT_ARITHMETIC_ROUND: I(shift_right(x, y, true));
    case S_AND: return a & b;
    case S_OR: return a | b;
    case S_XOR: return a ^ b;
    case S_EQUAL_I: B(equal(x, y));
    case S_GREATER_I: B(greaterThan(x, y));
    case S_GREATER_EQUAL_I: B(greaterThanEqual(x, y));
    case S_CLAMP_I: I(clamp(x, ivec4(int(first)), ivec4(int(second))));
    }
    return a;
}

uvec4 float_to_int(uvec4 a, uint type) {
    ivec4 low = low_bound(type), high = high_bound(type);
    if (type != T_I32) {
        // The sum's last place is 1, so that the adder rounds.
        vec4 sum = clamp(AS_F(a), vec4(low), vec4(high)) + 12582912.0;
        return mix(floatBitsToUint(sum) - 0x4b400000u, uvec4(0u), is_nan(a));
    }
    // 2^31 is the first float above INT32's range.
    vec4 x = roundEven(AS_F(a));
    bvec4 above = greaterThanEqual(x, vec4(high));
    bvec4 inside = greaterThan(x, vec4(low));
    ivec4 y = ivec4(mix(vec4(0.0), x, equal(inside, not(above))));
    y = mix(mix(low, y, inside), high, above);
    return uvec4(mix(y, ivec4(0), is_nan(a)));
}

// FP32 that rounds to the nearest BF16: the bits that FP32 cannot hold become one sticky bit.
uvec4 int_to_bf16(ivec4 x) {
    uvec4 m = uvec4(abs(x));
    uvec4 sticky = (m & ~0xffu) | mix(uvec4(0u), uvec4(0x80u), notEqual(m & 0xffu, uvec4(0u)));
    m = mix(m, sticky, greaterThanEqual(m, uvec4(1u << 24)));
    return floatBitsToUint(vec4(m)) | (uvec4(x) & 0x80000000u);
}

uvec4 convert_stage(uint code, uvec4 a, uint type) {
    switch (code) {
    case S_INT_TO_FLOAT: F(vec4(ivec4(a)));
    case S_FLOAT_TO_INT: return float_to_int(a, type);
    case S_WRAP: I(wrap(type, ivec4(a)));
    case S_TO_BOOL: B(notEqual(a, uvec4(0u)));
    case S_ROUND_F16: return f16_widen(f16_bits(a));
    case S_ROUND_BF16: return bf16_bits(a) << 16;
    case S_ROUND_E4M3: return e4m3_widen(e4m3_bits(a));
    case S_ROUND_E5M2: return f16_widen(e5m2_bits(a) << 8);
    case S_INT_TO_BF16: return int_to_bf16(ivec4(a));
    case S_FLOAT_TO_BOOL: B(notEqual(a & 0x7fffffffu, uvec4(0u)));
    }
    return a;
}

// 256 entries of INT8.
uvec4 table8(uint64_t table, ivec4 x) {
    return load_gather(table, T_I8, uvec4(clamp(x + 128, 0, 255)));
}

// 513 entries of INT16: interpolated between neighbours, with 7 bits of fraction.
uvec4 table16(uint64_t table, ivec4 x) {
    ivec4 at = clamp(x + 32768, 0, 65535);
    uvec4 index = uvec4(at >> 7);
    ivec4 base = ivec4(load_gather(table, T_I16, index)), next = ivec4(load_gather(table, T_I16, index + 1u));
    return uvec4(base * 128 + (next - base) * (at & 127));
}

#undef F
#undef I
#undef B
