// Large products in FP32 without matrix units: a tile of C a workgroup, a block of C an invocation. Slabs of A and B come 16 bytes
// an invocation into registers while the slab before is multiplied, then into one of two buffers in shared memory. Rows of
// A and B are whole vectors of 16 bytes. ROWS_OF_K: B is stored [n][k], as weights are.
// variant matmul_f32 IN=F32 OUT=F32
// variant matmul_f32_fused IN=F32 OUT=F32 EPILOGUE
// variant pointwise_f32 IN=F32 OUT=F32 ROWS_OF_K
// variant pointwise_f32_fused IN=F32 OUT=F32 ROWS_OF_K EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "common/repeat.glsl"
#include "common/vector16.glsl"
#include "gemm/gemm.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256;
layout(constant_id = 1) const uint LANES_N = 16; // invocations along n
layout(constant_id = 2) const uint QUADS_M = 2;  // 4 x 4 blocks of an invocation along m
layout(constant_id = 3) const uint QUADS_N = 2;  // and along n
layout(constant_id = 4) const uint SLAB = 16;    // k of a slab
layout(constant_id = 5) const uint STEP = 1;     // k multiplied at a time, at most 8; divides the slab

const uint LANES_M = LANES / LANES_N;
const uint ROWS = 4 * LANES_M * QUADS_M;
const uint COLUMNS = 4 * LANES_N * QUADS_N;
const uint A_LOADS = ROWS * SLAB / 4 / LANES;
const uint B_LOADS = COLUMNS * SLAB / 4 / LANES;
// A quad more than needed keeps transposed stores off each other's banks.
const uint A_PITCH = ROWS / 4 + 1;
const uint B_PITCH = COLUMNS / 4 + 1;

shared vec4 a_slab[2 * SLAB * A_PITCH]; // [k][quad of rows]
shared vec4 b_slab[2 * SLAB * B_PITCH]; // [k][quad of columns]

vec4 load4(uint64_t at, bool aligned) {
    return uintBitsToFloat(aligned ? PtrU32x4(at).v : load16_slow(at, 4));
}

// The share of a slab of B that has this number: where it starts at k = 0, its k in the slab, and its place in shared memory.
#if defined(ROWS_OF_K)
#define B_STEP 1
uint b_depth(uint serial) {
    return serial % (SLAB / 4) * 4;
}

uint64_t b_start(uint batch, uint n0, uint serial) {
    uint column = min(n0 + serial / (SLAB / 4), p.n - 1);
    return p.b + ((uint64_t(batch) * p.n + column) * p.k + b_depth(serial)) * 4;
}

void store_b(uint at, uint serial, vec4 x) {
    uint column = serial / (SLAB / 4);
    uint k = at + b_depth(serial);
    b_slab[k * B_PITCH + column / 4][column % 4] = x.x;
    b_slab[(k + 1) * B_PITCH + column / 4][column % 4] = x.y;
    b_slab[(k + 2) * B_PITCH + column / 4][column % 4] = x.z;
    b_slab[(k + 3) * B_PITCH + column / 4][column % 4] = x.w;
}
#else
#define B_STEP p.n
uint b_depth(uint serial) {
    return serial / (COLUMNS / 4);
}

uint64_t b_start(uint batch, uint n0, uint serial) {
    uint column = min(n0 + serial % (COLUMNS / 4) * 4, p.n - 4);
    return p.b + (uint64_t(batch) * p.k * p.n + column + uint64_t(b_depth(serial)) * p.n) * 4;
}

void store_b(uint at, uint serial, vec4 x) {
    b_slab[(at + b_depth(serial)) * B_PITCH + serial % (COLUMNS / 4)] = x;
}
#endif

void store_row(uint batch, uint split, uint m, uint n, uint count, vec4 row_sums) {
    if (m >= p.m) return;
    uint row = batch * p.m + m;
    if (p.splits > 1) store_partial(split, row, n, count, row_sums);
    else store_sums(row, n, count, row_sums);
}

