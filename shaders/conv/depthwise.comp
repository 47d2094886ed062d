// DEPTHWISE_CONV2D. An invocation makes PIXELS neighbours of a row for the channels of 16 bytes of input, which lie side by side in
// memory, and loads each vector once for a row of taps. A workgroup makes a tile of ACROSS such vectors, TILE_X runs of pixels and
// some rows, so that what windows share is in the cache.
// variant f32 IN=F32 OUT=F32
// variant f16 IN=F16 OUT=F16
// variant bf16 IN=BF16 OUT=BF16
// variant i8 IN=I8 OUT=I32
// variant e4m3 IN=E4M3 OUT=F16
// variant e5m2 IN=E5M2 OUT=F16
// variant f16_half IN=F16 OUT=F16 HALF
// variant f32_fused IN=F32 OUT=F32 EPILOGUE
// variant f16_fused IN=F16 OUT=F16 EPILOGUE
// variant i8_fused IN=I8 OUT=I32 EPILOGUE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#if defined(HALF)
#include "common/half.glsl"
#endif
#include "common/variant.glsl"
#include "common/vector16.glsl"
#include "common/quad_words.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64;
layout(constant_id = 1) const uint ACROSS = 8;
layout(constant_id = 2) const uint TILE_X = 1;
layout(constant_id = 3) const uint PIXELS = 4;
layout(constant_id = 4) const uint TAPS = 1; // of a row that are multiplied at once: all, or one
layout(constant_id = 5) const uint STRIDE = 1;
layout(constant_id = 6) const uint DILATION = 1; // 1 where TAPS is
layout(constant_id = 7) const uint WHOLE = 1; // channels are whole vectors, and those of the output the input's

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    uint64_t weight;
    uint64_t bias;
#if defined(EPILOGUE)
    uint64_t operand[3];
    uint64_t block; // the epilogue's immediates
#endif
    uint images;
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
#include "common/epilogue.glsl"
#endif

#if defined(EPILOGUE)
#define RESULT OUTPUT
#define EACH [[dont_unroll]]
#else
#define RESULT OUT_TYPE
#define EACH [[unroll]]
#endif
const uint QUADS = 4 / IN_BYTES; // of channels
const uint CHANNELS = 4 * QUADS;
const uint SPAN = (PIXELS - 1) * STRIDE + (TAPS - 1) * DILATION + 1; // of the columns that the pixels' taps meet

Acc4 from_register(uvec4 x) {
#if IN == I8
    return Acc4(x);
#else
    return uintBitsToFloat(x);
#endif
}

// Channels of tap `tap + j`, and of column x of a row of the input; beside the input lies what is not used.
uint64_t weight_at(uint tap, uint j, uint channel) {
    return p.weight + uint64_t(tap + j * p.out_c + channel) * IN_BYTES;
}

uint64_t input_at(uint row, int x, uint channel) {
    uint column = uint(clamp(x, 0, int(p.in_w) - 1));
    return p.src + uint64_t((row + column) * p.in_c + channel) * IN_BYTES;
}

// The channels of an invocation, `own` of them, one by one: where they are no whole vector, or several have one input channel.
uvec4 gather(uint64_t base, uint at, uint channel, uint own, uint multiplier) {
    uvec4 vector = uvec4(0);
    for (uint i = 0; i < own; i++) {
        uint64_t element = base + uint64_t(at + (channel + i) / multiplier) * IN_BYTES;
#if IN_BYTES == 4
        vector[i] = PtrU32(element).v;
#elif IN_BYTES == 2
        vector[i / 2] |= uint(PtrU16(element).v) << (16 * (i % 2));
#else
        vector[i / 4] |= uint(PtrU8(element).v) << (8 * (i % 4));
#endif
    }
    return vector;
}

// Stores the results of a pixel, of which the first `own` channels exist.
void store_pixel(uint64_t at, uvec4 quads[QUADS], uint own) {
    const uint width = type_bytes(RESULT);
    if (own == CHANNELS && (uint(at) & 3u) == 0u) {
        [[unroll]] for (uint q = 0; q < QUADS; q += 4 / width) {
            uvec4 words = quads[q];
            if (width == 2 && QUADS > 1) words.zw = quads[q + 1].xy;
            if (width == 1) {
                [[unroll]] for (uint i = 1; i < QUADS; i++) words[i] = quads[i].x;
            }
            store_words(at + q * 4 * width, min(width * QUADS, 4), words);
        }
        return;
    }
    [[unroll]] for (uint i = 0; i < CHANNELS; i++) {
        if (i >= own) break;
        uint bits = quads[i / 4][i % 4 * width / 4] >> (i * width % 4 * 8);
        if (width == 4) PtrU32(at + i * 4).v = bits;
        else if (width == 2) PtrU16(at + i * 2).v = uint16_t(bits);
        else PtrU8(at + i).v = uint8_t(bits);
    }
}

