// ROWS rows of C by COLUMNS columns a lane, without shared memory or barriers. The elements of A are the same for
// the whole workgroup, and B is read once, along the lanes. For few rows on any device; and for all products on
// CPU implementations, where shared memory is ordinary memory and a load takes far longer than a multiplication:
// there the lanes of a subgroup load different elements of A and pass them around (SHARE).
// variant plain_f32 IN=F32 OUT=F32
// variant plain_f16 IN=F16 OUT=F16
// variant plain_f16f32 IN=F16 OUT=F32
// variant plain_bf16f32 IN=BF16 OUT=F32
// variant plain_i8 IN=I8 OUT=I32
// variant plain_bf16 IN=BF16 OUT=BF16
// variant image_f32 IN=F32 OUT=F32 IMAGE
// variant image_f16 IN=F16 OUT=F16 IMAGE
// variant image_bf16 IN=BF16 OUT=BF16 IMAGE
// variant image_i8 IN=I8 OUT=I32 IMAGE
// variant plain_e4m3 IN=E4M3 OUT=F16
// variant plain_e5m2 IN=E5M2 OUT=F16
// variant image_e4m3 IN=E4M3 OUT=F16 IMAGE
// variant image_e5m2 IN=E5M2 OUT=F16 IMAGE
// variant plain_f32_fused IN=F32 OUT=F32 EPILOGUE
// variant plain_f16_fused IN=F16 OUT=F16 EPILOGUE
// variant plain_i8_fused IN=I8 OUT=I32 EPILOGUE
// variant image_f32_fused IN=F32 OUT=F32 IMAGE EPILOGUE
// variant image_f16_fused IN=F16 OUT=F16 IMAGE EPILOGUE
// variant image_i8_fused IN=I8 OUT=I32 IMAGE EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "gemm/gemm.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64;
layout(constant_id = 1) const uint ROWS = 8;
layout(constant_id = 2) const uint COLUMNS = 2; // whole output words
layout(constant_id = 3) const uint SHARE = 1; // lanes of a subgroup that share loads of A, 1 for none

Acc sums[ROWS][COLUMNS];
uint64_t a[ROWS]; // addresses of the next elements
uint64_t b[COLUMNS];
#if defined(IMAGE)
bool inside[ROWS];
#endif

Acc load_a(uint r, uint c) {
    Acc x = load_in(a[r], c);
#if !IS_FLOAT
    x -= p.a_zp;
#endif
#if defined(IMAGE)
    x = inside[r] ? x : Acc(0);
#endif
    return x;
}

// Multiplies a row of B by these elements of A.
void accumulate(Acc x[ROWS]) {
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        Acc y = load_in(b[j], 0);
        b[j] += uint64_t(p.b_k) * IN_BYTES;
#if IS_FLOAT
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r][j] = fma(x[r], y, sums[r][j]);
#else
        y -= p.b_zp;
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r][j] += x[r] * y;
#endif
    }
}

void main() {
    uint tiles_m = (p.m + ROWS - 1) / ROWS;
    uint tiles_n = (p.n + LANES * COLUMNS - 1) / (LANES * COLUMNS);
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_m) * tiles_n * p.splits * p.batches) return;
    // Neighbouring workgroups share columns of B.
    uint rest = uint(group);
    uint m0 = rest % tiles_m * ROWS;
    rest /= tiles_m;
    // Lanes past the last column stay, since others may take elements of A from them; they store nothing.
    uint n = (rest % tiles_n * LANES + gl_LocalInvocationID.x) * COLUMNS;
    rest /= tiles_n;
    uint split = rest % p.splits;
    uint batch = rest / p.splits;
    uint begin = split * p.chunk;

    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        uint at = batch * p.k * p.n + begin * p.b_k + min(n + j, p.n - 1) * p.b_n;
        b[j] = p.b + uint64_t(at) * IN_BYTES;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) sums[r][j] = Acc(0);
    }
    // Rows past the end repeat the last one and are not stored.
    Row rows[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) rows[r] = row_of(batch, min(m0 + r, p.m - 1));
#if defined(IMAGE)
    uint run = p.in_c;
    for (uint tap = 0; tap < p.k / run; tap++) {
        Tap found = p.windows.taps[tap];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            inside[r] = (rows[r].outside & found.bits) == 0;
            uint at = inside[r] ? rows[r].start + uint(found.offset) : 0;
            a[r] = p.a + uint64_t(at) * IN_BYTES;
        }
#else
    uint run = min(begin + p.chunk, p.k) - begin;
    [[unroll]] for (uint r = 0; r < ROWS; r++) a[r] = p.a + uint64_t(rows[r].start + begin) * IN_BYTES;
    {
#endif
        uint c = 0;
        if (SHARE > 1) {
            for (; c + SHARE <= run; c += SHARE) {
                Acc mine[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++) mine[r] = load_a(r, c + gl_SubgroupInvocationID % SHARE);
                [[unroll]] for (uint u = 0; u < SHARE; u++) {
                    Acc x[ROWS];
                    [[unroll]] for (uint r = 0; r < ROWS; r++) x[r] = subgroupBroadcast(mine[r], u);
                    accumulate(x);
                }
            }
        }
        for (; c < run; c++) {
            Acc x[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) x[r] = load_a(r, c);
            accumulate(x);
        }
    }
    if (n >= p.n) return;
#if defined(EPILOGUE)
    const uint STEP = COLUMNS;
#else
    const uint STEP = OUT_A_WORD;
#endif
    begin_columns(n, min(STEP, p.n - n));
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (m0 + r >= p.m) break;
        uint row = batch * p.m + m0 + r;
        [[unroll]] for (uint j = 0; j < COLUMNS; j += STEP) {
            if (n + j >= p.n) break;
            uint own = min(STEP, p.n - n - j);
            Acc4 word = Acc4(0);
            [[unroll]] for (uint i = 0; i < STEP; i++) word[i] = sums[r][j + i];
            if (p.splits > 1) {
                store_partial(split, row, n + j, own, word);
            } else {
                store_sums(row, n + j, own, word);
            }
        }
    }
}
