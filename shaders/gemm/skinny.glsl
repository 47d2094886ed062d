// Products of a few rows, which take as long as reading B does: what the kernels for both layouts of B share. A workgroup
// makes partial sums of ROWS rows over a part of k; gemm_reduce.comp adds the parts in ascending order. The element types are
// specialization constants; FLOAT says what sums are kept in.
#include "common/vector16.glsl"
#if defined(FLOAT)
#define Acc float
#define Acc4 vec4
#else
#define Acc int
#define Acc4 ivec4
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint LANES_N = 32u; // invocations along n; the rest lie along k
layout(constant_id = 2) const uint ROWS = 1u;
layout(constant_id = 3) const uint LOADS = 8u;    // of 16 bytes, in flight
layout(constant_id = 4) const uint SLAB = 256u;   // k of A in shared memory at a time; divided by what a round of loads covers
layout(constant_id = 5) const uint A_TYPE = 0u;
layout(constant_id = 6) const uint B_TYPE = 0u;
layout(constant_id = 7) const uint QUADS = 1u;    // of elements in 16 bytes of B

const uint VECTOR = 4u * QUADS;
const uint B_BYTES = 4u / QUADS;

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // [splits][batches * m][n]
    uint64_t a;   // [batches][m][k]
    uint64_t b;
    uint m;
    uint n;
    uint k;
    uint batches;
    uint splits;
    uint chunk; // k of a split
    int a_zp;
    int b_zp;
} p;

// The zero points are subtracted; A is zero beyond `end`, so that what is loaded of B there does not matter if it is finite.
Acc load_a(uint64_t row, uint k, uint end) {
    if (k >= end) return Acc(0);
    uint width = type_bytes(A_TYPE);
    uint64_t at = p.a + (row * p.k + k) * width;
    uint raw = width == 4u ? PtrU32(at).v : width == 2u ? uint(PtrU16(at).v) : uint(PtrU8(at).v);
    uvec4 x = widen(A_TYPE, uvec4(raw));
#if defined(FLOAT)
    return uintBitsToFloat(x.x);
#else
    return int(x.x) - p.a_zp;
#endif
}

#if defined(FLOAT)
// A quad of B's elements, to be `rescaled`, since E4M3's are 2^-8 too small; `nan_codes` finds its NaNs.
vec4 decode(uvec4 words, uint quad) {
    if (B_TYPE == T_E4M3) {
        uint word = words[quad];
        return uintBitsToFloat(widened_halves(e4m3_as_halves(word << 8), e4m3_as_halves(word))).xzyw;
    }
    return uintBitsToFloat(quad_of(B_TYPE, words, quad));
}

float not_a_number() {
    return uintBitsToFloat(0x7fc00000u);
}

float rescaled(float x) {
    return B_TYPE == T_E4M3 ? x * 256.0 : x;
}

// The highest bit of each byte that is the code of NaN.
uint nan_codes(uint word) {
    return B_TYPE == T_E4M3 ? (word & 0x7f7f7f7fu) + 0x01010101u & 0x80808080u : 0u;
}

vec4 multiply_add(float x, vec4 y, vec4 z) {
    return fma(vec4(x), y, z);
}
#else
ivec4 decode(uvec4 words, uint quad) {
    return ivec4(quad_of(B_TYPE, words, quad)) - p.b_zp;
}

int not_a_number() {
    return 0;
}

int rescaled(int x) {
    return x;
}

uint nan_codes(uint word) {
    return 0u;
}

ivec4 multiply_add(int x, ivec4 y, ivec4 z) {
    return x * y + z;
}
#endif

void store_part(uint split, uint64_t row, uint n, Acc x) {
    uint64_t at = p.dst + ((uint64_t(split) * p.batches * p.m + row) * p.n + n) * 4u;
#if defined(FLOAT)
    PtrF32(at).v = x;
#else
    PtrI32(at).v = x;
#endif
}
