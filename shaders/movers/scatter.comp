// SCATTER, after the values were copied: output[n][indices[n][w]][c] = input[n][w][c]. Rows share words with their
// neighbours, so elements are stored singly; an index beyond the output stores nothing.
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
    uint64_t indices;
    uint64_t src;
    uint count; // elements of the input
    uint rows; // of the output: K
    uint picks; // W
    uint columns; // C
} p;

void main() {
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint index = uint(serial);
    uint c = index % p.columns;
    uint pick = index / p.columns;
    uint row = uint(PtrI32(p.indices + uint64_t(pick) * 4).v);
    if (row >= p.rows) return;
    store_bits(p.dst, (pick / p.picks * p.rows + row) * p.columns + c, load_bits(p.src, index));
}
