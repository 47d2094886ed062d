// A spatial axis of a convolution, as `Axis` of accel-kernels writes it.
struct Axis {
    uint in_size;
    uint out_size;
    uint kernel;
    int stride;
    int dilation; // negative where the first tap meets the last element
    int pad;      // before the input; before the output in window.comp's transposed convolutions
    uint bit;     // of the first tap in masks; 32: no tap of the axis ever lies outside the input
};
