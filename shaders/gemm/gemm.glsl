// C[m][n] = sum over k of A[m][k] * B[k][n] + bias: what the kernels of MATMUL and CONV2D share. A variant
// says how A is addressed: as a matrix (default) or as the windows of an image (IMAGE).
#if IN != I8
#define IS_FLOAT 1
#else
#define IS_FLOAT 0
#endif

#if defined(IMAGE)
#include "gemm/windows.glsl"
#endif

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // partial sums when there are several splits
    uint64_t a;
    uint64_t b;
    uint64_t bias;
#if defined(EPILOGUE)
    uint64_t operand[3];
    uint64_t block; // the epilogue's immediates
#endif
#if defined(IMAGE)
    Windows windows;
#endif
    uint m;
    uint n;
    uint k;
    uint batches;
    uint splits; // of k
    uint chunk; // k of a split
    uint bias_step; // 0: one bias for all, 1: one a column, 2: none, 3: terms of all rows, then columns, that take zero points off
    int a_zp;
    int b_zp;
    uint b_k; // elements of B from one k to the next
    uint b_n; // and from one n to the next
#if defined(IMAGE)
    uint in_c;
    uint c_magic; // divides by in_c
    uint c_shift;
#endif
} p;

Acc4 multiply_add(Acc x, Acc4 y, Acc4 z) {
#if IS_FLOAT
    return fma(Acc4(x), y, z);
#else
    return x * y + z;
#endif
}

// A row of A.
struct Row {
    bool inside;
    uint start; // element
#if defined(IMAGE)
    uint outside; // bits of the places that are
#endif
};

// A column of A.
struct Column {
    bool inside;
    uint offset; // elements from a row's start
#if defined(IMAGE)
    uint bits; // of its places
#endif
};

Row row_of(uint batch, uint m) {
    Row row;
    row.inside = m < p.m;
#if defined(IMAGE)
    int at[3];
    row.outside = 0;
    [[unroll]] for (int i = 2; i >= 0; i--) {
        Axis axis = p.windows.axes[i];
        uint rest = m / axis.out_size;
        at[i] = int(m - rest * axis.out_size) * axis.stride - axis.pad;
        m = rest;
        if (axis.bit == 32) continue;
        for (uint k = 0; k < axis.kernel; k++) {
            uint place = uint(at[i] + int(k) * axis.dilation);
            row.outside |= (place < axis.in_size ? 0u : 1u) << (axis.bit + k);
        }
    }
    int start = int(m);
    [[unroll]] for (int i = 0; i < 3; i++) start = start * int(p.windows.axes[i].in_size) + at[i];
    row.start = uint(start) * p.in_c; // of a window that begins outside, past the tensor's start: offsets lead back
#else
    row.start = (batch * p.m + m) * p.k;
#endif
    return row;
}

Column column_of(uint k, uint end) {
    Column column;
    column.inside = k < end;
#if defined(IMAGE)
    column.offset = 0;
    column.bits = 0;
    if (!column.inside) return column;
    uint tap = p.in_c > 1 ? divide(k, p.c_magic, p.c_shift) : k;
    Tap found = p.windows.taps[tap];
    column.offset = uint(found.offset) + k - tap * p.in_c;
    column.bits = found.bits;
#else
    column.offset = k;
#endif
    return column;
}

// A's element without its zero point; padding is zero after that.
Acc load_a(Row row, Column column) {
    bool inside = row.inside && column.inside;
#if defined(IMAGE)
    inside = inside && (row.outside & column.bits) == 0;
#endif
    if (!inside) return Acc(0);
    uint at = row.start + column.offset;
#if IS_FLOAT
    return load_in(p.a, at);
#else
    return load_in(p.a, at) - p.a_zp;
#endif
}

Acc load_b(uint batch, uint k, uint n, uint end) {
    if (k >= end || n >= p.n) return Acc(0);
    uint at = batch * p.k * p.n + k * p.b_k + n * p.b_n;
#if IS_FLOAT
    return load_in(p.b, at);
#else
    return load_in(p.b, at) - p.b_zp;
#endif
}

#include "gemm/bias.glsl"

// The row of the result that takes a row's sums.
uint place_of(uint row) {
#if defined(IMAGE)
    if (SPREAD != 0) {
        uint x = row % p.windows.axes[2].out_size, rest = row / p.windows.axes[2].out_size;
        uint y = rest % p.windows.axes[1].out_size, image = rest / p.windows.axes[1].out_size;
        y = y * p.windows.step[0] + p.windows.first[0];
        return (image * p.windows.full[0] + y) * p.windows.full[1] + x * p.windows.step[1] + p.windows.first[1];
    }
#endif
    return row;
}

#if defined(EPILOGUE)
#include "common/epilogue.glsl"

Acc4 column_bias;

// Loads what the rows of columns n to n + `count` - 1 share.
void begin_columns(uint n, uint count) {
    column_bias = Acc4(0);
    if (p.splits > 1) return;
    if (p.bias_step < 2) {
        [[unroll]] for (uint j = 0; j < 4; j++) {
            if (j < count) column_bias[j] = load_bias(n + j);
        }
    }
    begin_epilogue(n, count);
}

void store_sums(uint row, uint n, uint count, Acc4 sums) {
    store_epilogue(p.dst, uint64_t(place_of(row)) * p.n + n, count, to_register(sums + column_bias));
}
#else
void begin_columns(uint n, uint count) {}

// Stores the first `count` sums from column n of a row on; n begins a word where the columns are even.
void store_sums(uint row, uint n, uint count, Acc4 sums) {
    if (p.bias_step < 2) {
        for (uint j = 0; j < count; j++) sums[j] += load_bias(n + j);
    }
    uint at = place_of(row) * p.n + n;
    [[unroll]] for (uint j = 0; j < 4; j += OUT_A_WORD) {
        if (j >= count) break;
#if OUT_A_WORD == 2
        if (p.n % 2 == 0) {
            PtrU32(p.dst + uint64_t(at + j) * 2).v = out_bits(sums[j]) | out_bits(sums[j + 1]) << 16;
        } else {
            store_element(p.dst, at + j, out_bits(sums[j]));
            if (j + 1 < count) store_element(p.dst, at + j + 1, out_bits(sums[j + 1]));
        }
#else
        store_element(p.dst, at + j, out_bits(sums[j]));
#endif
    }
}

#endif

// Stores a split's sums as they are.
void store_partial(uint split, uint row, uint n, uint count, Acc4 sums) {
    uint64_t at = (uint64_t(split) * p.batches * p.m + row) * p.n + n;
    [[unroll]] for (uint j = 0; j < 4; j++) {
#if IS_FLOAT
        if (j < count) PtrF32(p.dst + (at + j) * 4).v = sums[j];
#else
        if (j < count) PtrI32(p.dst + (at + j) * 4).v = sums[j];
#endif
    }
}
