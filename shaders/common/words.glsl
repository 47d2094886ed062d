#ifndef WORDS_GLSL
#define WORDS_GLSL
// Vectors of one, two or four words. Addresses are multiples of 4, and nobody promises more.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer PtrU32x4 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PtrU32x2 { uvec2 v; };

uvec4 load_words(uint64_t at, uint words) {
    if (words == 1u) return uvec4(PtrU32(at).v);
    if (words == 2u) {
        if ((uint(at) & 7u) == 0u) return PtrU32x2(at).v.xyxy;
        return uvec4(PtrU32(at).v, PtrU32(at + 4).v, 0u, 0u);
    }
    if ((uint(at) & 15u) == 0u) return PtrU32x4(at).v;
    return uvec4(PtrU32(at).v, PtrU32(at + 4).v, PtrU32(at + 8).v, PtrU32(at + 12).v);
}

void store_words(uint64_t at, uint words, uvec4 x) {
    if (words == 1u) {
        PtrU32(at).v = x.x;
    } else if (words == 2u && (uint(at) & 7u) == 0u) {
        PtrU32x2(at).v = x.xy;
    } else if (words == 4u && (uint(at) & 15u) == 0u) {
        PtrU32x4(at).v = x;
    } else {
        PtrU32(at).v = x.x;
        PtrU32(at + 4).v = x.y;
        if (words == 4u) {
            PtrU32(at + 8).v = x.z;
            PtrU32(at + 12).v = x.w;
        }
    }
}
#endif
