// Joins up to 8 operands along one axis. The output is rows of `row` elements, and each operand a run of
// columns in every row; its own rows are as long as that run. An invocation owns one word of the output and
// fetches each element from whichever operand has it; elements of operands of another launch are left alone.
// variant e1 SIZE=1
// variant e2 SIZE=2
// variant e4 SIZE=4
// variant e16 SIZE=16
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
#include "common/variant.glsl"
#include "movers/word.glsl"
layout(local_size_x_id = 31) in;
layout(constant_id = 0) const uint RUNS = 8; // of this launch

struct Run {
    uint begin;
    uint extent;
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Runs { Run at[8]; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src[8];
    Runs runs;
    uint count; // elements of the output
    uint row;
    uint magic; // divides by row
    uint shift;
} p;

void main() {
    // Before any branch: there drivers for CPUs load once what is the same for all lanes.
    Run runs[RUNS];
    [[unroll]] for (uint k = 0; k < RUNS; k++) runs[k] = p.runs.at[k];
    uint64_t serial = flat_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (serial * A_WORD >= p.count) return;
    uint first = uint(serial) * A_WORD;
    Bits word = Bits(0);
    uint found = 0;
    [[unroll]] for (uint j = 0; j < A_WORD; j++) {
        uint index = first + j;
        if (index >= p.count) break;
        uint row = p.row > 1 ? divide(index, p.magic, p.shift) : index;
        uint column = index - row * p.row;
        [[unroll]] for (uint k = 0; k < RUNS; k++) {
            uint at = column - runs[k].begin;
            if (at < runs[k].extent) {
                word |= load_bits(p.src[k], uint64_t(row) * runs[k].extent + at) << PLACE(j);
                found |= 1u << j;
            }
        }
    }
    if (found == (1u << A_WORD) - 1) {
        store_word(p.dst, first, word, A_WORD);
    } else {
        [[unroll]] for (uint j = 0; j < A_WORD; j++) {
            if ((found >> j & 1u) != 0) store_bits(p.dst, first + j, word >> PLACE(j));
        }
    }
}
