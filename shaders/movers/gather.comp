// GATHER: output[n][w][c] = values[n][indices[n][w]][c]. An index beyond the values reads the nearest row.
// variant e1 SIZE=1
// variant e2 SIZE=2
// variant e4 SIZE=4
// variant e16 SIZE=16
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "movers/word.glsl"
layout(local_size_x_id = 31) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t values;
    uint64_t indices;
    uint count; // elements of the output
    uint rows; // of the values: K
    uint picks; // W
    uint columns; // C
} p;

Bits fetch(uint index) {
    uint c = index % p.columns;
    uint pick = index / p.columns;
    uint row = uint(clamp(PtrI32(p.indices + uint64_t(pick) * 4).v, 0, int(p.rows) - 1));
    return load_bits(p.values, (pick / p.picks * p.rows + row) * p.columns + c);
}

void main() {
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial * A_WORD >= p.count) return;
    uint first = uint(serial) * A_WORD;
    uint own = min(A_WORD, p.count - first);
    Bits word = Bits(0);
    [[unroll]] for (uint j = 0; j < A_WORD; j++) {
        if (j < own) word |= fetch(first + j) << PLACE(j);
    }
    store_word(p.dst, first, word, own);
}
