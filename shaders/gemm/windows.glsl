// A as the windows of an image or a volume: a row is the window of an output, a column one channel at one tap. Taps are a table that the
// host makes, and a row has a bit for each place along an axis that lies outside, so that all kinds of convolution cost a load the same.
#include "conv/axis.glsl"

struct Tap {
    int offset; // elements from the window's first tap
    uint bits;  // of its places along the axes
};

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Windows {
    Axis axes[3];
    // Where SPREAD: outputs lie every `step` from `first` on, in rows and columns of a larger image.
    uint full[2];
    uint step[2];
    uint first[2];
    uint unused;
    uvec4 outside; // what stands for padding, at OUTSIDE_AT
    Tap taps[];
};
const uint OUTSIDE_AT = 112;
layout(constant_id = 15) const uint SPREAD = 0; // outputs are one phase of a transposed convolution
