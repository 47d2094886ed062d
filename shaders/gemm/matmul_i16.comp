// MATMUL of INT16 into INT48. An invocation makes one element; lanes run along the columns.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/int48.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t a;
    uint64_t b;
    uint count; // elements of the output
    uint m;
    uint n;
    uint k;
} p;

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint index = uint(serial);
    uint column = index % p.n;
    uint row = index / p.n;
    uint64_t a = p.a + uint64_t(row) * p.k * 2;
    uint64_t b = p.b + (uint64_t(row / p.m) * p.k * p.n + column) * 2;
    int64_t sum = 0;
    for (uint k = 0; k < p.k; k++) {
        sum += int(PtrI16(a).v) * int(PtrI16(b).v);
        a += 2;
        b += uint64_t(p.n) * 2;
    }
    store_i48(p.dst, index, sum);
}
