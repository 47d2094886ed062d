// A tile of C a workgroup, on the matrix units (VK_KHR_cooperative_matrix): slabs of A and B are staged in shared
// memory by 16-byte vectors while the slab before them is multiplied, and each subgroup keeps WARP_M x WARP_N sums.
// ROWS_OF_K: B is stored [n][k]. FP8 is widened to FP16 when it is staged.
// variant matmul_f16 IN=F16 OUT=F16
// variant matmul_f16f32 IN=F16 OUT=F32
// variant matmul_bf16f32 IN=BF16 OUT=F32
// variant matmul_i8 IN=I8 OUT=I32
// variant matmul_e4m3 IN=E4M3 OUT=F16
// variant matmul_e5m2 IN=E5M2 OUT=F16
// variant pointwise_f16 IN=F16 OUT=F16 ROWS_OF_K
// variant pointwise_bf16 IN=BF16 OUT=BF16 ROWS_OF_K
// variant pointwise_i8 IN=I8 OUT=I32 ROWS_OF_K
// variant pointwise_e4m3 IN=E4M3 OUT=F16 ROWS_OF_K
// variant pointwise_e5m2 IN=E5M2 OUT=F16 ROWS_OF_K
// variant conv_f16 IN=F16 OUT=F16 ROWS_OF_K IMAGE
// variant conv_bf16 IN=BF16 OUT=BF16 ROWS_OF_K IMAGE
// variant conv_i8 IN=I8 OUT=I32 ROWS_OF_K IMAGE
// variant conv_e4m3 IN=E4M3 OUT=F16 ROWS_OF_K IMAGE
// variant conv_e5m2 IN=E5M2 OUT=F16 ROWS_OF_K IMAGE
// variant matmul_f16_fused IN=F16 OUT=F16 EPILOGUE
// variant matmul_i8_fused IN=I8 OUT=I32 EPILOGUE
// variant pointwise_f16_fused IN=F16 OUT=F16 ROWS_OF_K EPILOGUE
// variant pointwise_i8_fused IN=I8 OUT=I32 ROWS_OF_K EPILOGUE
// variant conv_f16_fused IN=F16 OUT=F16 ROWS_OF_K IMAGE EPILOGUE
// variant conv_i8_fused IN=I8 OUT=I32 ROWS_OF_K IMAGE EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "gemm/gemm.glsl"
#include "gemm/matrix_stage.glsl"
#include "gemm/parts.glsl"
#if IN == BF16
#extension GL_EXT_bfloat16 : require
#endif
#include "gemm/matrix_tile.glsl"

// Shared memory in vectors. A vector more than needed in each row puts rows on different banks.
const uint A_ACROSS = SLAB / VECTOR;
const uint A_ROW = A_ACROSS + 1;
const uint A_VECTORS = TILE_M * A_ACROSS / LANES;
const uint A_STEP = LANES / A_ACROSS; // rows that the lanes stage at once
#if defined(ROWS_OF_K)
const uint B_ROWS = TILE_N;
const uint B_ACROSS = SLAB / VECTOR;
#else
const uint B_ROWS = SLAB;
const uint B_ACROSS = TILE_N / VECTOR;
#endif
const uint B_ROW = B_ACROSS + 1;
const uint B_VECTORS = B_ROWS * B_ACROSS / LANES;
const uint B_STEP = LANES / B_ACROSS;
const uint B_START = TILE_M * A_ROW;
const uint STAGED = B_START + B_ROWS * B_ROW;
shared uvec4 slab[STAGED > STORED ? STAGED : STORED];
#include "gemm/matrix_store.glsl"

// A vector of A's row from a column on, which lies in one piece: the channels of images are whole vectors. What lies outside is loaded
// from elsewhere, so that no load waits for a condition.
uvec4 whole_a(Row row, Column column) {
#if defined(IMAGE)
    uint64_t address = p.a + uint64_t(row.start + column.offset) * IN_BYTES;
    if ((row.outside & column.bits) != 0) address = uint64_t(p.windows) + OUTSIDE_AT;
    return load_vector(address);
#else
    return load_vector(p.a + (uint64_t(row.start) + column.offset) * IN_BYTES);
#endif
}

// The same of B: along k of column n, or along n of row k.
uint64_t address_of_b(uint64_t b, uint k, uint n) {
#if defined(ROWS_OF_K)
    return b + (uint64_t(n) * p.k + k) * IN_BYTES;
#else
    return b + (uint64_t(k) * p.b_k + n) * IN_BYTES;
#endif
}

uvec4 parts_of_b(uint64_t b, uint k, uint n, uint end) {
    uvec4 vector = uvec4(0);
#if defined(ROWS_OF_K)
    uint count = n < p.n && k < end ? end - k : 0;
#else
    uint count = k < end && n < p.n ? p.n - n : 0;
#endif
    for (uint i = 0; i < VECTOR; i++) {
        if (i >= count) break;
        put(vector, i, load_bits(address_of_b(b, k, n) + i * IN_BYTES));
    }
    return vector;
}

#if defined(ROWS_OF_K)
const uint B_K_STEP = 0; // from one of a lane's vectors of B to the next
const uint B_N_STEP = B_STEP;
#else
const uint B_K_STEP = B_STEP;
const uint B_N_STEP = 0;
#endif

