// A reduction along an axis with others inside it: an invocation keeps the totals of 16 bytes of columns and walks down the axis;
// the workgroup's slices of the axis meet in shared memory. Rows are whole vectors.
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

const uint SLICES = LANES / LANES_N;
void main() {
    uint vectors = p.inner / VECTOR;
    uint blocks = (vectors + LANES_N - 1u) / LANES_N;
    uint64_t group = flat_group();
    uint block = uint(group % blocks);
    group /= blocks;
    uint chunk = uint(group % p.chunks);
    uint64_t outer = group / p.chunks;
    if (outer >= p.outer) return;
    uint lane = gl_LocalInvocationID.x;
    uint vector = block * LANES_N + lane % LANES_N;
    uint begin = chunk * p.chunk;
    uint end = begin < p.axis ? begin + min(p.chunk, p.axis - begin) : begin;
    uint64_t column = p.src + (outer * p.axis * p.inner + min(vector, vectors - 1u) * VECTOR) * BYTES;
    uint64_t pitch = uint64_t(p.inner) * BYTES;
    bool aligned = aligned16(p.src);
    State states[QUADS];
    [[unroll]] for (uint q = 0u; q < QUADS; q++) states[q] = fresh();
#if defined(PACKED)
    Packed packed = nothing_packed();
#endif
    for (uint a = begin + lane / LANES_N; a < end;) {
        uvec4 words[LOADS];
        uint left = end - a;
        uint64_t from = column + a * pitch;
        if (aligned) {
            [[unroll]] for (uint u = 0u; u < LOADS; u++) {
                if (u * SLICES < left) words[u] = PtrU32x4(from + u * SLICES * pitch).v;
            }
        } else {
            [[unroll]] for (uint u = 0u; u < LOADS; u++) {
                if (u * SLICES < left) words[u] = load16_slow(from + u * SLICES * pitch, BYTES);
            }
        }
        [[unroll]] for (uint u = 0u; u < LOADS; u++) {
            if (u * SLICES < left) {
#if defined(PACKED)
                take_packed(packed, words[u]);
#else
                [[unroll]] for (uint q = 0u; q < QUADS; q++) {
                    take(states[q], quad_of(INPUT, words[u], q), uvec4(a + u * SLICES));
                }
#endif
            }
        }
        if (left <= LOADS * SLICES) break;
        a += LOADS * SLICES;
    }
    uint64_t outputs = uint64_t(p.outer) * p.inner;
    [[unroll]] for (uint q = 0u; q < QUADS; q++) {
#if defined(PACKED)
        take(states[q], quad_of(INPUT, unpacked(packed), q), uvec4(0u));
#endif
        State s = states[q];
        tree[lane] = s;
        barrier();
        if (lane < LANES_N) {
            for (uint slice = 1u; slice < SLICES; slice++) merge(s, tree[slice * LANES_N + lane]);
            if (vector < vectors) {
                uint64_t at = outer * p.inner + vector * VECTOR + 4u * q;
                if (p.chunks == 1u) {
                    store_quad(p.dst + at * type_bytes(OUTPUT), OUTPUT, 0u, 4u, result(s));
                } else {
                    uint64_t to = p.dst + (uint64_t(chunk) * outputs + at) * 4u;
#if defined(ARGMAX)
                    PtrU32x4(to).v = uvec4(s.key);
                    PtrU32x4(to + p.chunks * outputs * 4u).v = s.place;
#else
                    PtrU32x4(to).v = s.total;
#endif
                }
            }
        }
        barrier();
    }
}
