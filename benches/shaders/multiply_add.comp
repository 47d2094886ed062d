// The multiply-add ceiling of the scalar units: 16 independent sums an invocation, no memory in the loop.
// variant f32 T=vec4 S=float FMA=fma
// variant f16 T=f16vec4 S=float16_t FMA=fma
// variant i32 T=ivec4 S=int FMA=MULTIPLY_ADD
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst; // one word an invocation
    uint steps;
    uint seed;
} p;

void main() {
    uint lane = gl_GlobalInvocationID.x;
    T a = T(S(lane & 3u)), b = T(S(p.seed + (lane & 7u)));
    T sum[4] = {a, a + b, b, a - b};
    for (uint i = 0; i < p.steps; i++) {
        [[unroll]] for (uint j = 0; j < 8; j++) {
            [[unroll]] for (uint k = 0; k < 4; k++) sum[k] = FMA(sum[k], a, b);
        }
    }
    T all = sum[0] + sum[1] + sum[2] + sum[3];
    PtrU32(p.dst + lane * 4).v = uint(all.x) ^ uint(all.y) ^ uint(all.z) ^ uint(all.w);
}
