// MATMUL in general form: for types, layouts and run-time zero points that the fast kernels do not take. An invocation makes one
// word of the output, or one INT48 (WIDE); lanes run along the columns.
// variant f32 OUT=F32
// variant f16 OUT=F16
// variant i32 OUT=I32
// variant i48 WIDE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint A_TYPE = 0u;
layout(constant_id = 1) const uint B_TYPE = 0u;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t a; // [batches][m][k]
    uint64_t b;
    uint64_t a_zp; // one element of A's type, read where that is INT8
    uint64_t b_zp;
    uint count; // elements of the output
    uint m;
    uint n;
    uint k;
    uint b_batch; // elements of B from one batch to the next
    uint b_k; // from one k to the next
    uint b_n; // and from one n to the next
} p;

#if defined(WIDE)
#include "common/int48.glsl"
#define A_WORD 1
#define Sum int64_t
#elif OUT == I32
#define A_WORD OUT_A_WORD
#define Sum int
#else
#define A_WORD OUT_A_WORD
#define Sum float
#define IS_FLOAT
#endif

int zero_point(uint64_t at, uint type) {
    return type == T_I8 ? int(PtrI8(at).v) : 0;
}

uint load(uint64_t base, uint type, uint64_t at) {
    uint width = type_bytes(type);
    at = base + at * width;
    return widen(type, uvec4(width == 4u ? PtrU32(at).v : width == 2u ? uint(PtrU16(at).v) : uint(PtrU8(at).v))).x;
}

Sum product(uint index, int a_zp, int b_zp) {
    uint column = index % p.n;
    uint row = index / p.n;
    uint64_t a = uint64_t(row) * p.k;
    uint64_t b = uint64_t(row / p.m) * p.b_batch + uint64_t(column) * p.b_n;
    Sum sum = Sum(0);
    for (uint k = 0; k < p.k; k++) {
        uint x = load(p.a, A_TYPE, a + k), y = load(p.b, B_TYPE, b + uint64_t(k) * p.b_k);
#if defined(IS_FLOAT)
        sum = fma(uintBitsToFloat(x), uintBitsToFloat(y), sum);
#else
        sum += (int(x) - a_zp) * (int(y) - b_zp);
#endif
    }
    return sum;
}

void main() {
    // Before any branch: there drivers for CPUs load once what is the same for all lanes.
    int a_zp = zero_point(p.a_zp, A_TYPE), b_zp = zero_point(p.b_zp, B_TYPE);
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * A_WORD >= p.count) return;
    uint first = uint(serial) * A_WORD;
#if defined(WIDE)
    store_i48(p.dst, first, product(first, a_zp, b_zp));
#else
    uint own = min(A_WORD, p.count - first);
    uint word = 0;
    [[unroll]] for (uint j = 0; j < A_WORD; j++) {
        if (j < own) word |= out_bits(product(first + j, a_zp, b_zp)) << (8 * OUT_BYTES * j);
    }
    if (own == A_WORD) {
        PtrU32(p.dst + uint64_t(first) * OUT_BYTES).v = word;
    } else {
        store_element(p.dst, first, word);
    }
#endif
}