void main() {
    uint vectors = (p.out_c + CHANNELS - 1) / CHANNELS;
    uint parts = (vectors + ACROSS - 1) / ACROSS;
    const uint TILE_Y = LANES / ACROSS / TILE_X;
    uint tiles_x = (p.out_w + TILE_X * PIXELS - 1) / (TILE_X * PIXELS);
    uint tiles_y = (p.out_h + TILE_Y - 1) / TILE_Y;
    uint64_t group = flat_group();
    if (group >= uint64_t(parts) * tiles_x * tiles_y * p.images) return;
    uint rest = uint(group), lane = gl_LocalInvocationIndex;
    uint channel = (rest % parts * ACROSS + lane % ACROSS) * CHANNELS;
    rest /= parts;
    uint x0 = (rest % tiles_x * TILE_X + lane / ACROSS % TILE_X) * PIXELS;
    rest /= tiles_x;
    uint oy = rest % tiles_y * TILE_Y + lane / (ACROSS * TILE_X);
    uint image = rest / tiles_y;
    if (channel >= p.out_c || x0 >= p.out_w || oy >= p.out_h) return;
    uint own = min(CHANNELS, p.out_c - channel);
    uint multiplier = p.out_c / p.in_c;
    int top = int(oy * (p.stride & 0xffffu)) - int(p.pad & 0xffffu);
    int left = int(x0 * STRIDE) - int(p.pad >> 16);
    bool aligned = aligned16(p.src) && aligned16(p.weight);

    Acc4 sums[PIXELS][QUADS];
    [[unroll]] for (uint i = 0; i < PIXELS; i++) {
        [[unroll]] for (uint q = 0; q < QUADS; q++) sums[i][q] = Acc4(0);
    }
#if IN == I8
    // Padding counts as the zero point, and each pixel meets all weights of a row: sum (x - z) w = sum x w - z sum w.
    uvec4 outside = uvec4((uint(p.input_zp) & 0xffu) * 0x01010101u);
    Acc4 weights[QUADS];
    [[unroll]] for (uint q = 0; q < QUADS; q++) weights[q] = Acc4(0);
#else
    uvec4 outside = uvec4(0);
#endif
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int y = top + int(ky * (p.dilation & 0xffffu));
        if (uint(y) >= p.in_h) continue;
        uint row = (image * p.in_h + uint(y)) * p.in_w;
        for (uint kx = 0; kx < p.kernel_w; kx += TAPS) {
            uint tap = (ky * p.kernel_w + kx) * p.out_c;
            int x = left + int(kx * (p.dilation >> 16));
            // All loads stand before the first use and under no condition of a lane's own, so that none waits for another.
            uvec4 window[SPAN], factors[TAPS];
            if (WHOLE == 0) {
                // One by one.
                factors[0] = gather(p.weight, tap, channel, own, 1);
                window[0] = gather(p.src, (row + uint(clamp(x, 0, int(p.in_w) - 1))) * p.in_c, channel, own, multiplier);
            } else if (aligned) {
                [[unroll]] for (uint j = 0; j < TAPS; j++) factors[j] = PtrU32x4(weight_at(tap, j, channel)).v;
                [[unroll]] for (uint j = 0; j < SPAN; j++) window[j] = PtrU32x4(input_at(row, x + int(j), channel)).v;
            } else {
                [[unroll]] for (uint j = 0; j < TAPS; j++) factors[j] = load_words(weight_at(tap, j, channel), 4);
                [[unroll]] for (uint j = 0; j < SPAN; j++) window[j] = load_words(input_at(row, x + int(j), channel), 4);
            }
            Acc4 w[TAPS][QUADS];
            [[unroll]] for (uint t = 0; t < TAPS; t++) {
                [[unroll]] for (uint q = 0; q < QUADS; q++) {
                    w[t][q] = from_register(quad_of(IN_TYPE, factors[t], q));
#if IN == I8
                    w[t][q] -= p.weight_zp;
                    weights[q] += w[t][q];
#endif
                }
            }
            [[unroll]] for (uint j = 0; j < SPAN; j++) {
                uvec4 vector = uint(x + int(j)) < p.in_w ? window[j] : outside;
                [[unroll]] for (uint q = 0; q < QUADS; q++) {
                    Acc4 v = from_register(quad_of(IN_TYPE, vector, q));
                    [[unroll]] for (uint i = 0; i < PIXELS; i++) {
                        // The tap of pixel i that lies in column j, if there is one.
                        uint t = (j - i * STRIDE) / DILATION;
                        if (j < i * STRIDE || t * DILATION != j - i * STRIDE || t >= TAPS) continue;
#if IN == I8
                        sums[i][q] += v * w[t][q];
#else
                        sums[i][q] = fma(v, w[t][q], sums[i][q]);
#endif
                    }
                }
            }
        }
    }
    uint first = ((image * p.out_h + oy) * p.out_w + x0) * p.out_c + channel;
    uvec4 results[PIXELS][QUADS];
    [[unroll]] for (uint i = 0; i < PIXELS; i++) {
        [[unroll]] for (uint q = 0; q < QUADS; q++) results[i][q] = to_register(sums[i][q]);
    }
    // A chain's code is long, and is there once.
    EACH for (uint q = 0; q < QUADS; q++) {
        uint n = min(channel + 4 * q, p.out_c - 1), count = min(4, p.out_c - n);
        Acc4 start;
        [[unroll]] for (uint j = 0; j < 4; j++) start[j] = load_bias(min(n + j, p.out_c - 1));
#if IN == I8
        start -= p.input_zp * weights[q];
#endif
#if defined(EPILOGUE)
        begin_epilogue(n, count);
#endif
        EACH for (uint i = 0; i < PIXELS; i++) {
            if (x0 + i >= p.out_w) break;
            uvec4 x = to_register(from_register(results[i][q]) + start);
#if defined(EPILOGUE)
            // What lies past the last channel repeats it and is not stored.
            x = run_epilogue(first - channel + i * p.out_c + n, count, x);
#endif
            results[i][q] = words_of(RESULT, x, false);
        }
    }
    [[unroll]] for (uint i = 0; i < PIXELS; i++) {
        if (x0 + i < p.out_w) store_pixel(p.dst + uint64_t(first + i * p.out_c) * type_bytes(RESULT), results[i], own);
    }
}
