// The multiply-add ceiling of packed INT8 outside the matrix units: dot products of four.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#include "common/prelude.glsl"
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst; // one word an invocation
    uint steps;
    uint seed;
} p;

void main() {
    uint lane = gl_GlobalInvocationID.x;
    int sum[16];
    [[unroll]] for (uint k = 0; k < 16; k++) sum[k] = int(lane + k);
    int b = int(p.seed + lane);
    for (uint i = 0; i < p.steps; i++) {
        [[unroll]] for (uint j = 0; j < 8; j++) {
            [[unroll]] for (uint k = 0; k < 16; k++) sum[k] += dotPacked4x8EXT(sum[k], b);
        }
    }
    int all = 0;
    [[unroll]] for (uint k = 0; k < 16; k++) all ^= sum[k];
    PtrI32(p.dst + lane * 4).v = all;
}
