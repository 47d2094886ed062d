// As transpose.comp, where rows and columns are whole vectors of 16 bytes: a tile is blocks of VECTOR x VECTOR elements, one an
// invocation, which turns it in registers between loads, shared memory and stores that all take a vector at a time.
// variant e1 SIZE=1
// variant e2 SIZE=2
// variant e4 SIZE=4
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/repeat.glsl"
#include "movers/word.glsl"
#include "movers/turn.glsl"
#include "common/words.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256;
layout(constant_id = 1) const uint LANES_I = 16; // invocations along i; the rest lie along j

#define VECTOR (16u / SIZE)
const uint LANES_J = LANES / LANES_I;
const uint EDGE_I = LANES_I * VECTOR;
const uint EDGE_J = LANES_J * VECTOR;

#include "movers/slices.glsl"

// Row i of the tile as vectors along j. Neighbours in either order of access meet all banks.
shared uvec4 tile[EDGE_I * LANES_J];

uint place(uint i, uint vector_j) {
    return i * LANES_J + (vector_j ^ i / VECTOR % LANES_J);
}

void main() {
    uint64_t group = flat_group();
    if (group >= p.tiles) return;
    Tile corner = tile_of(uint(group), EDGE_I, EDGE_J);
    bool aligned = ((uint(p.src) | uint(p.dst)) & 15u) == 0;
    uint lane = gl_LocalInvocationID.x;
    uint lane_i = lane % LANES_I;
    uint lane_j = lane / LANES_I;
    uint i = corner.i0 + lane_i * VECTOR;
    uint j = corner.j0 + lane_j * VECTOR;
    if (i < p.i && j < p.j) {
        uint64_t from = p.src + (uint64_t(corner.src) + i + j * p.j_src) * SIZE;
        uint64_t pitch = uint64_t(p.j_src) * SIZE;
        uvec4 x[16];
        // Without a condition in between all loads are on their way before the first is waited for.
        if (aligned) {
            REPEAT16(r, VECTOR, x[r] = PtrU32x4(from + r * pitch).v;)
        } else {
            REPEAT16(r, VECTOR, x[r] = load_words(from + r * pitch, 4u);)
        }
        REPEAT4(w, 4,
            uvec4 turned[4];
            REPEAT4(k, 4,
                uint words[4];
                REPEAT4(r, A_WORD, words[r] = x[k * A_WORD + r][w];)
                turn(words);
                REPEAT4(c, A_WORD, turned[c][k] = words[c];)
            )
            REPEAT4(c, A_WORD, tile[place(lane_i * VECTOR + w * A_WORD + c, lane_j)] = turned[c];)
        )
    }
    barrier();
    lane_j = lane % LANES_J;
    j = corner.j0 + lane_j * VECTOR;
    if (j >= p.j) return;
    REPEAT16(s, VECTOR,
        uint row = s * LANES_I + lane / LANES_J;
        if (corner.i0 + row < p.i) {
            uint64_t to = p.dst + (uint64_t(corner.dst) + j + (corner.i0 + row) * p.i_dst) * SIZE;
            store_words(to, 4u, tile[place(row, lane_j)]);
        }
    )
}
