// The copy ceiling: one 16-byte vector an invocation.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x_id = 0) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vectors { uvec4 v; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint vectors; // as many as invocations
} p;

void main() {
    uint64_t at = uint64_t(gl_GlobalInvocationID.x) * 16;
    if (gl_GlobalInvocationID.x < p.vectors) Vectors(p.dst + at).v = Vectors(p.src + at).v;
}
