// A vector of A's row from k on in single elements, zeros from `end` on.
uvec4 parts_of_a(Row row, uint k, uint end) {
    uvec4 vector = uvec4(0);
    if (k >= end) return vector;
#if defined(IMAGE)
    uint tap = p.in_c > 1 ? divide(k, p.c_magic, p.c_shift) : k;
    uint c = k - tap * p.in_c;
    Tap found = p.windows.taps[tap];
    for (uint i = 0; i < VECTOR && k + i < end; i++) {
        uint at = row.start + uint(found.offset) + c;
        // Zero but for INT8.
        uint bits = p.windows.outside.x & (WIDTH == 8 ? 0xffu : 0u);
        if ((row.outside & found.bits) == 0) bits = load_bits(p.a + uint64_t(at) * IN_BYTES);
        put(vector, i, bits);
        if (++c == p.in_c) {
            c = 0;
            found = p.windows.taps[++tap]; // the table has one more than there are
        }
    }
#else
    for (uint i = 0; i < VECTOR && k + i < end; i++) {
        put(vector, i, load_bits(p.a + (uint64_t(row.start) + k + i) * IN_BYTES));
    }
#endif
    return vector;
}
