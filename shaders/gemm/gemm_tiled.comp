// A tile of C a workgroup: slabs of A and B are staged in shared memory, and each invocation keeps
// a block of sums in registers. ROWS_OF_K: B is stored [n][k], as convolution weights are, and staged along k.
// variant matmul_f32 IN=F32 OUT=F32
// variant matmul_f16 IN=F16 OUT=F16
// variant matmul_f16f32 IN=F16 OUT=F32
// variant matmul_bf16f32 IN=BF16 OUT=F32
// variant matmul_i8 IN=I8 OUT=I32
// variant pointwise_f32 IN=F32 OUT=F32 ROWS_OF_K
// variant pointwise_f16 IN=F16 OUT=F16 ROWS_OF_K
// variant pointwise_bf16 IN=BF16 OUT=BF16 ROWS_OF_K
// variant pointwise_i8 IN=I8 OUT=I32 ROWS_OF_K
// variant conv_f32 IN=F32 OUT=F32 ROWS_OF_K IMAGE
// variant conv_f16 IN=F16 OUT=F16 ROWS_OF_K IMAGE
// variant conv_bf16 IN=BF16 OUT=BF16 ROWS_OF_K IMAGE
// variant conv_i8 IN=I8 OUT=I32 ROWS_OF_K IMAGE
// variant matmul_e4m3 IN=E4M3 OUT=F16
// variant pointwise_e4m3 IN=E4M3 OUT=F16 ROWS_OF_K
// variant conv_e4m3 IN=E4M3 OUT=F16 ROWS_OF_K IMAGE
// variant matmul_e5m2 IN=E5M2 OUT=F16
// variant pointwise_e5m2 IN=E5M2 OUT=F16 ROWS_OF_K
// variant conv_e5m2 IN=E5M2 OUT=F16 ROWS_OF_K IMAGE
// variant matmul_f32_fused IN=F32 OUT=F32 EPILOGUE
// variant matmul_f16_fused IN=F16 OUT=F16 EPILOGUE
// variant matmul_i8_fused IN=I8 OUT=I32 EPILOGUE
// variant pointwise_f32_fused IN=F32 OUT=F32 ROWS_OF_K EPILOGUE
// variant pointwise_f16_fused IN=F16 OUT=F16 ROWS_OF_K EPILOGUE
// variant pointwise_i8_fused IN=I8 OUT=I32 ROWS_OF_K EPILOGUE
// variant conv_f32_fused IN=F32 OUT=F32 ROWS_OF_K IMAGE EPILOGUE
// variant conv_f16_fused IN=F16 OUT=F16 ROWS_OF_K IMAGE EPILOGUE
// variant conv_i8_fused IN=I8 OUT=I32 ROWS_OF_K IMAGE EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "gemm/gemm.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256;
layout(constant_id = 1) const uint LANES_N = 16; // invocations along n
layout(constant_id = 2) const uint QUADS_M = 1; // 4 x 4 blocks of an invocation along m
layout(constant_id = 3) const uint QUADS_N = 1; // and along n
layout(constant_id = 4) const uint SLAB = 16; // k of a slab; divides LANES

const uint LANES_M = LANES / LANES_N;
const uint ROWS_QUADS = LANES_M * QUADS_M;
const uint COLUMN_QUADS = LANES_N * QUADS_N;
const uint ROWS = 4 * ROWS_QUADS;
const uint COLUMNS = 4 * COLUMN_QUADS;
const uint A_LOADS = ROWS * SLAB / LANES;
const uint B_LOADS = COLUMNS * SLAB / LANES;

// A quad more than needed keeps invocations that store down a column off each other's banks.
shared Acc4 a_slab[SLAB][ROWS_QUADS + 1];
shared Acc4 b_slab[SLAB][COLUMN_QUADS + 1];

void main() {
    uint tiles_n = (p.n + COLUMNS - 1) / COLUMNS;
    uint tiles_m = (p.m + ROWS - 1) / ROWS;
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_n) * tiles_m * p.splits * p.batches) return;
    uint rest = uint(group);
    uint n0 = rest % tiles_n * COLUMNS;
    rest /= tiles_n;
    uint m0 = rest % tiles_m * ROWS;
    rest /= tiles_m;
    uint split = rest % p.splits;
    uint batch = rest / p.splits;
    uint begin = split * p.chunk;
    uint end = min(begin + p.chunk, p.k);

    uint lane = gl_LocalInvocationID.x;
    uint lane_n = lane % LANES_N;
    uint lane_m = lane / LANES_N;
    // Staging: an invocation always loads the same column of A's slab, and these rows.
    uint column = lane % SLAB;
    Row rows[A_LOADS];
    [[unroll]] for (uint i = 0; i < A_LOADS; i++) rows[i] = row_of(batch, m0 + lane / SLAB + i * (LANES / SLAB));

    Acc4 sums[4 * QUADS_M][QUADS_N];
    [[unroll]] for (uint i = 0; i < 4 * QUADS_M; i++) {
        [[unroll]] for (uint j = 0; j < QUADS_N; j++) sums[i][j] = Acc4(0);
    }
    for (uint k0 = begin; k0 < end; k0 += SLAB) {
        Column at = column_of(k0 + column, end);
        [[unroll]] for (uint i = 0; i < A_LOADS; i++) {
            uint row = lane / SLAB + i * (LANES / SLAB);
            a_slab[column][row / 4][row % 4] = load_a(rows[i], at);
        }
        [[unroll]] for (uint i = 0; i < B_LOADS; i++) {
            uint serial = lane + i * LANES;
#if defined(ROWS_OF_K)
            uint k = serial % SLAB;
            uint n = serial / SLAB;
#else
            uint k = serial / COLUMNS;
            uint n = serial % COLUMNS;
#endif
            b_slab[k][n / 4][n % 4] = load_b(batch, k0 + k, n0 + n, end);
        }
        barrier();
        for (uint k = 0; k < SLAB; k++) {
            Acc4 b[QUADS_N];
            [[unroll]] for (uint j = 0; j < QUADS_N; j++) b[j] = b_slab[k][lane_n + j * LANES_N];
            [[unroll]] for (uint i = 0; i < QUADS_M; i++) {
                Acc4 a = a_slab[k][lane_m + i * LANES_M];
                [[unroll]] for (uint r = 0; r < 4; r++) {
                    [[unroll]] for (uint j = 0; j < QUADS_N; j++) {
                        sums[4 * i + r][j] = multiply_add(a[r], b[j], sums[4 * i + r][j]);
                    }
                }
            }
        }
        barrier();
    }
    [[unroll]] for (uint j = 0; j < QUADS_N; j++) {
        uint n = n0 + 4 * (lane_n + j * LANES_N);
        if (n >= p.n) continue;
        uint count = min(4, p.n - n);
        begin_columns(n, count);
        [[unroll]] for (uint i = 0; i < QUADS_M; i++) {
            [[unroll]] for (uint r = 0; r < 4; r++) {
                uint m = m0 + 4 * (lane_m + i * LANES_M) + r;
                if (m >= p.m) continue;
                uint row = batch * p.m + m;
                if (p.splits > 1) {
                    store_partial(split, row, n, count, sums[4 * i + r][j]);
                } else {
                    store_sums(row, n, count, sums[4 * i + r][j]);
                }
            }
        }
    }
}
