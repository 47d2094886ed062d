// The read ceiling: sums a buffer by 16-byte loads, LOADS of them in flight.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vectors { uvec4 v; };
layout(constant_id = 0) const uint LOADS = 4;
layout(push_constant, scalar) uniform Push {
    uint64_t dst; // one word an invocation
    uint64_t src;
    uint vectors; // a multiple of LOADS times the invocations
} p;

void main() {
    uint lane = gl_GlobalInvocationID.x;
    uint stride = gl_NumWorkGroups.x * 256;
    uvec4 sum = uvec4(0);
    for (uint at = lane; at < p.vectors; at += stride * LOADS) {
        uvec4 x[LOADS];
        [[unroll]] for (uint i = 0; i < LOADS; i++) x[i] = Vectors(p.src + uint64_t(at + i * stride) * 16).v;
        [[unroll]] for (uint i = 0; i < LOADS; i++) sum += x[i];
    }
    PtrU32(p.dst + lane * 4).v = sum.x + sum.y + sum.z + sum.w;
}
