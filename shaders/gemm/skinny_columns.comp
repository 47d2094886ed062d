// A few rows of A by B as [k][n]: an invocation keeps the sums of 16 bytes of columns and walks down k; the workgroup's slices
// of k are added in shared memory.
// variant float FLOAT
// variant int
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/repeat.glsl"
#include "gemm/skinny.glsl"

const uint SLICES = LANES / LANES_N;
const uint ROUND = SLICES * LOADS; // k of a round of loads

shared Acc a_slab[SLAB * ROWS];       // [k][row]
shared Acc4 parts[LANES * QUADS];

#define ACCUMULATE(words, k)                                                         \
    REPEAT4(q, QUADS,                                                                \
        Acc4 x = decode(words, q);                                                   \
        nans[q] |= nan_codes(words[q]);                                              \
        REPEAT8(r, ROWS, sums[r][q] = multiply_add(a_slab[(k) * ROWS + r], x, sums[r][q]);) \
    )

Acc4 finished(Acc4 sum, uint nan) {
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        sum[i] = (nan >> (8u * i) & 0x80u) != 0u ? not_a_number() : rescaled(sum[i]);
    }
    return sum;
}

// Adds the slices of a row and stores it.
void store_parts(uint split, uint64_t row, uint vector0) {
    for (uint at = gl_LocalInvocationID.x; at < LANES_N * QUADS; at += LANES) {
        uint n = vector0 * VECTOR + at * 4u;
        if (n >= p.n) break;
        Acc4 total = parts[at];
        for (uint slice = 1u; slice < SLICES; slice++) total += parts[slice * LANES_N * QUADS + at];
        PtrU32x4(p.dst + ((uint64_t(split) * p.batches * p.m + row) * p.n + n) * 4u).v =
#if defined(FLOAT)
            floatBitsToUint(total);
#else
            uvec4(total);
#endif
    }
}

void main() {
    uint vectors = p.n / VECTOR;
    uint tiles_n = (vectors + LANES_N - 1u) / LANES_N;
    uint tiles_m = (p.m + ROWS - 1u) / ROWS;
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_n) * tiles_m * p.splits * p.batches) return;
    // Neighbouring workgroups share columns of B.
    uint rest = uint(group);
    uint m0 = rest % tiles_m * ROWS;
    rest /= tiles_m;
    uint vector0 = rest % tiles_n * LANES_N;
    rest /= tiles_n;
    uint split = rest % p.splits;
    uint batch = rest / p.splits;
    uint begin = split * p.chunk;
    uint end = min(begin + p.chunk, p.k);

    uint lane = gl_LocalInvocationID.x;
    uint slice = lane / LANES_N;
    uint vector = min(vector0 + lane % LANES_N, vectors - 1u);
    uint64_t row0 = uint64_t(batch) * p.m + m0;
    uint rows = min(ROWS, p.m - m0);
    uint64_t column = p.b + (uint64_t(batch) * p.k * p.n + vector * VECTOR) * B_BYTES;
    uint64_t pitch = uint64_t(p.n) * B_BYTES;
    bool aligned = aligned16(p.b);

    Acc4 sums[8][4];
    uint nans[4];
    REPEAT4(q, QUADS,
        nans[q] = 0u;
        REPEAT8(r, ROWS, sums[r][q] = Acc4(0);)
    )
    for (uint k0 = begin; k0 < end; k0 += SLAB) {
        if (k0 > begin) barrier();
        for (uint i = lane; i < SLAB * ROWS; i += LANES) {
            uint r = i / SLAB;
            uint k = i % SLAB;
            a_slab[k * ROWS + r] = load_a(row0 + min(r, rows - 1u), k0 + k, end);
        }
        barrier();
        uint depth = min(SLAB, end - k0);
        uint64_t from = column + (k0 + slice) * pitch;
        uint k = slice;
        if (aligned) {
            for (; k + (LOADS - 1u) * SLICES < depth; k += ROUND) {
                uvec4 words[8];
                REPEAT8(u, LOADS, words[u] = PtrU32x4(from + u * SLICES * pitch).v;)
                REPEAT8(u, LOADS, ACCUMULATE(words[u], k + u * SLICES))
                from += ROUND * pitch;
            }
        }
        // What is left of the slab, and all of it where vectors cannot be loaded at once.
        for (; k < depth; k += SLICES) {
            uvec4 words = load16(from, 4u);
            ACCUMULATE(words, k)
            from += SLICES * pitch;
        }
    }

    REPEAT8(r, ROWS,
        if (r > 0u) barrier();
        REPEAT4(q, QUADS, parts[lane * QUADS + q] = finished(sums[r][q], nans[q]);)
        barrier();
        if (r < rows) store_parts(split, row0 + r, vector0);
    )
}
