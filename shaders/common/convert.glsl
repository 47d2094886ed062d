#ifndef CONVERT_GLSL
#define CONVERT_GLSL
// Element types and their 32-bit register form: floats as FP32 bits, integers sign- or zero-extended, BOOL as 0 or 1.
// The numbers are those of `Element` in accel-kernels.
const uint T_F32 = 0u, T_F16 = 1u, T_BF16 = 2u, T_I8 = 3u, T_I16 = 4u, T_I32 = 5u, T_BOOL = 6u, T_U8 = 7u, T_U16 = 8u;
const uint T_E4M3 = 9u, T_E5M2 = 10u;

uint type_bytes(uint type) {
    if (type == T_F32 || type == T_I32) return 4u;
    return type == T_F16 || type == T_BF16 || type == T_I16 || type == T_U16 ? 2u : 1u;
}

bvec4 is_nan(uvec4 x) {
    return greaterThan(x & 0x7fffffffu, uvec4(0x7f800000u));
}

// FP32 to FP16 bits, to nearest even. By integers: FConvert's rounding is the driver's choice.
uvec4 f16_bits(uvec4 x) {
    uvec4 sign = (x >> 16) & 0x8000u;
    uvec4 magnitude = x & 0x7fffffffu;
    uvec4 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Adding 0.5 leaves a multiple of 2^-24, FP16's subnormal step, rounded by the adder.
    uvec4 small = floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - 0x3f000000u;
    uvec4 large = mix(uvec4(0x7c00u), uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
    uvec4 finite = mix(normal, small, lessThan(magnitude, uvec4(0x38800000u)));
    return sign | mix(finite, large, greaterThanEqual(magnitude, uvec4(0x477ff000u)));
}

uvec4 f16_widen(uvec4 x) {
    uvec4 magnitude = x & 0x7fffu;
    uvec4 normal = (magnitude << 13) + 0x38000000u;
    normal += mix(uvec4(0u), uvec4(0x38000000u), greaterThanEqual(magnitude, uvec4(0x7c00u)));
    uvec4 small = floatBitsToUint(vec4(magnitude) * 5.9604644775390625e-8);
    return ((x & 0x8000u) << 16) | mix(normal, small, lessThan(magnitude, uvec4(0x400u)));
}

uvec4 bf16_bits(uvec4 x) {
    uvec4 rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    return mix(rounded, (x >> 16) | 0x40u, is_nan(x));
}

// FP32 to FP8, to nearest even. What lies beyond the largest number is NaN in E4M3, which has no infinity, and infinity in E5M2.
uvec4 e4m3_bits(uvec4 x) {
    uvec4 magnitude = x & 0x7fffffffu;
    // For smaller numbers the difference wraps; they take the other branch.
    uvec4 normal = min((magnitude - 0x3c000000u + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20, uvec4(0x7fu));
    // The sum's last place is 2^-9, the step of E4M3's subnormals.
    uvec4 small = floatBitsToUint(uintBitsToFloat(magnitude) + 16384.0) - 0x46800000u;
    return ((x >> 24) & 0x80u) | mix(normal, small, lessThan(magnitude, uvec4(0x3c800000u)));
}

uvec4 e4m3_widen(uvec4 x) {
    uvec4 magnitude = x & 0x7fu;
    uvec4 normal = mix((magnitude << 20) + 0x3c000000u, uvec4(0x7fc00000u), equal(magnitude, uvec4(0x7fu)));
    uvec4 small = floatBitsToUint(vec4(magnitude) * 0.001953125);
    return ((x & 0x80u) << 24) | mix(normal, small, lessThan(magnitude, uvec4(8u)));
}

uvec4 e5m2_bits(uvec4 x) {
    uvec4 magnitude = x & 0x7fffffffu;
    uvec4 normal = min((magnitude - 0x38000000u + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21, uvec4(0x7cu));
    uvec4 small = floatBitsToUint(uintBitsToFloat(magnitude) + 128.0) - 0x43000000u;
    uvec4 finite = mix(normal, small, lessThan(magnitude, uvec4(0x38800000u)));
    return ((x >> 24) & 0x80u) | mix(finite, uvec4(0x7eu), is_nan(x));
}

// Memory bits to register.
uvec4 widen(uint type, uvec4 raw) {
    if (type == T_F16) return f16_widen(raw);
    if (type == T_BF16) return raw << 16;
    if (type == T_E4M3) return e4m3_widen(raw);
    if (type == T_E5M2) return f16_widen(raw << 8);
    if (type == T_I8) return uvec4(bitfieldExtract(ivec4(raw), 0, 8));
    if (type == T_I16) return uvec4(bitfieldExtract(ivec4(raw), 0, 16));
    if (type == T_BOOL) return uvec4(notEqual(raw, uvec4(0u)));
    return raw;
}

// Register to memory bits; bits beyond the type's width may be set.
uvec4 narrow(uint type, uvec4 x) {
    if (type == T_F16) return f16_bits(x);
    if (type == T_BF16) return bf16_bits(x);
    if (type == T_E4M3) return e4m3_bits(x);
    if (type == T_E5M2) return e5m2_bits(x);
    return x;
}
#endif
