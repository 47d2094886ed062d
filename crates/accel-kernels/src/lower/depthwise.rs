//! DEPTHWISE_CONV2D.

use accel_tosa::{ConvAttrs, Node, Refusal};

use super::conv::{conv_types, packed};
use super::movers::LANES;
use crate::builder::{Builder, Launch};

/// Neighbours of a row that an invocation of `depthwise.comp` makes.
const PIXELS: u32 = 4;

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, attrs: &ConvAttrs) -> Result<(), Refusal> {
    let (input, weight, bias, output) = (node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]);
    let graph = builder.graph;
    let suffix = conv_types(builder, node)?;
    let (&[images, in_h, in_w, in_c], &[kernel_h, kernel_w, ..], &[_, out_h, out_w, out_c]) = (
        graph.tensor(input).shape.as_slice(),
        graph.tensor(weight).shape.as_slice(),
        graph.tensor(output).shape.as_slice(),
    ) else {
        return Err(builder.unsupported("DEPTHWISE_CONV2D takes operands of rank 4"));
    };
    let channels_a_word = 4 / graph.tensor(output).dtype.bytes().unwrap_or(4).min(4) as u32;
    let words = out_c.div_ceil(channels_a_word);
    let count = images * out_h * out_w.div_ceil(PIXELS) * words;
    builder.launch(&Launch {
        module: &format!("depthwise.{suffix}"),
        constants: &[],
        writes: &[builder.tensor(output)],
        reads: &[builder.tensor(input), builder.tensor(weight), builder.tensor(bias)],
        params: &[
            count,
            in_h,
            in_w,
            in_c,
            out_h,
            out_w,
            out_c,
            kernel_h,
            kernel_w,
            packed(attrs.stride),
            packed(attrs.dilation),
            packed([attrs.pad[0], attrs.pad[2]]),
            u32::from(graph.tensor(bias).elements() > 1),
            attrs.input_zp as u32,
            attrs.weight_zp as u32,
        ],
        groups: u64::from(count).div_ceil(LANES),
        detail: &format!("{kernel_h}x{kernel_w} on {out_h}x{out_w}x{out_c}"),
    })
}
