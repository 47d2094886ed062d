// Elements of SIZE bytes as bits, and words of them. An element of 16 bytes is a vector, and takes the place of a word.
#if SIZE == 16
#include "common/words.glsl"
#define Bits uvec4
#define A_WORD 1u
#else
#define Bits uint
#define A_WORD (4u / SIZE)
#endif

Bits load_bits(uint64_t base, uint64_t at) {
#if SIZE == 16
    return load_words(base + at * 16, 4u);
#elif SIZE == 4
    return PtrU32(base + at * 4).v;
#elif SIZE == 2
    return PtrU16(base + at * 2).v;
#else
    return PtrU8(base + at).v;
#endif
}

void store_bits(uint64_t base, uint64_t at, Bits bits) {
#if SIZE == 16
    store_words(base + at * 16, 4u, bits);
#elif SIZE == 4
    PtrU32(base + at * 4).v = bits;
#elif SIZE == 2
    PtrU16(base + at * 2).v = uint16_t(bits);
#else
    PtrU8(base + at).v = uint8_t(bits);
#endif
}

// Where an element lies in its word.
#define PLACE(j) (8u * (SIZE & 3u) * (j))

// Stores the `own` elements of a word whose first element is `first`, a multiple of A_WORD.
void store_word(uint64_t base, uint64_t first, Bits word, uint own) {
#if SIZE < 4
    if (own < A_WORD) {
        for (uint j = 0; j < own; j++) store_bits(base, first + j, word >> PLACE(j));
        return;
    }
    PtrU32(base + first * SIZE).v = word;
#else
    store_bits(base, first, word);
#endif
}
