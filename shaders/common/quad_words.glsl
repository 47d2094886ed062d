// The words of a quad. `is_short`: BF16 holds its numbers; or, for FP8, FP16 does or holds whatever rounds to the same FP8.
uvec4 words_of(uint type, uvec4 x, bool is_short) {
    uint width = type_bytes(type);
    if (is_short && type == T_BF16) {
        return uvec4(x.x >> 16 | x.y & 0xffff0000u, x.z >> 16 | x.w & 0xffff0000u, 0u, 0u);
    }
#if defined(HALF)
    if (type == T_F16) return uvec4(pack_f16(uintBitsToFloat(x)), 0u, 0u);
    if (is_short && (type == T_E4M3 || type == T_E5M2)) {
        uvec2 pairs = pack_f16(uintBitsToFloat(x));
        return uvec4(fp8_of_halves(type == T_E4M3, pairs.x, pairs.y));
    }
#endif
    x = narrow(type, x);
    if (width == 4u) return x;
    if (width == 2u) {
        x &= 0xffffu;
        return uvec4(x.x | x.y << 16, x.z | x.w << 16, 0u, 0u);
    }
    x = (x & 0xffu) << uvec4(0, 8, 16, 24);
    return uvec4(x.x | x.y | x.z | x.w);
}
