// Elements of SIZE bytes as bits, and words of them.
#define A_WORD (4u / SIZE)

uint load_bits(uint64_t base, uint64_t at) {
#if SIZE == 4
    return PtrU32(base + at * 4).v;
#elif SIZE == 2
    return PtrU16(base + at * 2).v;
#else
    return PtrU8(base + at).v;
#endif
}

void store_bits(uint64_t base, uint64_t at, uint bits) {
#if SIZE == 4
    PtrU32(base + at * 4).v = bits;
#elif SIZE == 2
    PtrU16(base + at * 2).v = uint16_t(bits);
#else
    PtrU8(base + at).v = uint8_t(bits);
#endif
}

// Stores the `own` elements of a word whose first element is `first`, a multiple of A_WORD.
void store_word(uint64_t base, uint64_t first, uint word, uint own) {
    if (own == A_WORD) {
        PtrU32(base + first * SIZE).v = word;
    } else {
        for (uint j = 0; j < own; j++) store_bits(base, first + j, word >> (8 * SIZE * j));
    }
}
