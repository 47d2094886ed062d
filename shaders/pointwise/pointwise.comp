// A chain of pointwise stages. An invocation has REPEAT runs of QUADS times four consecutive elements, so that the widest tensor
// moves in vectors of 16 bytes. Most chains are short, and the driver makes a pipeline of the short kernel faster.
// variant short STAGES=2 OPERANDS=3
// variant long STAGES=8 OPERANDS=6
// variant short_half STAGES=2 OPERANDS=3 HALF
// variant long_half STAGES=8 OPERANDS=6 HALF
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/repeat.glsl"
#if defined(HALF)
#include "common/half.glsl"
#endif
#include "common/stages.glsl"
#include "common/quads.glsl"
layout(local_size_x_id = 31) in;

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
// Operands: bits 0-3 the element type, 4-7 how it is read, 8-11 the immediates with the extent and the factor that divides by it,
// 16-20 the shift that does; 12: an invocation's elements lie in one run, which is long enough; 13: they are one element.
layout(constant_id = 8) const uint OPERAND0 = 0u;
layout(constant_id = 9) const uint OPERAND1 = 0u;
layout(constant_id = 10) const uint OPERAND2 = 0u;
#if OPERANDS > 3
layout(constant_id = 11) const uint OPERAND3 = 0u;
layout(constant_id = 12) const uint OPERAND4 = 0u;
layout(constant_id = 13) const uint OPERAND5 = 0u;
#endif
// Bits 0-3 the element type, 4: `is_short` of words_of, 5: FP8 is made of operand 0 as it is, which is FP16.
layout(constant_id = 14) const uint OUTPUT = 0u;
layout(constant_id = 15) const uint QUADS = 1u;
layout(constant_id = 16) const uint REPEAT = 1u;

const uint READ_SAME = 1u;    // shaped like the output
const uint READ_SCALAR = 2u;  // one element
const uint READ_STRIDED = 3u; // broadcast in some other way; strides in the block
const uint READ_ROW = 5u;     // repeated every `extent` elements
const uint READ_COLUMN = 6u;  // each repeated `extent` times
const uint RUN = 1u << 12, ONE = 1u << 13;

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t operand[OPERANDS];
    uint64_t block; // only read for READ_STRIDED
    uint count;
    uint immediate[15];
} p;

// Rank, dimensions[6], factors and shifts that divide by them, strides[OPERANDS][6] in elements.
uint block_word(uint i) {
    return PtrU32(p.block + i * 4u).v;
}

uvec4 divide(uvec4 n, uint magic, uint shift) {
    uvec4 high, low;
    umulExtended(n, uvec4(magic), high, low);
    return high >> shift;
}

uvec4 strided_index(uint k, uvec4 element) {
    uvec4 index = uvec4(0u);
    for (uint d = block_word(0); d-- > 0u;) {
        uvec4 rest = divide(element, block_word(7u + d), block_word(13u + d));
        index += (element - rest * block_word(1u + d)) * block_word(19u + k * 6u + d);
        element = rest;
    }
    return index;
}

// Where an operand has these elements of the output.
uvec4 place(uint word, uint k, uvec4 element) {
    uint i = word >> 8 & 15u;
    uvec4 rest = divide(element, p.immediate[min(i + 1u, 14u)], word >> 16);
    switch (word >> 4 & 15u) {
    case READ_SCALAR: return uvec4(0u);
    case READ_ROW: return element - rest * p.immediate[min(i, 14u)];
    case READ_COLUMN: return rest;
    case READ_STRIDED: return strided_index(k, element);
    }
    return element;
}

uint64_t operand_address(uint k) {
    return p.operand[k];
}

uint immediate(uint i) {
    return p.immediate[min(i, 14u)];
}

#include "common/chain.glsl"

// Of each run: its first element, whether it has all its elements, and what its quads share.
uint first[4];
bool whole[4];
uvec4 vectors[4][OPERANDS];

