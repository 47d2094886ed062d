// Packs an operand of gemm_packed.comp: its matrices one after another as registers hold them, those of a subgroup's part of
// the tile side by side for each step of k, with zeros where the operand ends, and FP8 widened to FP16. A workgroup stages a
// part of the tile by eight vectors of k.
// variant f16 IN=F16
// variant bf16 IN=BF16
// variant e4m3 IN=E4M3
// variant e5m2 IN=E5M2
#version 460
#extension GL_GOOGLE_include_directive : require
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common/prelude.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common/variant.glsl"
#include "gemm/matrix_stage.glsl"
#if IN == BF16
#extension GL_EXT_bfloat16 : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128;
layout(constant_id = 1) const uint PART = 64; // rows of A, or columns of B, of a subgroup's part of the tile
layout(constant_id = 2) const uint UNIT_M = 16; // a matrix
layout(constant_id = 3) const uint UNIT_N = 16;
layout(constant_id = 4) const uint UNIT_K = 16;
layout(constant_id = 5) const uint WIDTH_OF_SUBGROUP = 32;
layout(constant_id = 6) const uint RIGHT = 0; // the operand is B
layout(constant_id = 7) const uint ALONG_N = 0; // B lies along n, not along k
#include "gemm/fragments.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer PtrResult { uvec4 v; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint batches;
    uint rows; // of A, or columns of B
    uint k;
    uint parts; // of the rows, those of zeros included
    uint steps; // of k, those of zeros included
} p;

const uint ACROSS_K = 8; // vectors of k
const uint DEPTH = ACROSS_K * VECTOR; // k of a workgroup
// Rows that are staged, and vectors of each; one vector more puts rows on different banks.
const uint STAGED_ROWS = ALONG_N != 0 ? DEPTH : PART;
const uint ACROSS = ALONG_N != 0 ? PART / VECTOR : ACROSS_K;
const uint ROW = ACROSS + 1;
shared uvec4 slab[STAGED_ROWS * ROW];

void main() {
    uint deep = (p.steps * UNIT_K + DEPTH - 1) / DEPTH;
    uint64_t group = flat_group();
    if (group >= uint64_t(p.batches) * p.parts * deep) return;
    uint part = uint(group / deep); // of any batch
    uint first_k = uint(group % deep) * DEPTH;
    uint first_row = part % p.parts * PART;
    uint64_t source = p.src + uint64_t(part / p.parts) * p.rows * p.k * IN_BYTES;
    uint step = ALONG_N != 0 ? p.rows : p.k; // from one row in memory to the next
    bool aligned = lies_aligned(source, step);
    for (uint i = gl_LocalInvocationIndex; i < STAGED_ROWS * ACROSS; i += LANES) {
        uint row = i / ACROSS, column = i % ACROSS * VECTOR;
        uint outer = row + (ALONG_N != 0 ? first_k : first_row), inner = column + (ALONG_N != 0 ? first_row : first_k);
        uint count = outer < (ALONG_N != 0 ? p.k : p.rows) && inner < step ? min(step - inner, VECTOR) : 0;
        uint64_t address = source + (uint64_t(outer) * step + inner) * IN_BYTES;
        uvec4 vector = uvec4(0);
        if (count == VECTOR && aligned) {
            vector = load_vector(address);
        } else {
            [[unroll]] for (uint e = 0; e < VECTOR; e++) {
                if (e < count) put(vector, e, load_bits(address + e * IN_BYTES));
            }
        }
        slab[row * ROW + i % ACROSS] = vector;
    }
    barrier();
    const uint UNIT = RIGHT != 0 ? UNIT_N : UNIT_M;
    const uint UNITS = PART / UNIT;
    const uint VECTORS = RIGHT != 0 ? RIGHT_VECTORS : LEFT_VECTORS;
    for (uint f = gl_SubgroupID; f < UNITS * (DEPTH / UNIT_K); f += LANES / WIDTH_OF_SUBGROUP) {
        uint unit = f % UNITS, deep_step = f / UNITS;
        uint at_step = first_k / UNIT_K + deep_step;
        if (at_step >= p.steps) break;
        uint along_k = unit * UNIT * ROW + deep_step * (UNIT_K / VECTOR);
        uint64_t at = (uint64_t(part) * p.steps + at_step) * (UNITS * VECTORS * WIDTH_OF_SUBGROUP)
            + unit * (VECTORS * WIDTH_OF_SUBGROUP) + gl_SubgroupInvocationID;
        if (RIGHT == 0) {
            coopmat<Operand, gl_ScopeSubgroup, UNIT_M, UNIT_K, gl_MatrixUseA> left;
            coopMatLoad(left, slab, along_k, ROW, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint v = 0; v < LEFT_VECTORS; v++) {
                PtrResult(p.dst + (at + v * WIDTH_OF_SUBGROUP) * 16).v = LEFT_VECTOR(left, v);
            }
        } else {
            coopmat<Operand, gl_ScopeSubgroup, UNIT_K, UNIT_N, gl_MatrixUseB> right;
            if (ALONG_N == 0) {
                coopMatLoad(right, slab, along_k, ROW, gl_CooperativeMatrixLayoutColumnMajor);
            } else {
                coopMatLoad(right, slab, deep_step * UNIT_K * ROW + unit * UNIT / VECTOR, ROW, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint v = 0; v < RIGHT_VECTORS; v++) {
                PtrResult(p.dst + (at + v * WIDTH_OF_SUBGROUP) * 16).v = RIGHT_VECTOR(right, v);
            }
        }
    }
}
