// REDUCE_*: combines the elements of an axis with a pointwise stage of two arguments. The order depends on the shape and
// the device's limits alone, so that a device gives the same bits every run.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/stages.glsl"
#include "reduce/view.glsl"

shared uvec4 parts[64];

uvec4 combine(uvec4 a, uvec4 b) {
    if (CODE < S_ABS_I) return float_stage(CODE, a, b, 0u, 0u);
    return int_stage(CODE, a, b, T_I32, 0u, 0u);
}

void main() {
    Part part = part_of_invocation();
    uvec4 total = uvec4(p.identity);
    for (uint a = part.begin; a < part.end; a += AXIS_LANES) {
        total = combine(total, load_gather(p.src, INPUT, part.start + a * p.inner));
    }
    uint lane = gl_LocalInvocationID.x;
    if (AXIS_LANES > 1u) {
        parts[lane] = total;
        for (uint step = AXIS_LANES / 2u; step > 0u; step /= 2u) {
            barrier();
            if (lane % AXIS_LANES < step) parts[lane] = combine(parts[lane], parts[lane + step]);
        }
        total = parts[lane];
    }
    if (part.inside && lane % AXIS_LANES == 0u) {
        store_quad(p.dst + uint64_t(part.chunk) * p.outputs * 4u, OUTPUT, part.first, p.outputs, total);
    }
}