void begin_operand(uint word, uint k, uint r) {
    uint type = word & 15u, width = type_bytes(type);
    if ((word & ONE) != 0u) {
        vectors[r][k] = load_scalar(p.operand[k], type, place(word, k, uvec4(min(first[r], p.count - 1u))).x);
    } else if ((word & RUN) != 0u && whole[r]) {
        uint at = place(word, k, uvec4(first[r])).x;
        vectors[r][k] = load_words(p.operand[k] + uint64_t(at) * width, QUADS * width);
    }
}

void load_operand(uint word, uint k, uint r, uint q) {
    uint type = word & 15u;
    if ((word & ONE) != 0u) {
        operands[k] = vectors[r][k];
    } else if ((word & RUN) != 0u && whole[r]) {
        operands[k] = quad_of(type, vectors[r][k], q);
    } else if ((word >> 4 & 15u) != 0u && (word >> 4 & 15u) != 4u) {
        uvec4 element = min(first[r] + 4u * q + uvec4(0, 1, 2, 3), uvec4(p.count - 1u));
        operands[k] = load_gather(p.operand[k], type, place(word, k, element));
    }
}

void begin_run(uint r) {
    uint64_t serial = (flat_group() * REPEAT + r) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint64_t at = serial * (4u * QUADS);
    first[r] = at < p.count ? uint(at) : p.count;
    whole[r] = p.count - first[r] >= 4u * QUADS;
    begin_operand(OPERAND0, 0, r);
    begin_operand(OPERAND1, 1, r);
    begin_operand(OPERAND2, 2, r);
#if OPERANDS > 3
    begin_operand(OPERAND3, 3, r);
    begin_operand(OPERAND4, 4, r);
    begin_operand(OPERAND5, 5, r);
#endif
}

void end_run(uint r) {
    const uint type = OUTPUT & 15u, width = type_bytes(type);
    uvec4 result = uvec4(0u);
    [[unroll]] for (uint q = 0u; q < QUADS; q++) {
        load_operand(OPERAND0, 0, r, q);
        load_operand(OPERAND1, 1, r, q);
        load_operand(OPERAND2, 2, r, q);
#if OPERANDS > 3
        load_operand(OPERAND3, 3, r, q);
        load_operand(OPERAND4, 4, r, q);
        load_operand(OPERAND5, 5, r, q);
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
        uvec4 words;
#if defined(HALF)
        if ((OUTPUT & 32u) != 0u && whole[r]) {
            words = uvec4(fp8_of_halves(type == T_E4M3, vectors[r][0][2u * q], vectors[r][0][2u * q + 1u]));
        } else
#endif
            words = words_of(type, x, (OUTPUT & 16u) != 0u);
        if (width == 4u) {
            result = words;
        } else if (width == 2u) {
            result[2u * q] = words.x;
            result[2u * q + 1u] = words.y;
        } else {
            result[q] = words.x;
        }
    }
    uint64_t to = p.dst + uint64_t(first[r]) * width;
    if (whole[r]) {
        store_words(to, QUADS * width, result);
        return;
    }
    // The last elements, which may end within a word.
    for (uint bytes = (p.count - first[r]) * width, i = 0u; i < bytes; i += width) {
        uint word = result.x >> 8u * (i & 3u);
        if (width == 4u) PtrU32(to + i).v = word;
        else if (width == 2u) PtrU16(to + i).v = uint16_t(word);
        else PtrU8(to + i).v = uint8_t(word);
        if ((i + width & 3u) == 0u) result = result.yzww;
    }
}

void main() {
    if (flat_group() * (gl_WorkGroupSize.x * REPEAT * 4u * QUADS) >= p.count) return;
    // All runs are on their way before the first is waited for.
    REPEAT4(r, REPEAT, begin_run(r);)
    REPEAT4(r, REPEAT, if (first[r] < p.count) end_run(r);)
}
