// A chain of pointwise stages, four consecutive elements an invocation. Most chains are short, and the driver makes a pipeline
// of the short kernel faster.
// variant short STAGES=2 OPERANDS=3
// variant long STAGES=8 OPERANDS=6
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/stages.glsl"
layout(local_size_x = 64) in;

layout(constant_id = 0) const uint STAGE0 = 0u;
layout(constant_id = 1) const uint STAGE1 = 0u;
#if STAGES > 2
layout(constant_id = 2) const uint STAGE2 = 0u;
layout(constant_id = 3) const uint STAGE3 = 0u;
layout(constant_id = 4) const uint STAGE4 = 0u;
layout(constant_id = 5) const uint STAGE5 = 0u;
layout(constant_id = 6) const uint STAGE6 = 0u;
layout(constant_id = 7) const uint STAGE7 = 0u;
#endif
// Operands: bits 0-3 the element type, 4-7 how it is read, 8-11 the immediate with the extent.
layout(constant_id = 8) const uint OPERAND0 = 0u;
layout(constant_id = 9) const uint OPERAND1 = 0u;
layout(constant_id = 10) const uint OPERAND2 = 0u;
#if OPERANDS > 3
layout(constant_id = 11) const uint OPERAND3 = 0u;
layout(constant_id = 12) const uint OPERAND4 = 0u;
layout(constant_id = 13) const uint OPERAND5 = 0u;
#endif
layout(constant_id = 14) const uint OUTPUT = 0u;

const uint READ_SAME = 1u;    // shaped like the output
const uint READ_SCALAR = 2u;  // one element
const uint READ_STRIDED = 3u; // broadcast in some other way; strides in the block
const uint READ_ROW = 5u;     // repeated every `extent` elements
const uint READ_COLUMN = 6u;  // each repeated `extent` times

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t operand[OPERANDS];
    uint64_t block; // rank, dimensions[6], strides[OPERANDS][6] in elements; only read for READ_STRIDED
    uint count;
    uint immediate[15];
} p;

uint block_word(uint i) {
    return PtrU32(p.block + i * 4u).v;
}

uvec4 strided_index(uint k, uvec4 element) {
    uvec4 index = uvec4(0u);
    for (uint d = block_word(0); d-- > 0u;) {
        uint extent = block_word(1u + d), stride = block_word(7u + k * 6u + d);
        uvec4 rest = element / extent;
        index += (element - rest * extent) * stride;
        element = rest;
    }
    return index;
}

uvec4 load_operand(uint word, uint k, uint first) {
    uint type = word & 15u, mode = (word >> 4) & 15u, extent = p.immediate[min(word >> 8, 14u)];
    uint64_t base = p.operand[k];
    if (mode == READ_SCALAR) return load_scalar(base, type, 0u);
    uint at = first;
    bool whole = moves_whole(base, type_bytes(type), first, p.count);
    if (mode == READ_ROW) {
        at = first % extent;
        whole = moves_whole(base, type_bytes(type), at, extent) && extent % 4u == 0u;
    }
    if ((mode == READ_SAME || mode == READ_ROW) && whole) return load_whole(base, type, at);
    if (mode == READ_COLUMN && extent % 4u == 0u) return load_scalar(base, type, first / extent);
    uvec4 element = min(first + uvec4(0, 1, 2, 3), uvec4(p.count - 1u));
    switch (mode) {
    case READ_SAME: return load_gather(base, type, element);
    case READ_ROW: return load_gather(base, type, element % extent);
    case READ_COLUMN: return load_gather(base, type, element / extent);
    case READ_STRIDED: return load_gather(base, type, strided_index(k, element));
    }
    return uvec4(0u);
}

uint64_t operand_address(uint k) {
    return p.operand[k];
}

uint immediate(uint i) {
    return p.immediate[min(i, 14u)];
}

#include "common/chain.glsl"

void main() {
    uint64_t at = (flat_group() * 64 + gl_LocalInvocationID.x) * 4;
    if (at >= p.count) return;
    uint first = uint(at);
    operands[0] = load_operand(OPERAND0, 0, first);
    operands[1] = load_operand(OPERAND1, 1, first);
    operands[2] = load_operand(OPERAND2, 2, first);
#if OPERANDS > 3
    operands[3] = load_operand(OPERAND3, 3, first);
    operands[4] = load_operand(OPERAND4, 4, first);
    operands[5] = load_operand(OPERAND5, 5, first);
#endif
    uvec4 x = operands[0];
    x = stage(STAGE0, x);
    x = stage(STAGE1, x);
#if STAGES > 2
    x = stage(STAGE2, x);
    x = stage(STAGE3, x);
    x = stage(STAGE4, x);
    x = stage(STAGE5, x);
    x = stage(STAGE6, x);
    x = stage(STAGE7, x);
#endif
    store_quad(p.dst, OUTPUT, first, p.count, x);
}
