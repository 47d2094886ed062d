// C[m][n] = sum over k of A[m][k] * B[k][n] + bias: what the kernels of MATMUL and CONV2D share. A variant
// says how A is addressed: as a matrix (default) or as the windows of an image (IMAGE).
#if IN != I8
#define IS_FLOAT 1
#else
#define IS_FLOAT 0
#endif

#if defined(IMAGE)
struct Windows {
    uint in_h;
    uint in_w;
    uint in_c;
    uint out_h;
    uint out_w;
    uint kernel_w;
    uint stride; // y in the low half, x in the high half
    uint dilation;
    uint pad; // top, left
    uint c_magic; // divides by in_c
    uint w_magic; // divides by kernel_w
    uint shifts; // of both magics, low and high half
};
#endif

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // partial sums when there are several splits
    uint64_t a;
    uint64_t b;
    uint64_t bias;
#if defined(EPILOGUE)
    uint64_t operand[3];
    uint64_t block; // the windows, if any, and the epilogue's immediates
#endif
    uint m;
    uint n;
    uint k;
    uint batches;
    uint splits; // of k
    uint chunk; // k of a split
    uint bias_step; // 0: one bias for all, 1: one a column, 2: none
    int a_zp;
    int b_zp;
    uint b_k; // elements of B from one k to the next
    uint b_n; // and from one n to the next
#if defined(IMAGE) && !defined(EPILOGUE)
    Windows image;
#endif
} p;

#if defined(IMAGE) && defined(EPILOGUE)
// The push constants have no room for both these and the operands' addresses.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer PtrWindows { Windows v; };
Windows windows = PtrWindows(p.block).v;
#elif defined(IMAGE)
#define windows p.image
#endif

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
#if defined(IMAGE)
    uint image; // element where the row's image starts
    int y;
    int x;
#else
    uint start;
#endif
};

// A column of A: the place of k in a window.
struct Column {
    bool inside;
#if defined(IMAGE)
    int dy;
    int dx;
    uint c;
#else
    uint k;
#endif
};

Row row_of(uint batch, uint m) {
    Row row;
    row.inside = m < p.m;
#if defined(IMAGE)
    uint x = m % windows.out_w;
    uint y = m / windows.out_w;
    row.image = y / windows.out_h * (windows.in_h * windows.in_w * windows.in_c);
    y = y % windows.out_h;
    row.y = int(y * (windows.stride & 0xffffu)) - int(windows.pad & 0xffffu);
    row.x = int(x * (windows.stride >> 16)) - int(windows.pad >> 16);
#else
    row.start = (batch * p.m + m) * p.k;
#endif
    return row;
}

Column column_of(uint k, uint end) {
    Column column;
    column.inside = k < end;
#if defined(IMAGE)
    uint tap = windows.in_c > 1 ? divide(k, windows.c_magic, windows.shifts & 0xffffu) : k;
    uint ky = windows.kernel_w > 1 ? divide(tap, windows.w_magic, windows.shifts >> 16) : tap;
    column.c = k - tap * windows.in_c;
    column.dy = int(ky * (windows.dilation & 0xffffu));
    column.dx = int((tap - ky * windows.kernel_w) * (windows.dilation >> 16));
#else
    column.k = k;
#endif
    return column;
}

// A's element without its zero point; padding is zero after that.
Acc load_a(Row row, Column column) {
    bool inside = row.inside && column.inside;
#if defined(IMAGE)
    int y = row.y + column.dy;
    int x = row.x + column.dx;
    inside = inside && uint(y) < windows.in_h && uint(x) < windows.in_w;
    uint at = row.image + (uint(y) * windows.in_w + uint(x)) * windows.in_c + column.c;
#else
    uint at = row.start + column.k;
#endif
    if (!inside) return Acc(0);
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

#if defined(EPILOGUE)
#if defined(IMAGE)
#define IMMEDIATES 12
#else
#define IMMEDIATES 0
#endif
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
    store_epilogue(p.dst, uint64_t(row) * p.n + n, count, to_register(sums + column_bias));
}
#else
void begin_columns(uint n, uint count) {}

// Stores the first `count` sums from column n of a row on; n begins a word where the columns are even.
void store_sums(uint row, uint n, uint count, Acc4 sums) {
    if (p.bias_step < 2) {
        for (uint j = 0; j < count; j++) sums[j] += load_bias(n + j);
    }
    uint at = row * p.n + n;
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
