// A reduction sees its input as [outer, axis, inner] and its output as [outer, inner], flat. A quad of four outputs is
// computed by AXIS_LANES invocations, which take elements of the axis in turn; a workgroup has 64 invocations. The axis may be
// cut into chunks, whose results a second launch reduces.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint AXIS_LANES = 1u;
layout(constant_id = 1) const uint INPUT = 0u;  // element types
layout(constant_id = 2) const uint OUTPUT = 0u;
layout(constant_id = 3) const uint CODE = 0u;

layout(push_constant, scalar) uniform Push {
    uint64_t dst; // [chunks][outputs]
    uint64_t src;
    uint outputs;
    uint axis;
    uint inner;
    uint chunk; // elements of the axis in a chunk
    uint chunks;
    uint identity; // register form
} p;

struct Part {
    bool inside;
    uint first;  // first output of the quad
    uint chunk;
    uvec4 start; // elements where the outputs' axes start
    uint begin;  // this invocation's range of the axis, AXIS_LANES apart
    uint end;
};

Part part_of_invocation() {
    uint64_t group = flat_group();
    uint64_t block = group / p.chunks;
    uint lane = gl_LocalInvocationID.x;
    uint64_t first = (block * (64u / AXIS_LANES) + lane / AXIS_LANES) * 4;
    Part part;
    part.inside = first < p.outputs;
    part.first = part.inside ? uint(first) : 0u;
    part.chunk = uint(group - block * p.chunks);
    uvec4 output_index = min(part.first + uvec4(0, 1, 2, 3), uvec4(p.outputs - 1u));
    uvec4 outer = output_index / p.inner;
    part.start = outer * p.axis * p.inner + (output_index - outer * p.inner);
    part.begin = part.chunk * p.chunk + lane % AXIS_LANES;
    part.end = part.inside ? min((part.chunk + 1u) * p.chunk, p.axis) : 0u;
    return part;
}