void main() {
    uint tiles_n = (p.n + COLUMNS - 1) / COLUMNS;
    uint tiles_m = (p.m + ROWS - 1) / ROWS;
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_n) * tiles_m * p.splits * p.batches) return;
    // Eight rows of tiles at a time, so that those at work share slabs in the cache.
    uint rest = uint(group % (uint64_t(tiles_n) * tiles_m));
    uint band = rest / (8 * tiles_n);
    uint in_band = rest % (8 * tiles_n);
    uint height = min(8, tiles_m - band * 8);
    uint m0 = (band * 8 + in_band % height) * ROWS;
    uint n0 = in_band / height * COLUMNS;
    uint batch = uint(group / (uint64_t(tiles_n) * tiles_m));
    uint split = batch % p.splits;
    batch /= p.splits;
    uint begin = split * p.chunk;
    uint end = min(begin + p.chunk, p.k);

    uint lane = gl_LocalInvocationID.x;
    uint lane_n = lane % LANES_N;
    uint lane_m = lane / LANES_N;
    bool aligned = aligned16(p.a | p.b);
    // Where an invocation's share of the slabs comes from. What lies past the last row or column repeats it and is not stored.
    uint64_t a_from[4];
    uint64_t b_from[4];
    REPEAT4(i, A_LOADS,
        uint serial = lane + i * LANES;
        uint row = min(m0 + serial / (SLAB / 4), p.m - 1);
        a_from[i] = p.a + ((uint64_t(batch) * p.m + row) * p.k + serial % (SLAB / 4) * 4) * 4;
    )
    REPEAT4(i, B_LOADS,
        uint serial = lane + i * LANES;
        b_from[i] = b_start(batch, n0, serial);
    )
    vec4 sums[16][2];
    REPEAT4(i, QUADS_M, REPEAT2(j, QUADS_N,
        sums[4 * i][j] = vec4(0);
        sums[4 * i + 1][j] = vec4(0);
        sums[4 * i + 2][j] = vec4(0);
        sums[4 * i + 3][j] = vec4(0);
    ))
    // A round loads a slab, multiplies the one before and then stores what was loaded.
    uint other = 0;
    for (uint k0 = begin; k0 < end + SLAB; k0 += SLAB) {
        vec4 a_next[4];
        vec4 b_next[4];
        REPEAT4(i, A_LOADS,
            a_next[i] = vec4(0);
            if (k0 + (lane + i * LANES) % (SLAB / 4) * 4 < end) a_next[i] = load4(a_from[i] + uint64_t(k0) * 4, aligned);
        )
        REPEAT4(i, B_LOADS,
            b_next[i] = vec4(0);
            if (k0 + b_depth(lane + i * LANES) < end) b_next[i] = load4(b_from[i] + uint64_t(k0) * B_STEP * 4, aligned);
        )
        if (k0 > begin) {
            uint a_at = (SLAB - other) * A_PITCH + lane_m;
            uint b_at = (SLAB - other) * B_PITCH + lane_n;
            for (uint k = 0; k < SLAB; k += STEP) {
                REPEAT8(s, STEP,
                    vec4 a[4];
                    vec4 b[2];
                    REPEAT4(i, QUADS_M, a[i] = a_slab[a_at + s * A_PITCH + i * LANES_M];)
                    REPEAT2(j, QUADS_N, b[j] = b_slab[b_at + s * B_PITCH + j * LANES_N];)
                    REPEAT4(i, QUADS_M, REPEAT2(j, QUADS_N,
                        sums[4 * i][j] = fma(vec4(a[i].x), b[j], sums[4 * i][j]);
                        sums[4 * i + 1][j] = fma(vec4(a[i].y), b[j], sums[4 * i + 1][j]);
                        sums[4 * i + 2][j] = fma(vec4(a[i].z), b[j], sums[4 * i + 2][j]);
                        sums[4 * i + 3][j] = fma(vec4(a[i].w), b[j], sums[4 * i + 3][j]);
                    ))
                )
                a_at += STEP * A_PITCH;
                b_at += STEP * B_PITCH;
            }
        }
        REPEAT4(i, A_LOADS,
            uint serial = lane + i * LANES;
            uint row = serial / (SLAB / 4);
            uint k = other + serial % (SLAB / 4) * 4;
            a_slab[k * A_PITCH + row / 4][row % 4] = a_next[i].x;
            a_slab[(k + 1) * A_PITCH + row / 4][row % 4] = a_next[i].y;
            a_slab[(k + 2) * A_PITCH + row / 4][row % 4] = a_next[i].z;
            a_slab[(k + 3) * A_PITCH + row / 4][row % 4] = a_next[i].w;
        )
        REPEAT4(i, B_LOADS, store_b(other, lane + i * LANES, b_next[i]);)
        barrier();
        other = SLAB - other;
    }
    REPEAT2(j, QUADS_N,
        uint n = n0 + 4 * (lane_n + j * LANES_N);
        if (n < p.n) {
            uint count = min(4, p.n - n);
            begin_columns(n, count);
            REPEAT4(i, QUADS_M,
                store_row(batch, split, m0 + 4 * (lane_m + i * LANES_M), n, count, sums[4 * i][j]);
                store_row(batch, split, m0 + 4 * (lane_m + i * LANES_M) + 1, n, count, sums[4 * i + 1][j]);
                store_row(batch, split, m0 + 4 * (lane_m + i * LANES_M) + 2, n, count, sums[4 * i + 2][j]);
                store_row(batch, split, m0 + 4 * (lane_m + i * LANES_M) + 3, n, count, sums[4 * i + 3][j]);
            )
        }
    )
}
