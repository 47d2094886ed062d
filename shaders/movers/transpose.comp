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
#include "movers/turn.glsl"
layout(local_size_x = 256) in;

#include "movers/slices.glsl"

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

// How many of the elements from `at` on are below `end`.
uint left(uint at, uint end) {
    return end > at ? end - at : 0;
}

void main() {
    uint64_t group = flat_group();
    if (group >= p.tiles) return;
    Tile corner = tile_of(uint(group), EDGE, EDGE);
    // Whether rows begin and end on words, on either side.
    bool words_in = (p.i | p.j_src | corner.src) % A_WORD == 0;
    bool words_out = (p.j | p.i_dst | corner.dst) % A_WORD == 0;
    bool whole = corner.i0 + EDGE <= p.i && corner.j0 + EDGE <= p.j;
    uint w = gl_LocalInvocationID.x % WORDS;
    uint own = left(corner.i0 + w * A_WORD, p.i);
    uint first = gl_LocalInvocationID.x / WORDS;
    uint64_t from = uint64_t(corner.src) + corner.i0 + w * A_WORD;
    uint x[STEPS][4];
    // Without a condition in between all loads are on their way before the first is waited for.
    if (whole && words_in) {
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint r = 0; r < A_WORD; r++) {
                uint j = corner.j0 + (step * ROWS + first) * A_WORD + r;
                x[step][r] = PtrU32(p.src + (from + j * p.j_src) * SIZE).v;
            }
        }
    } else {
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint r = 0; r < A_WORD; r++) {
                uint j = corner.j0 + (step * ROWS + first) * A_WORD + r;
                x[step][r] = load_some(from + j * p.j_src, j < p.j ? own : 0, words_in);
            }
        }
    }
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
        turn(x[step]);
        [[unroll]] for (uint c = 0; c < A_WORD; c++) tile[c][w][step * ROWS + first] = x[step][c];
    }
    barrier();
    own = left(corner.j0 + w * A_WORD, p.j);
    uint64_t to = uint64_t(corner.dst) + corner.j0 + w * A_WORD;
    [[unroll]] for (uint step = 0; step < EDGE; step += ROWS) {
        uint row = step + first;
        uint word = tile[row % A_WORD][row / A_WORD][w];
        uint64_t at = to + (corner.i0 + row) * p.i_dst;
        if (whole && words_out) {
            PtrU32(p.dst + at * SIZE).v = word;
        } else if (corner.i0 + row < p.i && own > 0 && words_out) {
            PtrU32(p.dst + at * SIZE).v = word;
        } else if (corner.i0 + row < p.i) {
            for (uint e = 0; e < min(own, A_WORD); e++) store_bits(p.dst, at + e, word >> PLACE(e));
        }
    }
}
