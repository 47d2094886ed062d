// The multiply-add ceiling of the matrix units: a subgroup multiplies 4 x 4 tiles of its registers, again and again.
// variant f16 AT=float16_t CT=float
// variant bf16 AT=bfloat16_t CT=float BF16
// variant i8 AT=int8_t CT=int
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#if defined(BF16)
#extension GL_EXT_bfloat16 : require
#endif
#include "common/prelude.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Factors { AT v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Sums { CT v[]; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst; // a tile a workgroup
    uint64_t src; // four tiles of each factor
    uint steps;
} p;
const uint EDGE = 4;

void main() {
    Factors factors = Factors(p.src);
    coopmat<AT, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[EDGE];
    coopmat<AT, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b[EDGE];
    coopmat<CT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sum[EDGE * EDGE];
    [[unroll]] for (uint i = 0; i < EDGE; i++) {
        coopMatLoad(a[i], factors.v, i * M * K, K, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(b[i], factors.v, i * K * N, N, gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint i = 0; i < EDGE * EDGE; i++) {
        sum[i] = coopmat<CT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(CT(0));
    }
    for (uint step = 0; step < p.steps; step++) {
        [[unroll]] for (uint i = 0; i < EDGE * EDGE; i++) sum[i] = coopMatMulAdd(a[i / EDGE], b[i % EDGE], sum[i]);
    }
    [[unroll]] for (uint i = 1; i < EDGE * EDGE; i++) sum[0] += sum[i];
    // Every subgroup of a workgroup has the same sums.
    coopMatStore(sum[0], Sums(p.dst).v, gl_WorkGroupID.x * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
}
