// Gathers by index: each output coordinate, shifted by `start`, names a source coordinate. PAD: outside the
// source's extent stands a constant. TILE: coordinates wrap around the extent. An invocation makes one word.
// variant plain1 SIZE=1
// variant plain2 SIZE=2
// variant plain4 SIZE=4
// variant plain16 SIZE=16
// variant pad1 SIZE=1 PAD
// variant pad2 SIZE=2 PAD
// variant pad4 SIZE=4 PAD
// variant pad16 SIZE=16 PAD
// variant tile1 SIZE=1 TILE
// variant tile2 SIZE=2 TILE
// variant tile4 SIZE=4 TILE
// variant tile16 SIZE=16 TILE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "movers/word.glsl"
layout(local_size_x_id = 31) in;
layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint VALUE = 1; // elements of the padding, 1 or 2

struct Dim {
    uint size; // of the output
    uint magic; // divides by size
    uint shift;
    int start;
    uint extent; // of the source
    int stride; // elements in the source
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Dims { Dim at[7]; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    Dims dims;
#if defined(PAD)
    uint64_t value; // an element
#endif
    uint count; // elements of the output
    uint base; // element of the source at coordinate zero
} p;

Bits padding[2];

Bits fetch(Dim dims[RANK], uint index) {
    uint offset = p.base;
    bool inside = true;
#if defined(PAD)
    Bits value = padding[index % VALUE];
#endif
    [[unroll]] for (uint d = RANK; d-- > 0;) {
        Dim dim = dims[d];
        uint outer = d > 0 ? divide(index, dim.magic, dim.shift) : 0;
        uint coordinate = index - outer * dim.size + uint(dim.start);
        index = outer;
#if defined(TILE)
        coordinate %= dim.extent;
#elif defined(PAD)
        inside = inside && coordinate < dim.extent;
#endif
        offset += coordinate * uint(dim.stride);
    }
#if defined(PAD)
    if (!inside) return value;
#endif
    return load_bits(p.src, offset);
}

void main() {
    // Before any branch: there drivers for CPUs load once what is the same for all lanes.
    Dim dims[RANK];
    [[unroll]] for (uint d = 0; d < RANK; d++) dims[d] = p.dims.at[d];
#if defined(PAD)
    padding[0] = load_bits(p.value, 0);
    padding[1] = load_bits(p.value, VALUE - 1);
#endif
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial * A_WORD >= p.count) return;
    uint first = uint(serial) * A_WORD;
    uint own = min(A_WORD, p.count - first);
    Bits word = Bits(0);
    [[unroll]] for (uint j = 0; j < A_WORD; j++) {
        if (j < own) word |= fetch(dims, first + j) << PLACE(j);
    }
    store_word(p.dst, first, word, own);
}
