// ARGMAX: index of the greatest element of an axis, the first where several are. CODE is 1 where a NaN is greater than all
// (PROPAGATE), 0 where it is less (IGNORE).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/element.glsl"
#include "reduce/view.glsl"

shared ivec4 keys[64];
shared uvec4 places[64];

// An integer that orders as the elements do.
ivec4 key_of(uvec4 x) {
    if (INPUT == T_I8 || INPUT == T_I16) return ivec4(x);
    ivec4 magnitude = ivec4(x & 0x7fffffffu);
    ivec4 key = mix(magnitude, -magnitude, lessThan(ivec4(x), ivec4(0)));
    return mix(key, ivec4(CODE == 1u ? 0x7fffffff : -0x7fffffff), is_nan(x));
}

void better(inout ivec4 key, inout uvec4 place, ivec4 other_key, uvec4 other_place) {
    bvec4 greater = greaterThan(other_key, key);
    bvec4 earlier = lessThan(other_place, place);
    bvec4 same = equal(other_key, key);
    bvec4 take = bvec4(uvec4(greater) | (uvec4(same) & uvec4(earlier)));
    key = mix(key, other_key, take);
    place = mix(place, other_place, take);
}

void main() {
    Part part = part_of_invocation();
    ivec4 key = ivec4(-0x7fffffff - 1);
    uvec4 place = uvec4(0xffffffffu);
    for (uint a = part.begin; a < part.end; a += AXIS_LANES) {
        better(key, place, key_of(load_gather(p.src, INPUT, part.start + a * p.inner)), uvec4(a));
    }
    uint lane = gl_LocalInvocationID.x;
    if (AXIS_LANES > 1u) {
        keys[lane] = key;
        places[lane] = place;
        for (uint step = AXIS_LANES / 2u; step > 0u; step /= 2u) {
            barrier();
            if (lane % AXIS_LANES < step) {
                better(key, place, keys[lane + step], places[lane + step]);
                keys[lane] = key;
                places[lane] = place;
            }
        }
    }
    if (part.inside && lane % AXIS_LANES == 0u) store_quad(p.dst, OUTPUT, part.first, p.outputs, place);
}
