// Has the device's own FP16 instructions round to nearest even and keep subnormals, so that conversions are exactly those
// that convert.glsl makes of integers. For devices that say they can (`DeviceCaps::exact_half`).
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 16); // DenormPreserve
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 16); // RoundingModeRTE

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

uint min_halves(uint pair, uint most) {
    return packUint2x16(min(unpackUint2x16(pair), u16vec2(most)));
}

// The E4M3 codes of two FP16 numbers, each in the low byte of its half. Below 2^-6 the codes count steps of 2^-9, which are
// those of FP16 from 2 on; above, the seven lowest bits are rounded away. Each part leaves what the other does at 8.
uint e4m3_of_halves(uint pair) {
    // 480 is beyond rounding to 448, and its code is NaN's.
    f16vec2 x = unpackFloat2x16(min_halves(pair & 0x7fff7fffu, 0x5f80u));
    f16vec2 least = f16vec2(0.015625hf);
    uint large = packFloat2x16(max(x, least));
    uint small = packFloat2x16(min(x, least) + 2.0hf) - 0x40004000u;
    large = (large - 0x1fc11fc1u + (large >> 7 & 0x00010001u)) >> 7 & 0x00ff00ffu;
    return (large + small - 0x00080008u) | (pair >> 8 & 0x00800080u);
}

// As above, E5M2: FP16 without its lowest byte.
uint e5m2_of_halves(uint pair) {
    uint magnitude = pair & 0x7fff7fffu;
    uint nan = magnitude + 0x03ff03ffu & 0x80008000u;
    magnitude = min_halves(magnitude | nan >> 6, 0x7effu);
    magnitude = magnitude + 0x007f007fu + (magnitude >> 8 & 0x00010001u);
    return (magnitude >> 8 & 0x007f007fu) | (pair >> 8 & 0x00800080u);
}

// The low bytes of four halves.
uint low_bytes(uint low, uint high) {
    low |= low >> 8;
    high |= high >> 8;
    return (low & 0xffffu) | high << 16;
}
