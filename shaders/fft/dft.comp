// A discrete Fourier transform of [outer, extent, inner] along its middle axis, of which the first `outputs` results are made. An
// invocation makes one.
// variant real REAL
// variant complex
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 64) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrF32x2 { vec2 v; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst_real;
    uint64_t dst_imaginary;
    uint64_t real;
    uint64_t imaginary;
    uint64_t factors; // of a turn's parts: cosine and sine
    uint count; // of results
    uint extent; // a power of two
    uint outputs;
    uint inner;
} p;

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint index = uint(serial);
    uint inner = index % p.inner;
    uint rest = index / p.inner;
    uint frequency = rest % p.outputs;
    uint at = rest / p.outputs * p.extent * p.inner + inner;
    vec2 sum = vec2(0);
    for (uint k = 0; k < p.extent; k++) {
        vec2 factor = PtrF32x2(p.factors + (k * frequency & (p.extent - 1)) * 8).v;
        float x = PtrF32(p.real + uint64_t(at) * 4).v;
        sum = fma(vec2(x), factor, sum);
#if !defined(REAL)
        float y = PtrF32(p.imaginary + uint64_t(at) * 4).v;
        sum = fma(vec2(y), vec2(-factor.y, factor.x), sum);
#endif
        at += p.inner;
    }
    PtrF32(p.dst_real + serial * 4).v = sum.x;
    PtrF32(p.dst_imaginary + serial * 4).v = sum.y;
}
