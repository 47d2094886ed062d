// A tile of C a workgroup, on the matrix units, from operands that gemm_pack.comp has packed: lanes load the registers of
// their matrices straight from memory, 16 bytes a lane and side by side, SLAB / UNIT_K - 1 steps of k before they multiply them.
// No subgroup waits for another; those of a workgroup share what they load through the first-level cache.
// variant f16 IN=F16 OUT=F16
// variant f16f32 IN=F16 OUT=F32
// variant bf16 IN=BF16 OUT=BF16
// variant bf16f32 IN=BF16 OUT=F32
// variant f16_fused IN=F16 OUT=F16 EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common/prelude.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common/variant.glsl"
#include "gemm/gemm.glsl"
#include "gemm/matrix_stage.glsl"
#if IN == BF16
#extension GL_EXT_bfloat16 : require
#endif
#include "gemm/matrix_tile.glsl"
#include "gemm/fragments.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly restrict buffer PtrVectors { uvec4 v[]; };

shared uvec4 slab[STORED];
#include "gemm/matrix_store.glsl"

const uint STEPS = SLAB / UNIT_K; // in registers at once, the one that is multiplied included
const uint A_STEP = NI * LEFT_VECTORS * WIDTH_OF_SUBGROUP; // vectors of a step
const uint B_STEP = NJ * RIGHT_VECTORS * WIDTH_OF_SUBGROUP;

// Where the part that starts at a row of A, or column of B, begins.
uint part_at(uint batch, uint extent, uint tile, uint part, uint start, uint step, uint begin) {
    uint parts = (extent + tile - 1) / tile * (tile / part);
    return ((batch * parts + start / part) * (p.k / UNIT_K) + begin / UNIT_K) * step + gl_SubgroupInvocationID;
}

void main() {
    Tile tile;
    if (!find_tile(tile)) return;
    PtrVectors a = PtrVectors(p.a), b = PtrVectors(p.b);
    uint a_at = part_at(tile.batch, p.m, TILE_M, WARP_M, tile.m0 + tile.warp_m, A_STEP, tile.begin);
    uint b_at = part_at(tile.batch, p.n, TILE_N, WARP_N, tile.n0 + tile.warp_n, B_STEP, tile.begin);
    [[unroll]] for (uint i = 0; i < NI * NJ; i++) sums[i] = Sums(0);
    uvec4 lefts[STEPS][NI * LEFT_VECTORS], rights[STEPS][NJ * RIGHT_VECTORS];
    [[unroll]] for (uint s = 0; s + 1 < STEPS; s++) {
        [[unroll]] for (uint i = 0; i < NI * LEFT_VECTORS; i++) lefts[s][i] = a.v[a_at + s * A_STEP + i * WIDTH_OF_SUBGROUP];
        [[unroll]] for (uint j = 0; j < NJ * RIGHT_VECTORS; j++) rights[s][j] = b.v[b_at + s * B_STEP + j * WIDTH_OF_SUBGROUP];
    }
    [[dont_unroll]] for (uint k = tile.begin; k < tile.end; k += SLAB) {
        [[unroll]] for (uint s = 0; s < STEPS; s++) {
            // The steps after the last are loaded and not used; there is room for them behind the operands.
            const uint next = s + STEPS - 1;
            [[unroll]] for (uint i = 0; i < NI * LEFT_VECTORS; i++) {
                lefts[next % STEPS][i] = a.v[a_at + next * A_STEP + i * WIDTH_OF_SUBGROUP];
            }
            [[unroll]] for (uint j = 0; j < NJ * RIGHT_VECTORS; j++) {
                rights[next % STEPS][j] = b.v[b_at + next * B_STEP + j * WIDTH_OF_SUBGROUP];
            }
            // Keeps the compiler from loading yet earlier, for which there are no registers.
            controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
            Right right[NJ];
            [[unroll]] for (uint j = 0; j < NJ; j++) {
                [[unroll]] for (uint v = 0; v < RIGHT_VECTORS; v++) SET_RIGHT(right[j], v, rights[s][j * RIGHT_VECTORS + v])
            }
            [[unroll]] for (uint i = 0; i < NI; i++) {
                Left left;
                [[unroll]] for (uint v = 0; v < LEFT_VECTORS; v++) SET_LEFT(left, v, lefts[s][i * LEFT_VECTORS + v])
                [[unroll]] for (uint j = 0; j < NJ; j++) {
                    sums[i * NJ + j] = coopMatMulAdd(left, right[j], sums[i * NJ + j]);
                }
            }
        }
        a_at += STEPS * A_STEP;
        b_at += STEPS * B_STEP;
    }
    store_tile(tile);
}
