// DEPTHWISE_CONV2D. Lanes run along the channels, which lie side by side in memory; an invocation makes the
// channels of one word for PIXELS neighbours of a row and so loads each weight once for all of them.
// variant f32 IN=F32 OUT=F32
// variant f16 IN=F16 OUT=F16
// variant bf16 IN=BF16 OUT=BF16
// variant i8 IN=I8 OUT=I32
// variant e4m3 IN=E4M3 OUT=F16
// variant e5m2 IN=E5M2 OUT=F16
// variant f32_fused IN=F32 OUT=F32 EPILOGUE
// variant f16_fused IN=F16 OUT=F16 EPILOGUE
// variant i8_fused IN=I8 OUT=I32 EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint64_t weight;
    uint64_t bias;
#if defined(EPILOGUE)
    uint64_t operand[3];
    uint64_t block; // the epilogue's immediates
#endif
    uint count; // invocations
    uint in_h;
    uint in_w;
    uint in_c;
    uint out_h;
    uint out_w;
    uint out_c;
    uint kernel_h;
    uint kernel_w;
    uint stride; // y in the low half, x in the high half
    uint dilation;
    uint pad; // top, left
    uint bias_step; // 0: one bias for all, 1: one a channel
    int input_zp;
    int weight_zp;
} p;
#include "gemm/bias.glsl"
#if defined(EPILOGUE)
#define IMMEDIATES 0
#include "common/epilogue.glsl"
#endif

const uint PIXELS = 4;
// Channels of an invocation: those of a word of the output.
#if defined(EPILOGUE) && IN == I8
const uint CHANNELS = 4;
#else
const uint CHANNELS = OUT_A_WORD;
#endif

#if defined(EPILOGUE) && IN == I8
// Four INT8 that are a word.
ivec4 load_word(uint64_t base, uint at) {
    int word = PtrI32(base + at).v;
    return ivec4(word << 24, word << 16, word << 8, word) >> 24;
}
#endif

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint rest = uint(serial);
    uint words = (p.out_c + CHANNELS - 1) / CHANNELS;
    uint channel = rest % words * CHANNELS;
    rest /= words;
    uint blocks = (p.out_w + PIXELS - 1) / PIXELS;
    uint x0 = rest % blocks * PIXELS;
    rest /= blocks;
    uint oy = rest % p.out_h;
    uint image = rest / p.out_h;
    uint own = min(CHANNELS, p.out_c - channel);
    uint multiplier = p.out_c / p.in_c;
    int stride_x = int(p.stride >> 16);
    int top = int(oy * (p.stride & 0xffffu)) - int(p.pad & 0xffffu);
    int left = int(x0) * stride_x - int(p.pad >> 16);

#if defined(EPILOGUE) && IN == I8
    bool words_of_input = multiplier == 1 && p.in_c % 4 == 0;
#endif
    Acc sums[CHANNELS][PIXELS];
    uint in_channel[CHANNELS];
    [[unroll]] for (uint j = 0; j < CHANNELS; j++) {
        [[unroll]] for (uint i = 0; i < PIXELS; i++) sums[j][i] = Acc(0);
        in_channel[j] = min(channel + j, p.out_c - 1) / multiplier;
    }
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int y = top + int(ky * (p.dilation & 0xffffu));
        if (uint(y) >= p.in_h) continue;
        uint row = (image * p.in_h + uint(y)) * p.in_w;
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            int x = left + int(kx * (p.dilation >> 16));
            uint tap = (ky * p.kernel_w + kx) * p.out_c + channel;
#if defined(EPILOGUE) && IN == I8
            if (words_of_input) {
                ivec4 w = load_word(p.weight, tap) - p.weight_zp;
                [[unroll]] for (uint i = 0; i < PIXELS; i++) {
                    int at = x + int(i) * stride_x;
                    if (uint(at) >= p.in_w) continue;
                    ivec4 products = (load_word(p.src, (row + uint(at)) * p.in_c + channel) - p.input_zp) * w;
                    [[unroll]] for (uint j = 0; j < CHANNELS; j++) sums[j][i] += products[j];
                }
                continue;
            }
#endif
            [[unroll]] for (uint j = 0; j < CHANNELS; j++) {
                if (j >= own) break;
                Acc w = load_in(p.weight, tap + j);
#if IN == I8
                w -= p.weight_zp;
#endif
                [[unroll]] for (uint i = 0; i < PIXELS; i++) {
                    int at = x + int(i) * stride_x;
                    // Neighbours past the row's end are not stored.
                    if (uint(at) >= p.in_w) continue;
                    Acc v = load_in(p.src, (row + uint(at)) * p.in_c + in_channel[j]);
#if IN == I8
                    sums[j][i] += (v - p.input_zp) * w;
#else
                    sums[j][i] = fma(v, w, sums[j][i]);
#endif
                }
            }
        }
    }
    Acc bias[CHANNELS];
    [[unroll]] for (uint j = 0; j < CHANNELS; j++) bias[j] = load_bias(min(channel + j, p.out_c - 1));
#if defined(EPILOGUE)
    begin_epilogue(channel, own);
#endif
    [[unroll]] for (uint i = 0; i < PIXELS; i++) {
        if (x0 + i >= p.out_w) break;
        uint at = ((image * p.out_h + oy) * p.out_w + x0 + i) * p.out_c + channel;
#if defined(EPILOGUE)
        Acc4 quad = Acc4(0);
        [[unroll]] for (uint j = 0; j < CHANNELS; j++) quad[j] = sums[j][i] + bias[j];
        store_epilogue(p.dst, at, own, to_register(quad));
        continue;
#endif
#if OUT_A_WORD == 2
        // Words belong to one pixel when the channels are even.
        if (p.out_c % 2 == 0) {
            PtrU32(p.dst + uint64_t(at) * 2).v = out_bits(sums[0][i] + bias[0]) | out_bits(sums[1][i] + bias[1]) << 16;
            continue;
        }
#endif
        [[unroll]] for (uint j = 0; j < CHANNELS; j++) {
            if (j < own) store_element(p.dst, at + j, out_bits(sums[j][i] + bias[j]));
        }
    }
}
