// Convolutions in general form, for types, zero points and windows that the kernels of products do not take. Each
// output gathers its taps over up to three spatial axes; an invocation makes one word of the output, or one INT48 (WIDE).
// variant f32 IN=F32 OUT=F32
// variant f16 IN=F16 OUT=F16
// variant bf16 IN=BF16 OUT=BF16
// variant e4m3 IN=E4M3 OUT=F16
// variant e5m2 IN=E5M2 OUT=F16
// variant i8 IN=I8 OUT=I32
// variant i8i4 IN=I8 OUT=I32 NIBBLES
// variant i16 IN=I16 WIDE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
layout(local_size_x = 64) in;

#include "conv/axis.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Shape {
    Axis axes[3];
    uint in_c;
    uint out_c;
    uint depth; // input channels of one output channel: all, or one
    uint multiplier; // output channels of an input channel, where depth is less than all
    uint w_out; // elements of the weight from one output channel to the next
    uint w_tap; // from one tap
    uint w_in; // and from one input channel
    uint transposed;
};
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint64_t weight;
    uint64_t bias;
    Shape shape;
    uint64_t input_zp; // INT8, read where the operand is of that type
    uint64_t weight_zp;
    uint count; // elements of the output
    uint bias_step; // 0: one bias for all, 1: one a channel
} p;

#if defined(WIDE)
#include "common/int48.glsl"
#define Sum int64_t
#define A_WORD 1
Sum load_bias(uint n) { return load_i48(p.bias, n * p.bias_step); }
#else
#include "gemm/bias.glsl"
#define Sum Acc
#define A_WORD OUT_A_WORD
#endif

Acc load_weight(uint at) {
#if defined(NIBBLES)
    return bitfieldExtract(int(PtrU8(p.weight + at / 2).v), int(at % 2) * 4, 4);
#elif IN == I16
    return int(PtrI8(p.weight + at).v);
#else
    return load_in(p.weight, at);
#endif
}

#if IN == I8 || IN == I16
int input_zp = 0;
int weight_zp = 0;
#endif

Sum multiply_add(Acc x, Acc w, Sum sum) {
#if IN == I8 || IN == I16
    return sum + (x - input_zp) * (w - weight_zp);
#else
    return fma(x, w, sum);
#endif
}

// The taps of output coordinate o that meet the input: the first, the end and the step.
ivec3 taps(Axis axis, bool transposed, uint o) {
    int in_size = int(axis.in_size), kernel = int(axis.kernel);
    if (transposed) {
        int last = int(o) - axis.pad;
        int first = last - (in_size - 1) * axis.stride;
        if (first < 0) first += (axis.stride - 1 - first) / axis.stride * axis.stride;
        return ivec3(first, min(kernel, last + 1), axis.stride);
    }
    int at = int(o) * axis.stride - axis.pad;
    int first = at < 0 ? (axis.dilation - 1 - at) / axis.dilation : 0;
    return ivec3(first, at < in_size ? min(kernel, (in_size - 1 - at) / axis.dilation + 1) : 0, 1);
}

// The input coordinate that tap k of output coordinate o multiplies.
uint tap(Axis axis, bool transposed, uint o, int k) {
    int at = transposed ? (int(o) - axis.pad - k) / axis.stride : int(o) * axis.stride + k * axis.dilation - axis.pad;
    return uint(at);
}

Sum convolve(uint index) {
    Axis z = p.shape.axes[0], y = p.shape.axes[1], x = p.shape.axes[2];
    uint in_c = p.shape.in_c, depth = p.shape.depth, w_tap = p.shape.w_tap, w_in = p.shape.w_in;
    bool transposed = p.shape.transposed != 0;
    uint channel = index % p.shape.out_c;
    index /= p.shape.out_c;
    uint ox = index % x.out_size;
    index /= x.out_size;
    uint oy = index % y.out_size;
    index /= y.out_size;
    uint oz = index % z.out_size;
    uint image = index / z.out_size;
    uint first = depth < in_c ? channel / p.shape.multiplier : 0;
    uint weight = channel * p.shape.w_out;
    Sum sum = Sum(0);
    ivec3 tz = taps(z, transposed, oz), ty = taps(y, transposed, oy), tx = taps(x, transposed, ox);
    for (int kz = tz.x; kz < tz.y; kz += tz.z) {
        uint iz = tap(z, transposed, oz, kz);
        for (int ky = ty.x; ky < ty.y; ky += ty.z) {
            uint iy = tap(y, transposed, oy, ky);
            uint row = ((image * z.in_size + iz) * y.in_size + iy) * x.in_size;
            for (int kx = tx.x; kx < tx.y; kx += tx.z) {
                uint at = (row + tap(x, transposed, ox, kx)) * in_c + first;
                uint w = weight + ((kz * y.kernel + ky) * x.kernel + kx) * w_tap;
                for (uint c = 0; c < depth; c++) {
                    sum = multiply_add(load_in(p.src, at + c), load_weight(w + c * w_in), sum);
                }
            }
        }
    }
    return sum + load_bias(channel);
}

void main() {
#if IN == I8
    input_zp = int(PtrI8(p.input_zp).v);
#if !defined(NIBBLES)
    weight_zp = int(PtrI8(p.weight_zp).v);
#endif
#elif IN == I16
    weight_zp = int(PtrI8(p.weight_zp).v);
#endif
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * A_WORD >= p.count) return;
    uint first = uint(serial) * A_WORD;
#if defined(WIDE)
    store_i48(p.dst, first, convolve(first));
#else
    uint own = min(A_WORD, p.count - first);
    uint word = 0;
    [[unroll]] for (uint j = 0; j < A_WORD; j++) {
        if (j < own) word |= out_bits(convolve(first + j)) << (8 * OUT_BYTES * j);
    }
    if (own == A_WORD) {
        PtrU32(p.dst + uint64_t(first) * OUT_BYTES).v = word;
    } else {
        store_element(p.dst, first, word);
    }
#endif
}
