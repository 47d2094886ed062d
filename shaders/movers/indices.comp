// Row numbers for GATHER and SCATTER: INT64 indices as INT32, and the runs of rows of ROW_GATHER one by one. What is below the
// rows becomes -1 and what is beyond them their number, so that it stays outside. An invocation makes one number.
// variant i32
// variant i64 WIDE
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common/prelude.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t indices;
    uint count; // of the row numbers
    uint run; // rows that an index picks
    uint rows;
} p;

void main() {
    uint64_t serial = flat_group() * 64 + gl_LocalInvocationID.x;
    if (serial >= p.count) return;
    uint pick = uint(serial) / p.run;
#if defined(WIDE)
    uint64_t at = p.indices + uint64_t(pick) * 8;
    int64_t index = int64_t(uint64_t(PtrU32(at).v) | uint64_t(PtrU32(at + 4).v) << 32);
    // The sum must not wrap around.
    index = clamp(index, int64_t(-2147483647), int64_t(2147483647));
#else
    int64_t index = PtrI32(p.indices + uint64_t(pick) * 4).v;
#endif
    index += uint(serial) - pick * p.run;
    PtrI32(p.dst + serial * 4).v = int(clamp(index, int64_t(-1), int64_t(p.rows)));
}
