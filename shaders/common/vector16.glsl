#ifndef VECTOR16_GLSL
#define VECTOR16_GLSL
// Sixteen bytes of elements at a time, which is what fills a memory bus. Elements widen with the device's own FP16
// conversion, as products do: it is exact, and a driver may only take subnormals for zero.
#include "common/convert.glsl"
#include "common/words.glsl"

// Whether 16 bytes can be loaded at once from there. Bound buffers start at any multiple of 4.
bool aligned16(uint64_t at) {
    return (uint(at) & 15u) == 0u;
}

// The same bytes by single elements.
uvec4 load16_slow(uint64_t at, uint width) {
    uvec4 words = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint64_t word = at + i * 4u;
        if (width == 4u) words[i] = PtrU32(word).v;
        else if (width == 2u) words[i] = uint(PtrU16(word).v) | uint(PtrU16(word + 2).v) << 16;
        else {
            words[i] = uint(PtrU8(word).v) | uint(PtrU8(word + 1).v) << 8 | uint(PtrU8(word + 2).v) << 16 |
                       uint(PtrU8(word + 3).v) << 24;
        }
    }
    return words;
}

uvec4 load16(uint64_t at, uint width) {
    return aligned16(at) ? PtrU32x4(at).v : load16_slow(at, width);
}

// Two E4M3 codes in the high bytes of the halves of a word, as FP16 times 2^-8. The code of NaN becomes 480.
uint e4m3_as_halves(uint pair) {
    return (pair & 0x80008000u) | (pair >> 1 & 0x3f803f80u);
}

uvec4 widened_halves(uint low, uint high) {
    return floatBitsToUint(vec4(unpackHalf2x16(low), unpackHalf2x16(high)));
}

// Elements 4 * `quad` to 4 * `quad` + 3 of a vector, in register form.
uvec4 quad_of(uint type, uvec4 words, uint quad) {
    if (type_bytes(type) == 4u) return words;
    if (type_bytes(type) == 2u) {
        uint low = quad == 0u ? words.x : words.z, high = quad == 0u ? words.y : words.w;
        if (type == T_F16) return widened_halves(low, high);
        if (type == T_BF16) return uvec4(low << 16, low & 0xffff0000u, high << 16, high & 0xffff0000u);
        uvec4 raw = uvec4(low & 0xffffu, low >> 16, high & 0xffffu, high >> 16);
        return type == T_I16 ? uvec4(bitfieldExtract(ivec4(raw), 0, 16)) : raw;
    }
    uint word = words[quad];
    if (type == T_E4M3) {
        uvec4 codes = uvec4(word) >> uvec4(0, 8, 16, 24) & 0x7fu;
        vec4 x = uintBitsToFloat(widened_halves(e4m3_as_halves(word << 8), e4m3_as_halves(word))).xzyw * 256.0;
        return mix(floatBitsToUint(x), uvec4(0x7fc00000u), equal(codes, uvec4(0x7fu)));
    }
    if (type == T_E5M2) return widened_halves(word << 8 & 0xff00ff00u, word & 0xff00ff00u).xzyw;
    if (type == T_I8) {
        int bytes = int(word);
        return uvec4(ivec4(bitfieldExtract(bytes, 0, 8), bitfieldExtract(bytes, 8, 8), bitfieldExtract(bytes, 16, 8), bytes >> 24));
    }
    uvec4 raw = uvec4(word) >> uvec4(0, 8, 16, 24) & 0xffu;
    if (type == T_BOOL) return uvec4(notEqual(raw, uvec4(0u)));
    return raw;
}
#endif
