// The stages of a chain over operands in register form. Whoever includes this has OPERANDS, operand_address(k) and
// immediate(i), and fills operands[].
uvec4 operands[OPERANDS];

uvec4 source(uint k, uvec4 chain) {
    return k == SOURCE_CHAIN ? chain : operands[min(k, OPERANDS - 1u)];
}

uvec4 stage(uint word, uvec4 chain) {
    uint code = word & 0xffu, k = (word >> 12) & 15u, type = word >> 24, imm = (word >> 20) & 15u;
    if (code == 0u) return chain;
    uvec4 a = source((word >> 8) & 15u, chain), b = source(k, chain), c = source((word >> 16) & 15u, chain);
    uint first = immediate(imm), second = immediate(imm + 1u);
    if (code < S_ABS_I) return float_stage(code, a, b, first, second);
    if (code < S_SELECT) return int_stage(code, a, b, type, first, second);
    switch (code) {
    case S_SELECT: return mix(c, b, notEqual(a, uvec4(0u)));
    case S_RESCALE: return uvec4(rescale(ivec4(a), ivec4(b), ivec4(c), false, int(first), int(second), type));
    case S_RESCALE_DOUBLE: return uvec4(rescale(ivec4(a), ivec4(b), ivec4(c), true, int(first), int(second), type));
    case S_MUL_SHIFT_BY: return uvec4(multiply_shift(ivec4(a), ivec4(b), ivec4(c)));
    case S_NEGATE_BY: return uvec4(negate(ivec4(a), ivec4(b + c), type));
    case S_TABLE8: return table8(operand_address(min(k, OPERANDS - 1u)), ivec4(a));
    case S_TABLE16: return table16(operand_address(min(k, OPERANDS - 1u)), ivec4(a));
    }
    return convert_stage(code, a, type);
}
