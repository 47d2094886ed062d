// Takes zero points off an INT8 product on matrix units, which multiply what is stored: sum (a - y)(b - z) = sum ab - z sum a - y sum b
// + k y z. A workgroup makes the term of one row of A, or of one column of B, whose elements lie side by side in whole vectors.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/words.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint first; // term
    uint rows;
    uint vectors; // of a row; none where the other operand has no zero point
    int factor;
    int offset;
} p;

shared int total;

void main() {
    uint64_t row = flat_group();
    if (row >= p.rows) return;
    uint lane = gl_LocalInvocationID.x;
    if (lane == 0) total = 0;
    int sum = 0;
    for (uint i = lane; i < p.vectors; i += 64) {
        ivec4 words = ivec4(load_words(p.src + (row * p.vectors + i) * 16, 4));
        ivec4 sums = (words << 24 >> 24) + (words << 16 >> 24) + (words << 8 >> 24) + (words >> 24);
        sum += sums.x + sums.y + sums.z + sums.w;
    }
    barrier();
    atomicAdd(total, sum);
    barrier();
    if (lane == 0) PtrI32(p.dst + (p.first + row) * 4).v = p.offset + p.factor * total;
}
