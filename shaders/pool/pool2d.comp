// MAX_POOL2D and AVG_POOL2D. An invocation makes one word of the output. Padding takes no part: neither in the
// maximum nor in the count of the average.
// variant max_f32 IN=F32 OUT=F32 MAX
// variant max_f16 IN=F16 OUT=F16 MAX
// variant max_bf16 IN=BF16 OUT=BF16 MAX
// variant max_i8 IN=I8 OUT=I8 MAX
// variant max_i16 IN=I16 OUT=I16 MAX
// variant max_e4m3 IN=E4M3 OUT=E4M3 MAX
// variant max_e5m2 IN=E5M2 OUT=E5M2 MAX
// variant avg_f32 IN=F32 OUT=F32
// variant avg_f16 IN=F16 OUT=F16
// variant avg_bf16 IN=BF16 OUT=BF16
// variant avg_i8 IN=I8 OUT=I8
// variant avg_i16 IN=I16 OUT=I16
// variant avg_e4m3 IN=E4M3 OUT=E4M3
// variant avg_e5m2 IN=E5M2 OUT=E5M2
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint64_t input_zp; // INT8, read for IN == I8 alone
    uint64_t output_zp;
    uint count; // elements of the output
    uint in_h;
    uint in_w;
    uint channels;
    uint out_h;
    uint out_w;
    uint kernel_h;
    uint kernel_w;
    uint stride; // y in the low half, x in the high half
    uint pad; // top, left
    uint ignore_nan;
} p;

#if IN == I8
#define LEAST -128
#define MOST 127
#define IS_INT 1
#elif IN == I16
#define LEAST -32768
#define MOST 32767
#define IS_INT 1
#else
#define IS_INT 0
#endif

#if defined(MAX)
#if IS_INT
Acc start() { return LEAST; }
Acc join(Acc a, Acc b) { return max(a, b); }
#else
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
Acc start() { return uintBitsToFloat(0xff800000u); }
Acc join(Acc a, Acc b) {
    if (is_nan(b)) return p.ignore_nan != 0 ? a : b;
    return is_nan(a) || a >= b ? a : b;
}
#endif
Acc finish(Acc x, uint taps) { return x; }
#else
Acc start() { return Acc(0); }
#if IS_INT
int input_zp = 0;
int output_zp = 0;
Acc join(Acc a, Acc b) { return a + b - input_zp; }
// The mean as TOSA defines it: a multiplication by a rounded reciprocal of the count.
Acc finish(Acc x, uint taps) {
    int k = taps > 1 ? findMSB(taps - 1) + 1 : 0;
    int64_t multiplier = int64_t(((uint64_t(1) << 30) + 1) << k) / int64_t(taps);
    int shift = 30 + k;
    int mean = int((int64_t(x) * multiplier + (int64_t(1) << (shift - 1))) >> shift);
    return clamp(mean + output_zp, LEAST, MOST);
}
#else
Acc join(Acc a, Acc b) { return a + b; }
// Division built in may be off by 2.5 units in the last place; one correction makes it exact enough.
Acc finish(Acc x, uint taps) {
    precise float quotient = x / float(taps);
    if ((floatBitsToUint(quotient) & 0x7f800000u) == 0x7f800000u) return quotient;
    precise float rest = fma(-quotient, float(taps), x);
    return quotient + rest / float(taps);
}
#endif
#endif

uint pool(uint index) {
    uint c = index % p.channels;
    index /= p.channels;
    uint ox = index % p.out_w;
    index /= p.out_w;
    uint oy = index % p.out_h;
    uint image = index / p.out_h;
    int top = int(oy * (p.stride & 0xffffu)) - int(p.pad & 0xffffu);
    int left = int(ox * (p.stride >> 16)) - int(p.pad >> 16);
    uint y0 = uint(max(top, 0));
    uint x0 = uint(max(left, 0));
    uint y1 = uint(clamp(top + int(p.kernel_h), 0, int(p.in_h)));
    uint x1 = uint(clamp(left + int(p.kernel_w), 0, int(p.in_w)));
    Acc value = start();
    for (uint y = y0; y < y1; y++) {
        uint row = ((image * p.in_h + y) * p.in_w) * p.channels + c;
        for (uint x = x0; x < x1; x++) value = join(value, load_in(p.src, row + x * p.channels));
    }
    return out_bits(finish(value, max((y1 - y0) * (x1 - x0), 1)));
}

void main() {
#if IN == I8 && !defined(MAX)
    input_zp = int(PtrI8(p.input_zp).v);
    output_zp = int(PtrI8(p.output_zp).v);
#endif
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * OUT_A_WORD >= p.count) return;
    uint first = uint(serial) * OUT_A_WORD;
    uint own = min(OUT_A_WORD, p.count - first);
    uint word = 0;
    [[unroll]] for (uint j = 0; j < OUT_A_WORD; j++) {
        if (j < own) word |= pool(first + j) << (8 * OUT_BYTES * j);
    }
    if (own == OUT_A_WORD) {
        PtrU32(p.dst + uint64_t(first) * OUT_BYTES).v = word;
    } else {
        for (uint j = 0; j < own; j++) store_element(p.dst, first + j, word >> (8 * OUT_BYTES * j));
    }
}
