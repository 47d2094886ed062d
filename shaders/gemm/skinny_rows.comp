// A few rows of A by B as [n][k], as the weights of a 1x1 convolution are: a subgroup walks along k of LOADS columns, 16 bytes
// an invocation, and its invocations' sums are added at the end. LANES_N is the size of a subgroup.
// variant float FLOAT
// variant int
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common/prelude.glsl"
#include "common/repeat.glsl"
#include "gemm/skinny.glsl"

const uint COLUMNS = LOADS;
const uint ROUND = LANES_N * VECTOR; // k of a round of loads

// Quads of A by round, quad of an invocation's vector, invocation; a slab for each row.
shared Acc4 a_slab[ROWS * SLAB / 4u];

Acc add_products(Acc4 a, Acc4 b, Acc sum) {
#if defined(FLOAT)
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
#else
    Acc4 terms = a * b;
    return sum + terms.x + terms.y + terms.z + terms.w;
#endif
}

void main() {
    const uint group_columns = LANES / LANES_N * COLUMNS;
    uint tiles_n = (p.n + group_columns - 1u) / group_columns;
    uint tiles_m = (p.m + ROWS - 1u) / ROWS;
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_n) * tiles_m * p.splits * p.batches) return;
    // Neighbouring workgroups share columns of B.
    uint rest = uint(group);
    uint m0 = rest % tiles_m * ROWS;
    rest /= tiles_m;
    uint n0 = rest % tiles_n * group_columns + gl_SubgroupID * COLUMNS;
    rest /= tiles_n;
    uint split = rest % p.splits;
    uint batch = rest / p.splits;
    uint begin = split * p.chunk;
    uint end = min(begin + p.chunk, p.k);
    uint64_t row0 = uint64_t(batch) * p.m + m0;
    uint rows = min(ROWS, p.m - m0);

    uint own = gl_SubgroupInvocationID * VECTOR;
    bool aligned = aligned16(p.b);
    // Columns past the last repeat it and are not stored.
    uint64_t b[8];
    Acc sums[8][8];
    uint nans[8];
    REPEAT8(c, COLUMNS,
        b[c] = p.b + ((uint64_t(batch) * p.n + min(n0 + c, p.n - 1u)) * p.k + own) * B_BYTES;
        nans[c] = 0u;
        REPEAT8(r, ROWS, sums[r][c] = Acc(0);)
    )
    for (uint k0 = begin; k0 < end; k0 += SLAB) {
        if (k0 > begin) barrier();
        for (uint i = gl_LocalInvocationID.x; i < SLAB * ROWS; i += LANES) {
            uint r = i / SLAB;
            uint k = i % SLAB;
            uint in_round = k % ROUND;
            uint quad = (k / ROUND * QUADS + in_round % VECTOR / 4u) * LANES_N + in_round / VECTOR;
            a_slab[r * (SLAB / 4u) + quad][k % 4u] = load_a(row0 + min(r, rows - 1u), k0 + k, end);
        }
        barrier();
        uint depth = min(SLAB, end - k0);
        for (uint round = 0u; round < depth; round += ROUND) {
            uvec4 words[8];
            uint64_t at = uint64_t(k0 + round) * B_BYTES;
            bool inside = round + own < depth;
            if (inside && aligned) {
                REPEAT8(c, COLUMNS, words[c] = PtrU32x4(b[c] + at).v;)
            } else if (inside) {
                REPEAT8(c, COLUMNS, words[c] = load16_slow(b[c] + at, 4u);)
            } else {
                REPEAT8(c, COLUMNS, words[c] = uvec4(0u);)
            }
            uint slab_at = round / ROUND * QUADS * LANES_N + gl_SubgroupInvocationID;
            REPEAT4(q, QUADS,
                Acc4 a[8];
                REPEAT8(r, ROWS, a[r] = a_slab[r * (SLAB / 4u) + slab_at + q * LANES_N];)
                REPEAT8(c, COLUMNS,
                    Acc4 x = decode(words[c], q);
                    nans[c] |= nan_codes(words[c][q]);
                    REPEAT8(r, ROWS, sums[r][c] = add_products(a[r], x, sums[r][c]);)
                )
            )
        }
    }

    REPEAT8(r, ROWS, REPEAT8(c, COLUMNS,
        Acc total = rescaled(sums[r][c]);
        if (nans[c] != 0u) total = not_a_number();
        total = subgroupAdd(total);
        if (gl_SubgroupInvocationID == (r * COLUMNS + c) % LANES_N && r < rows && n0 + c < p.n) {
            store_part(split, row0 + r, n0 + c, total);
        }
    ))
}
