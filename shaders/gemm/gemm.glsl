// C[m][n] = sum over k of A[m][k] * B[k][n] + bias: what the kernels of MATMUL and CONV2D share. A variant
// says how A is addressed: as a matrix (default) or as the windows of an image (IMAGE).
#if IN != I8
#define IS_FLOAT 1
#else
#define IS_FLOAT 0
#endif

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // partial sums when there are several splits
    uint64_t a;
    uint64_t b;
    uint64_t bias;
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
#if defined(IMAGE)
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
    uint x = m % p.out_w;
    uint y = m / p.out_w;
    row.image = y / p.out_h * (p.in_h * p.in_w * p.in_c);
    y = y % p.out_h;
    row.y = int(y * (p.stride & 0xffffu)) - int(p.pad & 0xffffu);
    row.x = int(x * (p.stride >> 16)) - int(p.pad >> 16);
#else
    row.start = (batch * p.m + m) * p.k;
#endif
    return row;
}

Column column_of(uint k, uint end) {
    Column column;
    column.inside = k < end;
#if defined(IMAGE)
    uint tap = p.in_c > 1 ? divide(k, p.c_magic, p.shifts & 0xffffu) : k;
    uint ky = p.kernel_w > 1 ? divide(tap, p.w_magic, p.shifts >> 16) : tap;
    column.c = k - tap * p.in_c;
    column.dy = int(ky * (p.dilation & 0xffffu));
    column.dx = int((tap - ky * p.kernel_w) * (p.dilation >> 16));
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
    inside = inside && uint(y) < p.in_h && uint(x) < p.in_w;
    uint at = row.image + (uint(y) * p.in_w + uint(x)) * p.in_c + column.c;
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
