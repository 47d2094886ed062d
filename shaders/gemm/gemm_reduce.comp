// Adds the partial sums of a product split along k, splits in ascending order, then the bias. An invocation
// makes one word of the output.
// variant f32 IN=F32 OUT=F32
// variant f16 IN=F16 OUT=F16
// variant f16f32 IN=F16 OUT=F32
// variant bf16f32 IN=BF16 OUT=F32
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
    uint64_t partial;
    uint64_t bias;
#if defined(EPILOGUE)
    uint64_t operand[3];
    uint64_t block; // the epilogue's immediates
#endif
    uint count; // elements of the output
    uint n;
    uint splits;
    uint bias_step; // 0: one bias for all, 1: one a column, 2: none
} p;
#include "gemm/bias.glsl"
#if defined(EPILOGUE)
#include "common/epilogue.glsl"
#endif

Acc load_part(uint split, uint at) {
    uint64_t address = p.partial + (uint64_t(split) * p.count + at) * 4;
#if IN == I8
    return PtrI32(address).v;
#else
    return PtrF32(address).v;
#endif
}

Acc total(uint at) {
    Acc sum = Acc(0);
    uint split = 0;
    // Several loads at a time: what takes long is waiting for one after the other.
    for (; split + 8 <= p.splits; split += 8) {
        Acc parts[8];
        [[unroll]] for (uint i = 0; i < 8; i++) parts[i] = load_part(split + i, at);
        [[unroll]] for (uint i = 0; i < 8; i++) sum += parts[i];
    }
    for (; split < p.splits; split++) sum += load_part(split, at);
    return p.bias_step < 2 ? sum + load_bias(at % p.n) : sum;
}

void main() {
#if defined(EPILOGUE)
    // Quads of columns, so that none spans two rows.
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    uint quads = (p.n + 3) / 4;
    uint64_t row = serial / quads;
    if (row >= p.count / p.n) return;
    uint n = uint(serial % quads) * 4;
    uint own = min(4, p.n - n);
    uint at = uint(row) * p.n + n;
    Acc4 sums = Acc4(0);
    [[unroll]] for (uint j = 0; j < 4; j++) {
        if (j < own) sums[j] = total(at + j);
    }
    begin_epilogue(n, own);
    store_epilogue(p.dst, at, own, to_register(sums));
#else
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial * OUT_A_WORD >= p.count) return;
    uint first = uint(serial) * OUT_A_WORD;
#if OUT_A_WORD == 1
    PtrU32(p.dst + uint64_t(first) * 4).v = out_bits(total(first));
#else
    if (first + 1 < p.count) {
        PtrU32(p.dst + uint64_t(first) * 2).v = out_bits(total(first)) | out_bits(total(first + 1)) << 16;
    } else {
        store_element(p.dst, first, out_bits(total(first)));
    }
#endif
#endif
}