void main() {
    Tile tile;
    if (!find_tile(tile)) return;
    uint batch = tile.batch, m0 = tile.m0, n0 = tile.n0, begin = tile.begin, end = tile.end;

    // Staging: a lane always loads the same part of a row of A, and of B. Rows and columns past the end repeat the last
    // ones and are not stored, so that only the end of k needs care.
    uint lane = gl_LocalInvocationIndex;
    uint a_k = lane % A_ACROSS * VECTOR;
    uint a_m = lane / A_ACROSS;
    Row rows[A_VECTORS];
    [[unroll]] for (uint i = 0; i < A_VECTORS; i++) rows[i] = row_of(batch, min(m0 + a_m + i * A_STEP, p.m - 1));
#if defined(ROWS_OF_K)
    uint64_t b = p.b + uint64_t(batch) * p.n * p.k * IN_BYTES;
#else
    uint64_t b = p.b + uint64_t(batch) * p.k * p.b_k * IN_BYTES; // b_k is n, or more
#endif
#if defined(IMAGE)
    bool aligned = lies_aligned(p.a, p.in_c) && lies_aligned(b, p.k);
#elif defined(ROWS_OF_K)
    bool aligned = lies_aligned(p.a, p.k) && lies_aligned(b, p.k);
#else
    bool aligned = lies_aligned(p.a, p.k) && lies_aligned(b, p.b_k);
#endif
#if defined(ROWS_OF_K)
    uint b_k = lane % B_ACROSS * VECTOR;
    uint b_n = n0 + lane / B_ACROSS, b_last = p.n - 1;
#else
    uint b_k = lane / B_ACROSS;
    uint b_n = n0 + lane % B_ACROSS * VECTOR, b_last = p.b_k - min(VECTOR, p.b_k);
#endif

    [[unroll]] for (uint i = 0; i < NI * NJ; i++) sums[i] = Sums(0);
    uint warp_m = tile.warp_m, warp_n = tile.warp_n;
    uint a_place = a_m * A_ROW + lane % A_ACROSS;
    uint b_place = B_START + lane / B_ACROSS * B_ROW + lane % B_ACROSS;
    uvec4 next_a[A_VECTORS], next_b[B_VECTORS];
    // Whether the slab at k waits in registers. The last, partial one and what does not lie aligned go straight to shared memory.
    bool waits = aligned && begin + SLAB <= end;
    Column column = column_of(begin + a_k, end);
    if (waits) {
        [[unroll]] for (uint i = 0; i < A_VECTORS; i++) next_a[i] = whole_a(rows[i], column);
        [[unroll]] for (uint i = 0; i < B_VECTORS; i++) {
            next_b[i] = load_vector(address_of_b(b, begin + b_k + i * B_K_STEP, min(b_n + i * B_N_STEP, b_last)));
        }
    }
    column = column_of(begin + SLAB + a_k, end); // a slab ahead, since what it is made of has to arrive as well
    for (uint k = begin; k < end; k += SLAB) {
        barrier();
        if (waits) {
            [[unroll]] for (uint i = 0; i < A_VECTORS; i++) slab[a_place + i * A_STEP * A_ROW] = next_a[i];
            [[unroll]] for (uint i = 0; i < B_VECTORS; i++) slab[b_place + i * B_STEP * B_ROW] = next_b[i];
        } else {
            [[dont_unroll]] for (uint i = 0; i < A_VECTORS; i++) {
                Row row = row_of(batch, min(m0 + a_m + i * A_STEP, p.m - 1));
                uvec4 vector = uvec4(0);
                if (!aligned) vector = parts_of_a(row, k + a_k, end);
                else if (k + a_k < end) vector = whole_a(row, column_of(k + a_k, end)); // aligned rows end with a whole vector
                slab[a_place + i * A_STEP * A_ROW] = vector;
            }
            [[dont_unroll]] for (uint i = 0; i < B_VECTORS; i++) {
                uint b_row = k + b_k + i * B_K_STEP, b_column = b_n + i * B_N_STEP;
                uvec4 vector = uvec4(0);
                if (!aligned) vector = parts_of_b(b, b_row, b_column, end);
                else if (b_row < end) vector = load_vector(address_of_b(b, b_row, min(b_column, b_last)));
                slab[b_place + i * B_STEP * B_ROW] = vector;
            }
        }
        barrier();
        // The slab after this one arrives while this one is multiplied.
        uint after = k + SLAB;
        waits = aligned && after + SLAB <= end;
        if (waits) {
            [[unroll]] for (uint i = 0; i < A_VECTORS; i++) next_a[i] = whole_a(rows[i], column);
            [[unroll]] for (uint i = 0; i < B_VECTORS; i++) {
                next_b[i] = load_vector(address_of_b(b, after + b_k + i * B_K_STEP, min(b_n + i * B_N_STEP, b_last)));
            }
            column = column_of(after + SLAB + a_k, end);
        }
        [[unroll]] for (uint kk = 0; kk < SLAB; kk += UNIT_K) {
            Left left[NI];
            [[unroll]] for (uint i = 0; i < NI; i++) {
                coopMatLoad(left[i], slab, (warp_m + i * UNIT_M) * A_ROW + kk / VECTOR, A_ROW,
                            gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0; j < NJ; j++) {
                Right right;
#if defined(ROWS_OF_K)
                coopMatLoad(right, slab, B_START + (warp_n + j * UNIT_N) * B_ROW + kk / VECTOR, B_ROW,
                            gl_CooperativeMatrixLayoutColumnMajor);
#else
                coopMatLoad(right, slab, B_START + kk * B_ROW + (warp_n + j * UNIT_N) / VECTOR, B_ROW,
                            gl_CooperativeMatrixLayoutRowMajor);
#endif
                [[unroll]] for (uint i = 0; i < NI; i++) {
                    sums[i * NJ + j] = coopMatMulAdd(left[i], right, sums[i * NJ + j]);
                }
            }
        }
    }
    barrier();
    store_tile(tile);
}
