// What reductions carry from element to element: four totals, or with ARGMAX four keys and their places.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint LANES_N = 64u; // invocations that share an axis (rows, parts), or lie along the outputs (columns)
layout(constant_id = 2) const uint LOADS = 4u;    // in flight
layout(constant_id = 3) const uint INPUT = 0u;    // element types
layout(constant_id = 4) const uint OUTPUT = 0u;
layout(constant_id = 5) const uint CODE = 0u;     // the stage that combines two; ARGMAX: whether NaN is greatest
layout(constant_id = 6) const uint QUADS = 1u;    // of elements in 16 bytes

const uint VECTOR = 4u * QUADS;
const uint BYTES = 4u / QUADS;

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // [outer][inner], or parts [chunks][outer][inner]: totals, or keys and then places
    uint64_t src; // [outer][axis][inner]
    uint outer;
    uint axis;
    uint inner;
    uint chunk; // elements of the axis in a part
    uint chunks;
    uint identity; // register form
} p;

#if defined(ARGMAX)
struct State {
    ivec4 key;
    uvec4 place;
};

State fresh() {
    return State(ivec4(-0x7fffffff - 1), uvec4(0xffffffffu));
}

// An integer that orders as the elements do.
ivec4 key_of(uvec4 x) {
    if (INPUT == T_I8 || INPUT == T_I16 || INPUT == T_I32) return ivec4(x);
    ivec4 magnitude = ivec4(x & 0x7fffffffu);
    ivec4 key = mix(magnitude, -magnitude, lessThan(ivec4(x), ivec4(0)));
    return mix(key, ivec4(CODE == 1u ? 0x7fffffff : -0x7fffffff), is_nan(x));
}

// Takes elements that stand behind all that were taken.
void take(inout State s, uvec4 x, uvec4 place) {
    ivec4 key = key_of(x);
    bvec4 greater = greaterThan(key, s.key);
    s.key = mix(s.key, key, greater);
    s.place = mix(s.place, place, greater);
}

void merge(inout State s, State other) {
    bvec4 greater = greaterThan(other.key, s.key);
    bvec4 earlier = lessThan(other.place, s.place);
    bvec4 better = bvec4(uvec4(greater) | (uvec4(equal(other.key, s.key)) & uvec4(earlier)));
    s.key = mix(s.key, other.key, better);
    s.place = mix(s.place, other.place, better);
}

uvec4 result(State s) {
    return s.place;
}

State component(State s, uint i) {
    return State(ivec4(s.key[i]), uvec4(s.place[i]));
}
#else
bvec4 or(bvec4 a, bvec4 b) {
    return bvec4(uvec4(a) | uvec4(b));
}

struct State {
    uvec4 total;
};

State fresh() {
    return State(uvec4(p.identity));
}

uvec4 combine(uvec4 a, uvec4 b) {
    // As the stages do, with one test for NaN: comparisons with one in the total fail.
    if (CODE == S_MAX_F) return mix(a, b, or(greaterThan(AS_F(b), AS_F(a)), is_nan(b)));
    if (CODE == S_MIN_F) return mix(a, b, or(lessThan(AS_F(b), AS_F(a)), is_nan(b)));
    if (CODE < S_ABS_I) return float_stage(CODE, a, b, 0u, 0u);
    return int_stage(CODE, a, b, T_I32, 0u, 0u);
}

void take(inout State s, uvec4 x, uvec4 place) {
    s.total = combine(s.total, x);
}

void merge(inout State s, State other) {
    s.total = combine(s.total, other.total);
}

uvec4 result(State s) {
    return s.total;
}

State component(State s, uint i) {
    return State(uvec4(s.total[i]));
}
#endif

// The totals of invocations that lie `LANES_N` side by side, a part of an axis each; right in the first of them.
shared State tree[LANES];

State across(State s) {
    uint lane = gl_LocalInvocationID.x;
    uint own = lane % LANES_N;
    tree[lane] = s;
    for (uint width = LANES_N; width > 1u;) {
        uint fan = min(width, 16u);
        width /= fan;
        barrier();
        if (own < width) {
            for (uint i = 1u; i < fan; i++) merge(s, tree[lane + i * width]);
        }
        barrier();
        tree[lane] = s;
    }
    return s;
}

// Stores the state of one output.
void store_one(uint chunk, uint64_t output_index, uint64_t outputs, State s) {
    uint64_t at = (uint64_t(chunk) * outputs + output_index) * 4u;
    if (p.chunks == 1u) {
        uint width = type_bytes(OUTPUT);
        uint raw = narrow(OUTPUT, result(s)).x;
        uint64_t to = p.dst + output_index * width;
        if (width == 4u) PtrU32(to).v = raw;
        else if (width == 2u) PtrU16(to).v = uint16_t(raw);
        else PtrU8(to).v = uint8_t(raw);
        return;
    }
#if defined(ARGMAX)
    PtrI32(p.dst + at).v = s.key.x;
    PtrU32(p.dst + p.chunks * outputs * 4u + at).v = s.place.x;
#else
    PtrU32(p.dst + at).v = s.total.x;
#endif
}
