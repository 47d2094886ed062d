// The quads of elements in vectors of one, two or four words.
// Quad `q` of a vector, in register form.
uvec4 quad_of(uint type, uvec4 words, uint q) {
    uint width = type_bytes(type);
    if (width == 4u) return words;
    if (width == 2u) {
        uint low = words[2u * q], high = words[2u * q + 1u];
#if defined(HALF)
        if (type == T_F16) return floatBitsToUint(f16_pairs(low, high));
#endif
        if (type == T_BF16) return uvec4(low << 16, low & 0xffff0000u, high << 16, high & 0xffff0000u);
        return widen(type, uvec4(low & 0xffffu, low >> 16, high & 0xffffu, high >> 16));
    }
    uint word = words[q];
#if defined(HALF)
    if (type == T_E4M3) return e4m3_quad(word);
    if (type == T_E5M2) return e5m2_quad(word);
#endif
    return widen(type, uvec4(word) >> uvec4(0, 8, 16, 24) & 0xffu);
}
#include "common/quad_words.glsl"
