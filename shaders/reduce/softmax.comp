// Softmax of rows: exp(x - max) / sum of those, with the row in registers from its only load to the store. LANES_N invocations share a
// row and hold up to eight vectors of 16 bytes of it each; rows are whole vectors. HALF: the device rounds to FP16 as it must.
// variant any
// variant half HALF
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common/prelude.glsl"
#include "common/repeat.glsl"
#include "common/element.glsl"
#include "common/vector16.glsl"
#include "common/float_math.glsl"
#if defined(HALF)
#include "common/half.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint LANES_N = 64u;
layout(constant_id = 2) const uint VECTORS = 1u;
layout(constant_id = 3) const uint INPUT = 0u; // element types
layout(constant_id = 4) const uint OUTPUT = 0u;
layout(constant_id = 5) const uint QUADS = 1u; // of elements in 16 bytes of the input

const uint VECTOR = 4u * QUADS;
const uint BYTES = 4u / QUADS;

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src; // [rows][axis]
    uint rows;
    uint axis;
} p;

shared float parts[LANES];

float combine(float a, float b, bool adds) {
    return adds ? a + b : max(a, b);
}

// Neighbours in a row are neighbours in a subgroup.
uint lane_of_row() {
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
}

// The row's sum or greatest value, for all its invocations.
float across(vec4 x, bool adds) {
    float total = combine(combine(x.x, x.y, adds), combine(x.z, x.w, adds), adds);
    uint lane = lane_of_row();
    uint own = lane % LANES_N;
    if (LANES_N >= gl_SubgroupSize) {
        total = adds ? subgroupAdd(total) : subgroupMax(total);
        uint count = LANES_N / gl_SubgroupSize;
        if (count == 1u) return total;
        // What was there was read before the barrier of the reduction before this one, or never written.
        uint place = gl_SubgroupID + (adds ? LANES / 2u : 0u);
        if (gl_SubgroupInvocationID == 0u) parts[place] = total;
        barrier();
        place -= gl_SubgroupID % count;
        total = parts[place];
        for (uint i = 1u; i < count; i++) total = combine(total, parts[place + i], adds);
        return total;
    }
    for (uint step = LANES_N / 2u; step > 0u; step /= 2u) {
        parts[lane] = total;
        barrier();
        total = combine(total, parts[lane - own + (own ^ step)], adds);
        barrier();
    }
    return total;
}

// e to the power of x, which is not positive; 1e-7, and zero where the result would be subnormal.
vec4 exp_of_difference(vec4 x) {
    // The device's own is good to (3 + 2 |x|) 2^-24 of the result, which numbers of two bytes do not show.
    if (type_bytes(OUTPUT) == 2u) return exp2(x * 1.44269504);
    const vec4 magic = vec4(12582912.0); // adding it rounds to a whole number, in the lowest bits
    precise vec4 z = fma(x, vec4(1.44269504), magic);
    precise vec4 n = z - magic;
    vec4 r = fma(n, vec4(-0.693359375), x);
    r = fma(n, vec4(2.12194440e-4), r);
    vec4 q = fma(vec4(0.0013951717410236597), r, vec4(0.008369598537683487));
    q = fma(q, r, vec4(0.0416661873459816));
    q = fma(q, r, vec4(0.16666512191295624));
    q = fma(q, r, vec4(0.5));
    q = fma(q, r * r, r) + 1.0;
    vec4 scaled = intBitsToFloat(floatBitsToInt(q) + (floatBitsToInt(z) << 23));
    scaled = mix(scaled, vec4(0.0), lessThan(x, vec4(-87.0)));
    return mix(scaled, x, is_nan(floatBitsToUint(x)));
}

// Four numbers as two words of the output's type, which has two bytes.
uvec2 two_byte_words(uvec4 y) {
#if defined(HALF)
    if (OUTPUT == T_F16) return pack_f16(uintBitsToFloat(y));
#endif
    uvec4 raw = narrow(OUTPUT, y) & 0xffffu;
    return raw.xz | raw.yw << 16;
}

// Stores four elements wherever they lie.
void store_any(uint64_t to, uint width, uvec4 raw) {
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        if (width == 4u) PtrU32(to + j * 4u).v = raw[j];
        else if (width == 2u) PtrU16(to + j * 2u).v = uint16_t(raw[j]);
        else PtrU8(to + j).v = uint8_t(raw[j]);
    }
}

void main() {
    uint lane = lane_of_row();
    uint64_t wanted = flat_group() * (LANES / LANES_N) + lane / LANES_N;
    // Invocations past the last row repeat it, since all must meet at barriers, and store nothing.
    uint64_t row = min(wanted, uint64_t(p.rows - 1u));
    uint own = lane % LANES_N;
    uint64_t from = p.src + row * p.axis * BYTES;
    uint vectors = p.axis / VECTOR;
    uvec4 words[8];
    if (aligned16(from)) {
        REPEAT8(v, VECTORS, words[v] = PtrU32x4(from + uint64_t(min(v * LANES_N + own, vectors - 1u)) * 16u).v;)
    } else {
        REPEAT8(v, VECTORS, words[v] = load16_slow(from + uint64_t(min(v * LANES_N + own, vectors - 1u)) * 16u, BYTES);)
    }
    const float lowest = uintBitsToFloat(0xff800000u);
    vec4 x[8][4];
    vec4 top = vec4(lowest);
    REPEAT8(v, VECTORS, REPEAT4(q, QUADS,
        x[v][q] = uintBitsToFloat(quad_of(INPUT, words[v], q));
        top = max(top, x[v][q]);
    ))
    float greatest = across(top, false);
    vec4 sums = vec4(0.0);
    REPEAT8(v, VECTORS,
        if (v * LANES_N + own < vectors) {
            REPEAT4(q, QUADS,
                x[v][q] = exp_of_difference(x[v][q] - greatest);
                sums += x[v][q];
            )
        }
    )
    float scale = reciprocal_accurate(vec4(across(sums, true))).x;
    if (wanted >= p.rows) return;
    uint width = type_bytes(OUTPUT);
    uint64_t to = p.dst + row * p.axis * width;
    bool whole = width == BYTES && aligned16(to);
    REPEAT8(v, VECTORS,
        uint first = (v * LANES_N + own) * VECTOR;
        if (first < p.axis) {
            uvec4 packed = uvec4(0u);
            REPEAT4(q, QUADS,
                uvec4 y = floatBitsToUint(x[v][q] * scale);
                if (whole) {
                    if (BYTES == 4u) {
                        packed = y;
                    } else if (BYTES == 2u) {
                        uvec2 pair = two_byte_words(y);
                        packed[(2u * q) & 3u] = pair.x;
                        packed[(2u * q + 1u) & 3u] = pair.y;
                    } else {
                        uvec4 raw = (narrow(OUTPUT, y) & 0xffu) << uvec4(0, 8, 16, 24);
                        packed[q] = raw.x | raw.y | raw.z | raw.w;
                    }
                } else {
                    store_any(to + uint64_t(first + 4u * q) * width, width, narrow(OUTPUT, y));
                }
            )
            if (whole) PtrU32x4(to + uint64_t(first) * width).v = packed;
        }
    )
}
