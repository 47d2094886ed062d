// Pointwise operators and reductions along the innermost axis, as softmax and normalisations consist of, with the row in shared memory
// from its only load to the store. LANES_N invocations share a row and hold HELD quads of it each. The program is a list of steps:
// bits 0-7 the stage's code, 8-11, 12-15 and 16-19 its sources, 20-23 its first immediate, 24-27 its element type, 28-30 where the
// result goes, 31 whether it combines the elements of the source with the stage. Sources: 0-2 values of the row, 3-6 numbers of the
// row, 7-9 operands in memory, 10-15 numbers in the block. Passes over the row end where a combination is needed; a step runs
// in the pass that it is numbered with, and numbers are computed before their pass.
// variant short STEPS=8
// variant long STEPS=16
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/stages.glsl"
#include "common/vector16.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint LANES_N = 64u;
layout(constant_id = 2) const uint HELD = 1u;
layout(constant_id = 3) const uint INPUT = 0u; // element types
layout(constant_id = 4) const uint OUTPUT = 0u;
layout(constant_id = 5) const uint RESULT = 0u; // the register that is stored
layout(constant_id = 6) const uint PASSES = 1u;
// Bits 0-3 the element type, 4-7 how it is read.
layout(constant_id = 7) const uint OPERAND0 = 0u;
layout(constant_id = 8) const uint OPERAND1 = 0u;
layout(constant_id = 9) const uint OPERAND2 = 0u;
layout(constant_id = 10) const uint PASS_OF_LOW = 0u;  // of steps 0-7, four bits each
layout(constant_id = 11) const uint PASS_OF_HIGH = 0u; // of steps 8-15
layout(constant_id = 12) const uint LOADS = 0u;  // values that a pass loads from shared memory, four bits each
layout(constant_id = 13) const uint STORES = 0u; // and that it stores there
layout(constant_id = 14) const uint VALUES = 1u; // of a row in shared memory
layout(constant_id = 16) const uint STEP0 = 0u;
layout(constant_id = 17) const uint STEP1 = 0u;
layout(constant_id = 18) const uint STEP2 = 0u;
layout(constant_id = 19) const uint STEP3 = 0u;
layout(constant_id = 20) const uint STEP4 = 0u;
layout(constant_id = 21) const uint STEP5 = 0u;
layout(constant_id = 22) const uint STEP6 = 0u;
layout(constant_id = 23) const uint STEP7 = 0u;
#if STEPS == 16
layout(constant_id = 24) const uint STEP8 = 0u;
layout(constant_id = 25) const uint STEP9 = 0u;
layout(constant_id = 26) const uint STEP10 = 0u;
layout(constant_id = 27) const uint STEP11 = 0u;
layout(constant_id = 28) const uint STEP12 = 0u;
layout(constant_id = 29) const uint STEP13 = 0u;
layout(constant_id = 30) const uint STEP14 = 0u;
layout(constant_id = 31) const uint STEP15 = 0u;
#endif

const uint READ_SAME = 1u;   // shaped like the rows
const uint READ_ROW = 5u;    // one element a column
const uint READ_COLUMN = 6u; // one element a row

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src; // [rows][axis]
    uint64_t operand[3];
    uint64_t block; // 8 immediates and 6 numbers
    uint rows;
    uint axis;
} p;

shared uint partial[LANES];
shared uvec4 held[VALUES * HELD * LANES];
uint immediates[8];
uint constants[6];
uint64_t row;

uint own_lane() {
    return gl_LocalInvocationID.x % LANES_N;
}

// The first element of a held quad.
uint element_of(uint i) {
    return (i * LANES_N + own_lane()) * 4u;
}

// Loads up to four; the rest repeats the last.
uvec4 load_some(uint64_t base, uint type, uint count) {
    uint width = type_bytes(type);
    if (count >= 4u && (uint(base) & (4u * width - 1u)) == 0u) {
        uvec4 words = uvec4(0u);
        if (width == 4u) words = PtrU32x4(base).v;
        else if (width == 2u) words.xy = PtrU32x2(base).v;
        else words.x = PtrU32(base).v;
        return quad_of(type, words, 0u);
    }
    return load_gather(base, type, min(uvec4(0u, 1u, 2u, 3u), uvec4(count - 1u)));
}

uvec4 load_operand(uint k, uint word, uint i) {
    uint type = word & 15u, mode = word >> 4;
    if (mode == READ_COLUMN) {
        uint64_t at = p.operand[k] + row * type_bytes(type);
        return load_scalar(at, type, 0u);
    }
    uint at = element_of(i);
    if (at >= p.axis) return uvec4(0u);
    uint64_t from = mode == READ_SAME ? row * p.axis + at : uint64_t(at);
    return load_some(p.operand[k] + from * type_bytes(type), type, p.axis - at);
}

