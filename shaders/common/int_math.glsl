// Integer arithmetic of four elements; operands sign-extended to 32 bits.

ivec4 low_bound(uint type) {
    if (type == T_I8) return ivec4(-128);
    if (type == T_I16) return ivec4(-32768);
    return type == T_I32 ? ivec4(-2147483647 - 1) : ivec4(0);
}

ivec4 high_bound(uint type) {
    if (type == T_I8) return ivec4(127);
    if (type == T_U8) return ivec4(255);
    if (type == T_I16) return ivec4(32767);
    return type == T_U16 ? ivec4(65535) : ivec4(2147483647);
}

// Wraps to a type's width.
ivec4 wrap(uint type, ivec4 x) {
    if (type == T_I8) return bitfieldExtract(x, 0, 8);
    if (type == T_I16) return bitfieldExtract(x, 0, 16);
    return x;
}

uvec4 zero_extend(uint type, uvec4 x) {
    if (type == T_I8) return x & 0xffu;
    if (type == T_I16) return x & 0xffffu;
    return x;
}

// Toward zero. Division by zero and INT_MIN / -1 are unpredictable in TOSA and must only stay defined here.
ivec4 divide(ivec4 a, ivec4 b) {
    bvec4 bad = equal(b, ivec4(0));
    ivec4 quotient = ivec4(uvec4(abs(a)) / uvec4(abs(mix(b, ivec4(1), bad))));
    return mix(quotient, -quotient, lessThan(a ^ b, ivec4(0)));
}

ivec4 shift_right(ivec4 a, ivec4 b, bool rounded) {
    b &= 31;
    ivec4 r = a >> b;
    return rounded ? r + mix((a >> max(b - 1, ivec4(0))) & 1, ivec4(0), equal(b, ivec4(0))) : r;
}

// (a * b) >> shift with the halves rounded up.
ivec4 multiply_shift(ivec4 a, ivec4 b, ivec4 shift) {
    i64vec4 by = i64vec4(shift & 63);
    i64vec4 half_unit = mix(i64vec4(0), i64vec4(1) << max(by - 1, i64vec4(0)), notEqual(by, i64vec4(0)));
    return ivec4((i64vec4(a) * i64vec4(b) + half_unit) >> by);
}

ivec4 negate(ivec4 x, ivec4 zero_points, uint type) {
    // Only INT32 can overflow, where the zero points are 0.
    ivec4 y = mix(zero_points - x, ivec4(2147483647), equal(x, ivec4(-2147483647 - 1)));
    return clamp(y, low_bound(type), high_bound(type));
}

// TOSA's apply_scale, then the output's zero point, clipped to `type`.
ivec4 rescale(ivec4 x, ivec4 multiplier, ivec4 shift, bool double_round, int input_zp, int output_zp, uint type) {
    i64vec4 value = i64vec4(x) - int64_t(input_zp);
    shift &= 63;
    i64vec4 half_unit = i64vec4(1) << i64vec4(max(shift - 1, ivec4(0)));
    if (double_round) {
        i64vec4 extra = mix(i64vec4(1) << 30, -(i64vec4(1) << 30), lessThan(value, i64vec4(0)));
        half_unit += mix(i64vec4(0), extra, greaterThan(shift, ivec4(31)));
    }
    i64vec4 scaled = (value * i64vec4(multiplier) + half_unit) >> i64vec4(shift);
    scaled = i64vec4(ivec4(scaled)) + int64_t(output_zp);
    return ivec4(clamp(scaled, i64vec4(low_bound(type)), i64vec4(high_bound(type))));
}
