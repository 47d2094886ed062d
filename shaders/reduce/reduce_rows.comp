// A reduction along the innermost axis: LANES_N invocations share a row, 16 bytes each at a time. A lane takes the same elements
// whatever the alignment, so that the sum has the same bits.
// variant reduce
// variant argmax ARGMAX
// variant packed PACKED
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/stages.glsl"
#include "common/vector16.glsl"
#include "reduce/state.glsl"
#if defined(PACKED)
#include "common/half.glsl"
#include "reduce/packed.glsl"
#endif

void take_vector(inout State s, uvec4 words, uint place) {
    [[unroll]] for (uint q = 0u; q < QUADS; q++) take(s, quad_of(INPUT, words, q), place + 4u * q + uvec4(0, 1, 2, 3));
}

// Takes one element into the first of the four.
void take_one(inout State s, uint x, uint place) {
    State one = fresh();
    take(one, uvec4(x), uvec4(place));
    State other = fresh();
#if defined(ARGMAX)
    other.key.x = one.key.x;
    other.place.x = one.place.x;
#else
    other.total.x = one.total.x;
#endif
    merge(s, other);
}

void main() {
    const uint rows = LANES / LANES_N;
    uint64_t group = flat_group();
    uint chunk = uint(group % p.chunks);
    uint64_t row = group / p.chunks * rows + gl_LocalInvocationID.x / LANES_N;
    bool inside = row < p.outer;
    uint begin = chunk * p.chunk;
    uint end = inside && begin < p.axis ? begin + min(p.chunk, p.axis - begin) : begin;
    uint64_t base = p.src + (inside ? row : 0ul) * p.axis * BYTES;
    bool aligned = aligned16(base + uint64_t(begin) * BYTES);
    const uint STEP = LANES_N * VECTOR;
    uint at = begin + gl_LocalInvocationID.x % LANES_N * VECTOR;
    // What is called twice is not inlined, and then the state is in memory: so one loop, in which loads past the end are left out.
    State s = fresh();
#if defined(PACKED)
    Packed packed = nothing_packed();
#endif
    while (at < end) {
        uvec4 words[LOADS];
        uint left = (end - at) / VECTOR; // whole vectors from here on
        uint64_t from = base + uint64_t(at) * BYTES;
        if (aligned) {
            [[unroll]] for (uint u = 0u; u < LOADS; u++) {
                if (u * LANES_N < left) words[u] = PtrU32x4(from + u * STEP * BYTES).v;
            }
        } else {
            [[unroll]] for (uint u = 0u; u < LOADS; u++) {
                if (u * LANES_N < left) words[u] = load16_slow(from + u * STEP * BYTES, BYTES);
            }
        }
        [[unroll]] for (uint u = 0u; u < LOADS; u++) {
#if defined(PACKED)
            if (u * LANES_N < left) take_packed(packed, words[u]);
#else
            if (u * LANES_N < left) take_vector(s, words[u], at + u * STEP);
#endif
        }
        if (end - at < LOADS * STEP) break;
        at += LOADS * STEP;
    }
#if defined(PACKED)
    take_vector(s, unpacked(packed), 0u);
#endif
    // The last elements are less than a vector: one each for the first invocations.
    uint tail = end - (end - begin) % VECTOR + gl_LocalInvocationID.x % LANES_N;
    for (; tail < end; tail += LANES_N) take_one(s, load_scalar(base, INPUT, tail).x, tail);
    State one = component(s, 0u);
    [[unroll]] for (uint i = 1u; i < 4u; i++) merge(one, component(s, i));
    one = across(one);
    if (inside && gl_LocalInvocationID.x % LANES_N == 0u) store_one(chunk, row, p.outer, one);
}
