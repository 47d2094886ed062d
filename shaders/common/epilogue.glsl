// The pointwise chain that follows a product, run on the sums before they are stored. A lane has up to four consecutive
// elements of a row. Operand 0 of the chain is the sums, 1 to 3 are read here, their addresses in p.operand, and 4 to 13 are
// single numbers in register form, in the block after the immediates.
#include "common/stages.glsl"

layout(constant_id = 16) const uint STAGE0 = 0u;
layout(constant_id = 17) const uint STAGE1 = 0u;
layout(constant_id = 18) const uint STAGE2 = 0u;
layout(constant_id = 19) const uint STAGE3 = 0u;
// Bits 0-3 the element type, 4-7 how it is read, as in pointwise.comp.
layout(constant_id = 20) const uint OPERAND1 = 0u;
layout(constant_id = 21) const uint OPERAND2 = 0u;
layout(constant_id = 22) const uint OPERAND3 = 0u;
layout(constant_id = 23) const uint OUTPUT = 0u;

const uint READ_SAME = 1u;   // shaped like the output
const uint READ_SCALAR = 2u; // one element
const uint READ_ROW = 5u;    // one element a column

const uint OPERANDS = 14u;
uint immediates[8];

uint immediate(uint i) {
    return immediates[min(i, 7u)];
}

uint64_t operand_address(uint k) {
    return p.operand[clamp(k, 1u, 3u) - 1u];
}

#include "common/chain.glsl"

bool whole_quad(uint64_t at, uint width, uint count) {
    return count >= 4u && (uint(at) & (width == 4u ? 15u : 3u)) == 0u;
}

uvec4 load_some(uint64_t base, uint type, uint64_t at, uint count) {
    base += at * type_bytes(type);
    if (whole_quad(base, type_bytes(type), count)) return load_whole(base, type, 0u);
    return load_gather(base, type, min(uvec4(0u, 1u, 2u, 3u), uvec4(count - 1u)));
}

void begin_operand(uint word, uint k, uint n, uint count) {
    uint type = word & 15u, mode = word >> 4;
    if (mode == READ_SCALAR) operands[k] = load_scalar(operand_address(k), type, 0u);
    if (mode == READ_ROW) operands[k] = load_some(operand_address(k), type, n, count);
}

// Loads what all rows share, for the columns n to n + `count` - 1.
void begin_epilogue(uint n, uint count) {
    [[unroll]] for (uint i = 0u; i < 8u; i++) immediates[i] = PtrU32(p.block + i * 4u).v;
    [[unroll]] for (uint k = 4u; k < OPERANDS; k++) operands[k] = uvec4(PtrU32(p.block + (4u + k) * 4u).v);
    begin_operand(OPERAND1, 1u, n, count);
    begin_operand(OPERAND2, 2u, n, count);
    begin_operand(OPERAND3, 3u, n, count);
}

void row_operand(uint word, uint k, uint64_t at, uint count) {
    if (word >> 4 == READ_SAME) operands[k] = load_some(operand_address(k), word & 15u, at, count);
}

// Runs the chain on elements `at` to `at + count - 1` of the output.
uvec4 run_epilogue(uint64_t at, uint count, uvec4 x) {
    row_operand(OPERAND1, 1u, at, count);
    row_operand(OPERAND2, 2u, at, count);
    row_operand(OPERAND3, 3u, at, count);
    x = stage(STAGE0, x);
    x = stage(STAGE1, x);
    x = stage(STAGE2, x);
    return stage(STAGE3, x);
}

// Runs the chain and stores what it gives. For outputs of less than a word each, `at` and `count` are whole words.
void store_epilogue(uint64_t base, uint64_t at, uint count, uvec4 x) {
    x = run_epilogue(at, count, x);
    uint width = type_bytes(OUTPUT);
    base += at * width;
    if (whole_quad(base, width, count)) {
        store_quad(base, OUTPUT, 0u, 4u, x);
        return;
    }
    uvec4 raw = narrow(OUTPUT, x);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        if (i >= count) break;
        if (width == 4u) PtrU32(base + i * 4u).v = raw[i];
        else if (width == 2u) PtrU16(base + i * 2u).v = uint16_t(raw[i]);
        else PtrU8(base + i).v = uint8_t(raw[i]);
    }
}
