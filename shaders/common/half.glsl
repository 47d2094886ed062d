// Has the device's own FP16 instructions round to nearest even and keep subnormals, so that conversions are exactly those
// that convert.glsl makes of integers. For devices that say they can (`DeviceCaps::exact_half`).
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 16); // DenormPreserve
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 16); // RoundingModeRTE

// Of a NaN and a number the number, which min() does not promise.
spirv_instruction(set = "GLSL.std.450", id = 79) f16vec2 min_number(f16vec2 x, f16vec2 y);

vec4 f16_pairs(uint low, uint high) {
    return vec4(vec2(unpackFloat2x16(low)), vec2(unpackFloat2x16(high)));
}

uvec2 pack_f16(vec4 x) {
    return uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw)));
}

// Two E4M3 codes in the high bytes of the halves of a word, as FP16 times 2^-8: subnormals become subnormals. NaN becomes 480.
uint e4m3_pair(uint pair) {
    return (pair & 0x80008000u) | (pair >> 1 & 0x3f803f80u);
}

uvec4 e4m3_quad(uint word) {
    // Bytes 0 and 2, then 1 and 3.
    vec4 x = f16_pairs(e4m3_pair(word << 8), e4m3_pair(word)).xzyw * 256.0;
    uvec4 codes = uvec4(word) >> uvec4(0, 8, 16, 24) & 0x7fu;
    return mix(floatBitsToUint(x), uvec4(0x7fc00000u), equal(codes, uvec4(0x7fu)));
}

uvec4 e5m2_quad(uint word) {
    return floatBitsToUint(f16_pairs(word << 8 & 0xff00ff00u, word & 0xff00ff00u).xzyw);
}

// The E4M3 codes of two FP16 numbers, each in the low byte of its half. Below 2^-6 the codes count steps of 2^-9, which are
// those of FP16 from 2 on; above, the seven lowest bits are rounded away. Each part leaves what the other does at 8.
uint e4m3_of_halves(uint pair) {
    // 480 would follow 448, the largest number, and its code is NaN's.
    f16vec2 x = min_number(unpackFloat2x16(pair & 0x7fff7fffu), f16vec2(480.0hf));
    f16vec2 least = f16vec2(0.015625hf);
    uint large = packFloat2x16(max(x, least));
    uint small = packFloat2x16(min(x, least) + 2.0hf);
    large = (large - 0x1fc11fc1u + (large >> 7 & 0x00010001u)) >> 7 & 0x00ff00ffu;
    return large + small - 0x40084008u | (pair >> 8 & 0x00800080u);
}

// As above, E5M2: FP16 without its lowest byte.
uint e5m2_of_halves(uint pair) {
    uint magnitude = pair & 0x7fff7fffu;
    uint nan = magnitude + 0x03ff03ffu & 0x80008000u;
    magnitude = magnitude + 0x007f007fu + (magnitude >> 8 & 0x00010001u);
    // NaN's lower bits may have rounded to anything.
    return (magnitude >> 8 & 0x007f007fu) | (nan >> 8) - (nan >> 15) | (pair >> 8 & 0x00800080u);
}

// Four FP16 numbers as E4M3 or else E5M2.
uint fp8_of_halves(bool e4m3, uint low, uint high) {
    low = e4m3 ? e4m3_of_halves(low) : e5m2_of_halves(low);
    high = e4m3 ? e4m3_of_halves(high) : e5m2_of_halves(high);
    low |= low >> 8;
    high |= high >> 8;
    return (low & 0xffffu) | high << 16;
}