uvec4 other_value(uint source, uint i) {
    if (source == 7u) return load_operand(0u, OPERAND0, i);
    if (source == 8u) return load_operand(1u, OPERAND1, i);
    if (source == 9u) return load_operand(2u, OPERAND2, i);
    return uvec4(constants[min(source - 10u, 5u)]);
}

uvec4 compute(uint word, uvec4 a, uvec4 b, uvec4 c) {
    uint code = word & 0xffu, type = (word >> 24) & 15u, imm = (word >> 20) & 15u;
    uint first = immediates[min(imm, 7u)], second = immediates[min(imm + 1u, 7u)];
    if (code < S_ABS_I) return float_stage(code, a, b, first, second);
    if (code < S_SELECT) return int_stage(code, a, b, type, first, second);
    if (code == S_SELECT) return mix(c, b, notEqual(a, uvec4(0u)));
    return convert_stage(code, a, type);
}

uvec4 combine(uint code, uvec4 a, uvec4 b) {
    if (code < S_ABS_I) return float_stage(code, a, b, 0u, 0u);
    return int_stage(code, a, b, T_I32, 0u, 0u);
}

// Combines what the invocations of a row have; every one of them gets the result.
uvec4 across(uint code, uvec4 total) {
    uvec4 folded = combine(code, total, total.zwxy);
    folded = combine(code, folded, folded.yxwz);
    uint lane = gl_LocalInvocationID.x, own = own_lane();
    uint sum = folded.x;
    partial[lane] = sum;
    // Rounds of sixteen; the last one is everybody's.
    uint width = LANES_N;
    while (width > 16u) {
        width /= 16u;
        barrier();
        if (own < width) {
            for (uint i = 1u; i < 16u; i++) sum = combine(code, uvec4(sum), uvec4(partial[lane + i * width])).x;
        }
        barrier();
        partial[lane] = sum;
    }
    barrier();
    uint first = lane - own;
    sum = partial[first];
    for (uint i = 1u; i < width; i++) sum = combine(code, uvec4(sum), uvec4(partial[first + i])).x;
    barrier();
    return uvec4(sum);
}

#define PASS_OF(step) ((step) < 8u ? PASS_OF_LOW >> (4u * (step)) & 15u : PASS_OF_HIGH >> (4u * ((step) & 7u)) & 15u)
#define VALUE(source)                                                                                          \
    ((source) == 0u ? x0 : (source) == 1u ? x1 : (source) == 2u ? x2 : (source) == 3u ? n0 : (source) == 4u ? n1 : \
     (source) == 5u ? n2 : (source) == 6u ? n3 : other_value(source, i))
#define COMPUTE(word) compute(word, VALUE((word) >> 8 & 15u), VALUE((word) >> 12 & 15u), VALUE((word) >> 16 & 15u))
#define TO(word) ((word) >> 28 & 7u)
#define ASSIGN(word, x)                                          \
    {                                                            \
        uvec4 assigned = x;                                      \
        if (TO(word) == 0u) x0 = assigned;                       \
        if (TO(word) == 1u) x1 = assigned;                       \
        if (TO(word) == 2u) x2 = assigned;                       \
        if (TO(word) == 3u) n0 = assigned;                       \
        if (TO(word) == 4u) n1 = assigned;                       \
        if (TO(word) == 5u) n2 = assigned;                       \
        if (TO(word) == 6u) n3 = assigned;                       \
    }
#define IS_COMBINATION(word) ((word) >> 31 != 0u)
#define IDENTITY(word) uvec4(immediates[(word) >> 20 & 7u])
// A step's share in the three parts of its pass: before the row, for a quad of it, and after it. Conditions on the step alone are
// nested, since glslang 16.6 makes invalid modules of some that are joined.
#define BEFORE(word, step)                                                          \
    if (((word) & 0xffu) != 0u) {                                                   \
        if (PASS_OF(step) == pass) {                                                \
            if (IS_COMBINATION(word)) {                                             \
                total = IDENTITY(word);                                             \
            } else if (TO(word) >= 3u) {                                            \
                ASSIGN(word, COMPUTE(word))                                         \
            }                                                                       \
        }                                                                           \
    }
#define DURING(word, step)                                                          \
    if (((word) & 0xffu) != 0u) {                                                   \
        if (PASS_OF(step) == pass) {                                                \
            if (IS_COMBINATION(word)) {                                             \
                uvec4 x = mix(IDENTITY(word), VALUE((word) >> 8 & 15u), inside);    \
                total = combine((word) & 0xffu, total, x);                          \
            } else if (TO(word) < 3u) {                                             \
                ASSIGN(word, COMPUTE(word))                                         \
            }                                                                       \
        }                                                                           \
    }
#define AFTER(word, step)                                                           \
    if (IS_COMBINATION(word)) {                                                     \
        if (PASS_OF(step) == pass) ASSIGN(word, across((word) & 0xffu, total))      \
    }
