//! DEPTHWISE_CONV2D.

use accel_tosa::{ConvAttrs, Node, Refusal};

use super::conv::{conv_types, packed};
use super::movers::LANES;
use crate::builder::{Builder, Launch};
use crate::epilogue::Epilogue;

/// Neighbours of a row that an invocation of `depthwise.comp` makes.
const PIXELS: u32 = 4;

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &ConvAttrs,
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
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
    // With an epilogue, whose results may be as narrow as the input, an invocation has the channels of a word of those.
    let narrowest = graph.tensor(if epilogue.is_some() { input } else { output }).dtype;
    let channels_a_word = 4 / narrowest.bytes().unwrap_or(4).min(4) as u32;
    let words = out_c.div_ceil(channels_a_word);
    let count = images * out_h * out_w.div_ceil(PIXELS) * words;
    let target = builder.tensor(epilogue.map_or(output, |e| e.output));
    let operands = [builder.tensor(input), builder.tensor(weight), builder.tensor(bias)];
    let reads = epilogue.map_or(operands.to_vec(), |e| e.reads(builder, &operands, &[]));
    let fused = if epilogue.is_some() { "_fused" } else { "" };
    builder.launch(&Launch {
        module: &format!("depthwise.{suffix}{fused}"),
        constants: epilogue.map_or(&[], |e| &e.constants),
        writes: &[target],
        reads: &reads,
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
        detail: &format!(
            "{}{kernel_h}x{kernel_w} on {out_h}x{out_w}x{out_c}",
            epilogue.map_or(String::new(), Epilogue::label)
        ),
    })
}
