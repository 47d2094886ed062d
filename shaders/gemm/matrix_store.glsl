#if IN == I8 && !defined(IMAGE)
#define ZERO_POINTS
int load_term(uint at) {
    return PtrI32(p.bias + uint64_t(at) * 4).v;
}
#endif

// Stores the sums of a subgroup through its own part of `slab`, shared memory of at least STORED vectors; lanes take four
// columns of a row at once.
void store_tile(Tile tile) {
    uint part = gl_SubgroupID * OUT_PART;
    const uint QUADS = WARP_N / 4; // divides the subgroup
    uint quad = gl_SubgroupInvocationID % QUADS;
    uint n = tile.n0 + tile.warp_n + quad * 4;
    uint count = n < p.n ? min(4, p.n - n) : 0;
    if (count > 0) begin_columns(n, count);
#if defined(ZERO_POINTS)
    bool corrected = p.bias_step == 3 && tile.split == 0;
    Acc4 column_terms = Acc4(0);
    [[unroll]] for (uint j = 0; j < 4; j++) {
        if (corrected && j < count) column_terms[j] = load_term(p.batches * p.m + tile.batch * p.n + n + j);
    }
#endif
    [[unroll]] for (uint i = 0; i < NI; i++) {
        [[unroll]] for (uint j = 0; j < NJ; j++) {
            coopMatStore(sums[i * NJ + j], slab, part + j * (UNIT_N / 4), OUT_ROW, gl_CooperativeMatrixLayoutRowMajor);
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
        for (uint r = gl_SubgroupInvocationID / QUADS; r < UNIT_M; r += WIDTH_OF_SUBGROUP / QUADS) {
            uint m = tile.m0 + tile.warp_m + i * UNIT_M + r;
            if (m >= p.m || count == 0) continue;
            uvec4 bits = slab[part + r * OUT_ROW + quad];
#if IS_FLOAT
            Acc4 four = uintBitsToFloat(bits);
#else
            Acc4 four = Acc4(bits);
#endif
            uint row = tile.batch * p.m + m;
#if defined(ZERO_POINTS)
            if (corrected) four += load_term(row) + column_terms;
#endif
            if (p.splits > 1) {
                store_partial(tile.split, row, n, count, four);
            } else {
                store_sums(row, n, count, four);
            }
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
}
