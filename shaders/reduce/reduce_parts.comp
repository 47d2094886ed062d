// The second launch of a reduction whose axis was cut into chunks: LANES_N invocations share an output's parts.
// variant reduce
// variant argmax ARGMAX
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/stages.glsl"
#include "common/vector16.glsl"
#include "reduce/state.glsl"

// Here `axis` is the number of parts, `chunks` is one and `outer` counts the outputs.
State part(uint index, uint64_t output_index) {
    uint64_t at = p.src + (uint64_t(index) * p.outer + output_index) * 4u;
#if defined(ARGMAX)
    return State(ivec4(PtrI32(at).v), uvec4(PtrU32(at + uint64_t(p.axis) * p.outer * 4u).v));
#else
    return State(uvec4(PtrU32(at).v));
#endif
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint64_t output_index = flat_group() * (LANES / LANES_N) + lane / LANES_N;
    bool inside = output_index < p.outer;
    State s = fresh();
    for (uint i = lane % LANES_N; inside && i < p.axis; i += LANES_N * LOADS) {
        State some[LOADS];
        [[unroll]] for (uint u = 0u; u < LOADS; u++) some[u] = part(min(i + u * LANES_N, p.axis - 1u), output_index);
        [[unroll]] for (uint u = 0u; u < LOADS; u++) {
            if (i + u * LANES_N < p.axis) merge(s, some[u]);
        }
    }
    s = across(s);
    if (inside && lane % LANES_N == 0u) store_one(0u, output_index, p.outer, s);
}
