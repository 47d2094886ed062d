// Lays an operand out as the matrix kernels read it fastest: rows of whole 16-byte vectors with zeros at their ends,
// FP8 widened to FP16, and, if wanted, with rows and columns exchanged. An invocation makes one vector.
// variant b16 IN=F16
// variant b8 IN=I8
// variant e4m3 IN=E4M3
// variant e5m2 IN=E5M2
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common/variant.glsl"
#include "gemm/matrix_stage.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint EXCHANGED = 0; // neighbouring invocations take neighbouring rows of the result
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer PtrResult { uvec4 v; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint batches;
    uint rows; // of the result, those of zeros included
    uint vectors; // of a row
    uint filled_rows; // that the operand has
    uint filled; // elements of a row that the operand has
    uint row_step; // elements of the operand from one row to the next
    uint step; // and from one element of a row to the next
} p;

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    uint64_t a_batch = uint64_t(p.rows) * p.vectors;
    if (serial >= p.batches * a_batch) return;
    uint batch = uint(serial / a_batch);
    uint rest = uint(serial % a_batch);
    uint row = EXCHANGED != 0 ? rest % p.rows : rest / p.vectors;
    uint first = (EXCHANGED != 0 ? rest / p.rows : rest % p.vectors) * VECTOR;
    uint count = row < p.filled_rows && first < p.filled ? min(p.filled - first, VECTOR) : 0;
    uint64_t at = uint64_t(batch) * p.filled_rows * p.filled + uint64_t(row) * p.row_step + uint64_t(first) * p.step;
    uint64_t address = p.src + at * IN_BYTES;
    uvec4 vector = uvec4(0);
    if (count == VECTOR && p.step == 1 && (uint(address) & (SOURCE_BYTES - 1)) == 0) {
        vector = load_vector(address);
    } else {
        [[unroll]] for (uint i = 0; i < VECTOR; i++) {
            if (i < count) put(vector, i, load_bits(address + uint64_t(i) * p.step * IN_BYTES));
        }
    }
    PtrResult(p.dst + (uint64_t(batch) * a_batch + uint64_t(row) * p.vectors + first / VECTOR) * 16).v = vector;
}
