// REDUCE_SUM, REDUCE_MAX, REDUCE_MIN and ARGMAX of INT64. An invocation makes one element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/convert.glsl"
#include "pointwise/wide.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint OPERATOR = 0u; // 0 sum, 1 maximum, 2 minimum, 3 place of the maximum
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint count;
    uint axis; // extent
    uint inner;
} p;

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint index = uint(serial);
    uint at = index / p.inner * p.axis * p.inner + index % p.inner;
    int64_t value = load_wide(p.src, T_I64, at);
    uint place = 0u;
    for (uint i = 1u; i < p.axis; i++) {
        int64_t x = load_wide(p.src, T_I64, at + i * p.inner);
        if (x > value) place = i;
        value = OPERATOR == 0u ? value + x : OPERATOR == 2u ? min(value, x) : max(value, x);
    }
    store_wide(p.dst, index, OPERATOR == 3u ? int64_t(place) : value);
}
