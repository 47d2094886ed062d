// RESIZE. A sample lies at (output coordinate * d + offset) / n of the input, in exact integer arithmetic.
// An invocation makes one word of the output, or one INT48 (WIDE).
// variant nearest_f32 IN=F32 OUT=F32 NEAREST
// variant nearest_f16 IN=F16 OUT=F16 NEAREST
// variant nearest_bf16 IN=BF16 OUT=BF16 NEAREST
// variant nearest_i8 IN=I8 OUT=I8 NEAREST
// variant nearest_i16 IN=I16 OUT=I16 NEAREST
// variant bilinear_f32 IN=F32 OUT=F32
// variant bilinear_f16 IN=F16 OUT=F16
// variant bilinear_bf16 IN=BF16 OUT=BF16
// variant bilinear_e4m3 IN=E4M3 OUT=E4M3
// variant bilinear_e5m2 IN=E5M2 OUT=E5M2
// variant bilinear_i8 IN=I8 OUT=I32
// variant bilinear_i16 IN=I16 WIDE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint count; // elements of the output
    uint in_h;
    uint in_w;
    uint channels;
    uint out_h;
    uint out_w;
    int y_n;
    int y_d;
    int x_n;
    int x_d;
    int y_offset;
    int x_offset;
} p;

// Between which two elements a sample lies, and how far from the first, in parts of n.
struct Place {
    uint low;
    uint high;
    int part;
};

Place place(uint at, int n, int d, int offset, uint extent) {
    int position = int(at) * d + offset;
    // Offsets reach down to -n, so this is the floor.
    int low = (position + n) / n - 1;
    int last = int(extent) - 1;
    return Place(uint(clamp(low, 0, last)), uint(clamp(low + 1, 0, last)), position - low * n);
}

#if defined(WIDE)
#include "common/int48.glsl"
#define Sample int64_t
#define Sum int64_t
int64_t out_bits(int64_t x) { return x; }
#else
#define Sample uint
#define Sum Acc
#endif

Sample sample_at(uint index) {
    uint c = index % p.channels;
    index /= p.channels;
    uint ox = index % p.out_w;
    index /= p.out_w;
    Place y = place(index % p.out_h, p.y_n, p.y_d, p.y_offset, p.in_h);
    Place x = place(ox, p.x_n, p.x_d, p.x_offset, p.in_w);
    uint image = index / p.out_h * p.in_h;
#if defined(NEAREST)
    uint row = 2 * y.part >= p.y_n ? y.high : y.low;
    uint column = 2 * x.part >= p.x_n ? x.high : x.low;
    return out_bits(load_in(p.src, ((image + row) * p.in_w + column) * p.channels + c));
#else
    uint low = (image + y.low) * p.in_w;
    uint high = (image + y.high) * p.in_w;
    Acc v00 = load_in(p.src, (low + x.low) * p.channels + c);
    Acc v01 = load_in(p.src, (low + x.high) * p.channels + c);
    Acc v10 = load_in(p.src, (high + x.low) * p.channels + c);
    Acc v11 = load_in(p.src, (high + x.high) * p.channels + c);
#if IN == I8 || IN == I16
    Acc top = v00 * (p.x_n - x.part) + v01 * x.part;
    Acc bottom = v10 * (p.x_n - x.part) + v11 * x.part;
    return out_bits(Sum(top) * (p.y_n - y.part) + Sum(bottom) * y.part);
#else
    float dx = float(x.part) / float(p.x_n);
    float dy = float(y.part) / float(p.y_n);
    float top = v00 * (1 - dx) + v01 * dx;
    float bottom = v10 * (1 - dx) + v11 * dx;
    return out_bits(top * (1 - dy) + bottom * dy);
#endif
#endif
}

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
#if defined(WIDE)
    if (serial < p.count) store_i48(p.dst, serial, sample_at(uint(serial)));
#else
    if (serial * OUT_A_WORD >= p.count) return;
    uint first = uint(serial) * OUT_A_WORD;
    uint own = min(OUT_A_WORD, p.count - first);
    uint word = 0;
    [[unroll]] for (uint j = 0; j < OUT_A_WORD; j++) {
        if (j < own) word |= sample_at(first + j) << (8 * OUT_BYTES * j);
    }
    if (own == OUT_A_WORD) {
        PtrU32(p.dst + uint64_t(first) * OUT_BYTES).v = word;
    } else {
        for (uint j = 0; j < own; j++) store_element(p.dst, first + j, word >> (8 * OUT_BYTES * j));
    }
#endif
}
