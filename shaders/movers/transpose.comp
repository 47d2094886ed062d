// Swaps the innermost dimension i of the source with the innermost dimension j of the output, a tile a workgroup: read along
// i, written along j, WORDS words at a time in either. The other dimensions number the slices.
// variant e1 SIZE=1 WORDS=32
// variant e2 SIZE=2 WORDS=32
// variant e4 SIZE=4 WORDS=32
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "movers/word.glsl"
layout(local_size_x = 256) in;
// Tiles along j that follow each other, so that what runs at a time reads and writes long stretches.
layout(constant_id = 0) const uint STRIP = 1;

struct Dim {
    uint size;
    uint src; // stride in the source, elements
    uint dst; // stride in the output
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Dims { Dim at[5]; };
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

const uint EDGE = WORDS * A_WORD;
const uint ROWS = 256 / WORDS; // at a time
const uint STEPS = WORDS / ROWS;

// Words along j: the one of row i = A_WORD * w + c lies in tile[c][w]. Neither order of access meets a bank twice.
shared uint tile[A_WORD][WORDS][WORDS + 1];

// Up to a word of elements from `at` on, of which `own` are inside.
uint load_some(uint64_t at, uint own, bool words) {
    if (own == 0) return 0;
    if (words) return PtrU32(p.src + at * SIZE).v;
    uint word = 0;
    for (uint e = 0; e < min(own, A_WORD); e++) word |= load_bits(p.src, at + e) << PLACE(e);
    return word;
}

// Words by rows become words by columns.
void turn(inout uint x[A_WORD]) {
#if SIZE == 2
    x = uint[](x[0] & 0xffffu | x[1] << 16, x[0] >> 16 | x[1] & 0xffff0000u);
#elif SIZE == 1
    uint even[2];
    uint odd[2];
    [[unroll]] for (uint k = 0; k < 2; k++) {
        even[k] = x[2 * k] & 0x00ff00ffu | x[2 * k + 1] << 8 & 0xff00ff00u;
        odd[k] = x[2 * k] >> 8 & 0x00ff00ffu | x[2 * k + 1] & 0xff00ff00u;
    }
    x[0] = even[0] & 0xffffu | even[1] << 16;
    x[1] = odd[0] & 0xffffu | odd[1] << 16;
    x[2] = even[0] >> 16 | even[1] & 0xffff0000u;
    x[3] = odd[0] >> 16 | odd[1] & 0xffff0000u;
#endif
}

// How many of the elements from `at` on are below `end`.
uint left(uint at, uint end) {
    return end > at ? end - at : 0;
}

void main() {
    uint64_t group = flat_group();
    if (group >= p.tiles) return;
    uint rest = uint(group);
    uint across = (p.i + EDGE - 1) / EDGE;
    uint down = (p.j + EDGE - 1) / EDGE;
    uint in_slice = rest % (across * down);
    rest /= across * down;
    uint strip = in_slice / (across * STRIP) * STRIP;
    uint height = min(STRIP, down - strip);
    in_slice -= across * strip;
    uint i0 = in_slice / height * EDGE;
    uint j0 = (strip + in_slice % height) * EDGE;
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
    // Whether rows begin and end on words, on either side.
    bool words_in = (p.i | p.j_src | src) % A_WORD == 0;
    bool words_out = (p.j | p.i_dst | dst) % A_WORD == 0;
    bool whole = i0 + EDGE <= p.i && j0 + EDGE <= p.j;
    uint w = gl_LocalInvocationID.x % WORDS;
    uint own = left(i0 + w * A_WORD, p.i);
    uint first = gl_LocalInvocationID.x / WORDS;
    uint64_t from = uint64_t(src) + i0 + w * A_WORD;
    uint x[STEPS][A_WORD];
    // Without a condition in between all loads are on their way before the first is waited for.
    if (whole && words_in) {
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint r = 0; r < A_WORD; r++) {
                uint j = j0 + (step * ROWS + first) * A_WORD + r;
                x[step][r] = PtrU32(p.src + (from + j * p.j_src) * SIZE).v;
            }
        }
    } else {
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint r = 0; r < A_WORD; r++) {
                uint j = j0 + (step * ROWS + first) * A_WORD + r;
                x[step][r] = load_some(from + j * p.j_src, j < p.j ? own : 0, words_in);
            }
        }
    }
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
        turn(x[step]);
        [[unroll]] for (uint c = 0; c < A_WORD; c++) tile[c][w][step * ROWS + first] = x[step][c];
    }
    barrier();
    own = left(j0 + w * A_WORD, p.j);
    uint64_t to = uint64_t(dst) + j0 + w * A_WORD;
    [[unroll]] for (uint step = 0; step < EDGE; step += ROWS) {
        uint row = step + first;
        uint word = tile[row % A_WORD][row / A_WORD][w];
        uint64_t at = to + (i0 + row) * p.i_dst;
        if (whole && words_out) {
            PtrU32(p.dst + at * SIZE).v = word;
        } else if (i0 + row < p.i && own > 0 && words_out) {
            PtrU32(p.dst + at * SIZE).v = word;
        } else if (i0 + row < p.i) {
            for (uint e = 0; e < min(own, A_WORD); e++) store_bits(p.dst, at + e, word >> PLACE(e));
        }
    }
}
