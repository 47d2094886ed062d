// Element-wise operators on INT64, and casts from and to it. An invocation makes one element, or those of a word where they are
// narrower.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/convert.glsl"
#include "pointwise/wide.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint OPERATOR = 0u;
layout(constant_id = 1) const uint FIRST = 0u; // type of the first operand
layout(constant_id = 2) const uint OTHERS = 0u;
layout(constant_id = 3) const uint OUTPUT = 0u;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t operand[3];
    uint64_t block; // dimensions[6], then strides[6] of each operand in elements
    uint count;
} p;

uvec3 places(uint element) {
    uvec3 at = uvec3(0u);
    for (uint d = 6u; d-- > 0u;) {
        uint extent = PtrU32(p.block + d * 4u).v;
        uint coordinate = element % extent;
        element /= extent;
        for (uint k = 0u; k < 3u; k++) at[k] += coordinate * PtrU32(p.block + (6u + k * 6u + d) * 4u).v;
    }
    return at;
}

int64_t divide(int64_t a, int64_t b) {
    // Neither is defined in TOSA, nor in Vulkan.
    if (b == 0) return 0;
    return b == -1 ? -a : a / b;
}

int64_t shifted(int64_t a, int64_t b, bool rounded) {
    int by = int(b) & 63;
    int64_t r = a >> by;
    return rounded && by > 0 ? r + ((a >> (by - 1)) & 1) : r;
}

int64_t leading_zeros(int64_t a) {
    uvec2 words = unpackUint2x32(uint64_t(a));
    return words.y != 0u ? 31 - findMSB(words.y) : 63 - findMSB(words.x);
}

int64_t value_of(uint element) {
    uvec3 at = places(element);
    int64_t a = load_wide(p.operand[0], FIRST, at.x);
    int64_t b = load_wide(p.operand[1], OTHERS, at.y);
    int64_t c = load_wide(p.operand[2], OTHERS, at.z);
    switch (OPERATOR) {
    case 1u: return a + b;
    case 2u: return a - b;
    case 3u: return a * b;
    case 4u: return max(a, b);
    case 5u: return min(a, b);
    case 6u: return divide(a, b);
    case 7u: return a & b;
    case 8u: return a | b;
    case 9u: return a ^ b;
    case 10u: return a << (int(b) & 63);
    case 11u: return int64_t(uint64_t(a) >> (int(b) & 63));
    case 12u: return shifted(a, b, false);
    case 13u: return shifted(a, b, true);
    case 14u: return int64_t(a == b);
    case 15u: return int64_t(a > b);
    case 16u: return int64_t(a >= b);
    case 17u: return a != 0 ? b : c;
    case 18u: return abs(a);
    case 19u: return -a;
    case 20u: return ~a;
    case 21u: return leading_zeros(a);
    }
    return OUTPUT == T_BOOL ? int64_t(a != 0) : a;
}

void main() {
    const uint width = OUTPUT == T_I64 ? 8u : type_bytes(OUTPUT);
    const uint a_word = width < 4u ? 4u / width : 1u;
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * a_word >= p.count) return;
    uint first = uint(serial) * a_word;
    if (width == 8u) {
        store_wide(p.dst, first, value_of(first));
        return;
    }
    uint own = min(a_word, p.count - first);
    uint word = 0u;
    for (uint j = 0u; j < own; j++) {
        uint bits = uint(value_of(first + j));
        word |= (width == 4u ? bits : bits & ((1u << (8u * (width & 3u))) - 1u)) << (8u * (width & 3u) * j);
    }
    uint64_t at = p.dst + uint64_t(first) * width;
    if (own == a_word) {
        PtrU32(at).v = word;
        return;
    }
    for (uint j = 0u; j < own * width; j++) PtrU8(at + j).v = uint8_t(word >> (8u * j));
}
