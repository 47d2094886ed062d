// Lays the windows of an image whose channels are no whole vectors out as rows that are, for the matrix kernels: an invocation makes one
// vector. FP8 is widened to FP16.
// variant b16 IN=F16 OUT=F16 IMAGE
// variant b8 IN=I8 OUT=I32 IMAGE
// variant e4m3 IN=E4M3 OUT=F16 IMAGE
// variant e5m2 IN=E5M2 OUT=F16 IMAGE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "gemm/gemm.glsl"
#include "gemm/matrix_stage.glsl"
#include "gemm/parts.glsl"
layout(local_size_x = 64) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer PtrResult { uvec4 v; };

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    uint vectors = (p.k + VECTOR - 1) / VECTOR;
    if (serial >= uint64_t(p.m) * vectors) return;
    uint m = uint(serial / vectors), k = uint(serial % vectors) * VECTOR;
    PtrResult(p.dst + serial * 16).v = parts_of_a(row_of(0, m), k, p.k);
}
