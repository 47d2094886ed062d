// RESCALE of INT48. An invocation makes one word of the output.
// variant i8 OUT=I8
// variant i16 OUT=I16
// variant i32 OUT=I32
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "common/int_math.glsl"
#include "common/int48.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint64_t multiplier; // INT16
    uint64_t shift; // INT8
    uint64_t output_zp; // of the output's type, read where that is INT8
    uint count; // elements of the output
    uint channels; // 1 where one multiplier serves all
} p;

#if OUT == I8
const uint TYPE = T_I8;
#elif OUT == I16
const uint TYPE = T_I16;
#else
const uint TYPE = T_I32;
#endif

int output_zp = 0;

uint rescale(uint index) {
    uint channel = index % p.channels;
    int multiplier = int(PtrI16(p.multiplier + uint64_t(channel) * 2).v);
    int shift = int(PtrI8(p.shift + channel).v) & 63;
    int64_t rounded = load_i48(p.src, index) * multiplier + (int64_t(1) << max(shift - 1, 0));
    int64_t scaled = int64_t(int(rounded >> shift)) + output_zp;
    return out_bits(int(clamp(scaled, int64_t(low_bound(TYPE).x), int64_t(high_bound(TYPE).x))));
}

void main() {
#if OUT == I8
    output_zp = int(PtrI8(p.output_zp).v);
#endif
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * OUT_A_WORD >= p.count) return;
    uint first = uint(serial) * OUT_A_WORD;
    uint own = min(OUT_A_WORD, p.count - first);
    uint word = 0;
    [[unroll]] for (uint j = 0; j < OUT_A_WORD; j++) {
        if (j < own) word |= rescale(first + j) << (8 * OUT_BYTES * j);
    }
    if (own == OUT_A_WORD) {
        PtrU32(p.dst + uint64_t(first) * OUT_BYTES).v = word;
    } else {
        for (uint j = 0; j < own; j++) store_element(p.dst, first + j, word >> (8 * OUT_BYTES * j));
    }
}