#if STEPS == 16
#define EACH_STEP(part)                                                                      \
    part(STEP0, 0u) part(STEP1, 1u) part(STEP2, 2u) part(STEP3, 3u) part(STEP4, 4u)          \
    part(STEP5, 5u) part(STEP6, 6u) part(STEP7, 7u) part(STEP8, 8u) part(STEP9, 9u)          \
    part(STEP10, 10u) part(STEP11, 11u) part(STEP12, 12u) part(STEP13, 13u) part(STEP14, 14u) part(STEP15, 15u)
#else
#define EACH_STEP(part)                                                                      \
    part(STEP0, 0u) part(STEP1, 1u) part(STEP2, 2u) part(STEP3, 3u) part(STEP4, 4u)          \
    part(STEP5, 5u) part(STEP6, 6u) part(STEP7, 7u)
#endif

// Stores up to four elements.
void store_bits(uint64_t to, uint width, uint count, uvec4 raw) {
    if (count >= 4u && (uint(to) & (4u * width - 1u)) == 0u) {
        if (width == 4u) {
            PtrU32x4(to).v = raw;
        } else if (width == 2u) {
            raw &= 0xffffu;
            PtrU32x2(to).v = uvec2(raw.x | raw.y << 16, raw.z | raw.w << 16);
        } else {
            raw = (raw & 0xffu) << uvec4(0, 8, 16, 24);
            PtrU32(to).v = raw.x | raw.y | raw.z | raw.w;
        }
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        if (j >= count) break;
        if (width == 4u) PtrU32(to + j * 4u).v = raw[j];
        else if (width == 2u) PtrU16(to + j * 2u).v = uint16_t(raw[j]);
        else PtrU8(to + j).v = uint8_t(raw[j]);
    }
}

void main() {
    uint64_t wanted = flat_group() * (LANES / LANES_N) + gl_LocalInvocationID.x / LANES_N;
    // Invocations past the last row repeat it, since all must meet at barriers, and store nothing.
    row = min(wanted, uint64_t(p.rows - 1u));
    [[unroll]] for (uint i = 0u; i < 8u; i++) immediates[i] = PtrU32(p.block + i * 4u).v;
    [[unroll]] for (uint i = 0u; i < 6u; i++) constants[i] = PtrU32(p.block + (8u + i) * 4u).v;

    uint lane = gl_LocalInvocationID.x;
    uint input_bytes = type_bytes(INPUT), width = type_bytes(OUTPUT);
    uint64_t base = p.src + row * p.axis * input_bytes;
    uint64_t to = p.dst + row * p.axis * width;
    [[unroll]] for (uint i = 0u; i < HELD; i++) {
        uint at = element_of(i);
        if (at < p.axis) held[i * LANES + lane] = load_some(base + uint64_t(at) * input_bytes, INPUT, p.axis - at);
    }
    // Values of a quad, and numbers of the row, four times each. An invocation has quads of its own: no barrier is needed for them.
    uvec4 x0 = uvec4(0u), x1 = uvec4(0u), x2 = uvec4(0u);
    uvec4 n0 = uvec4(0u), n1 = uvec4(0u), n2 = uvec4(0u), n3 = uvec4(0u);
    for (uint pass = 0u; pass < PASSES; pass++) {
        uvec4 total = uvec4(0u);
        uint loads = LOADS >> (4u * pass), stores = STORES >> (4u * pass);
        {
            const uint i = 0u;
            EACH_STEP(BEFORE)
        }
        for (uint i = 0u; i < HELD; i++) {
            uint at = element_of(i);
            if (at >= p.axis) break;
            uint slot = i * LANES + lane;
            bvec4 inside = lessThan(at + uvec4(0, 1, 2, 3), uvec4(p.axis));
            if ((loads & 1u) != 0u) x0 = held[slot];
            if (VALUES > 1u && (loads & 2u) != 0u) x1 = held[HELD * LANES + slot];
            if (VALUES > 2u && (loads & 4u) != 0u) x2 = held[2u * HELD * LANES + slot];
            EACH_STEP(DURING)
            if ((stores & 1u) != 0u) held[slot] = x0;
            if (VALUES > 1u && (stores & 2u) != 0u) held[HELD * LANES + slot] = x1;
            if (VALUES > 2u && (stores & 4u) != 0u) held[2u * HELD * LANES + slot] = x2;
            if (RESULT < 3u && pass == PASSES - 1u && wanted < p.rows) {
                uint source = RESULT;
                store_bits(to + uint64_t(at) * width, width, p.axis - at, narrow(OUTPUT, VALUE(source)));
            }
        }
        EACH_STEP(AFTER)
    }
    if (RESULT >= 3u && wanted < p.rows && own_lane() == 0u) {
        uint i = 0u, source = RESULT;
        store_bits(p.dst + row * width, width, 1u, narrow(OUTPUT, VALUE(source)));
    }
}
