// Swaps the innermost dimension i of the source with the innermost dimension j of the output, a 32 x 32 tile
// a workgroup: read along i, written along j. The other dimensions number the slices.
// variant e1 SIZE=1
// variant e2 SIZE=2
// variant e4 SIZE=4
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "movers/word.glsl"
layout(local_size_x = 128) in;

struct Dim {
    uint size;
    uint src; // stride in the source, elements
    uint dst; // stride in the output
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Dims { Dim at[4]; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    Dims slices;
    uint rank; // of the slices
    uint tiles; // in all
    uint i; // extents
    uint j;
    uint j_src; // stride of j in the source
    uint i_dst; // stride of i in the output
} p;

shared uint tile[32][33];

void main() {
    uint64_t group = flat_group();
    if (group >= p.tiles) return;
    uint rest = uint(group);
    uint across = (p.i + 31) / 32;
    uint down = (p.j + 31) / 32;
    uint i0 = rest % across * 32;
    rest /= across;
    uint j0 = rest % down * 32;
    rest /= down;
    uint src = 0;
    uint dst = 0;
    for (uint d = p.rank; d-- > 0;) {
        Dim dim = p.slices.at[d];
        uint outer = rest / dim.size;
        uint coordinate = rest - outer * dim.size;
        rest = outer;
        src += coordinate * dim.src;
        dst += coordinate * dim.dst;
    }
    uint lane = gl_LocalInvocationID.x;
    for (uint at = lane; at < 32 * 32; at += 128) {
        uint i = i0 + at % 32;
        uint j = j0 + at / 32;
        if (i < p.i && j < p.j) tile[at % 32][at / 32] = load_bits(p.src, src + j * p.j_src + i);
    }
    barrier();
    // Rows of the output begin on words when their length is a multiple of a word; else elements are stored singly.
    bool words = A_WORD > 1 && p.j % A_WORD == 0 && dst % A_WORD == 0 && p.i_dst % A_WORD == 0;
    if (words) {
        const uint row = 32 / A_WORD;
        for (uint at = lane; at < 32 * row; at += 128) {
            uint i = at / row;
            uint j = at % row * A_WORD;
            if (i0 + i >= p.i || j0 + j >= p.j) continue;
            uint word = 0;
            [[unroll]] for (uint k = 0; k < A_WORD; k++) word |= tile[i][j + k] << (8 * SIZE * k);
            PtrU32(p.dst + uint64_t(dst + (i0 + i) * p.i_dst + j0 + j) * SIZE).v = word;
        }
    } else {
        for (uint at = lane; at < 32 * 32; at += 128) {
            uint i = at / 32;
            uint j = at % 32;
            if (i0 + i < p.i && j0 + j < p.j) store_bits(p.dst, dst + (i0 + i) * p.i_dst + j0 + j, tile[i][j]);
        }
    }
}
