//! Convolutions in general form: of INT4 weights, INT16 inputs or run-time zero points, with windows of more places than a mask
//! has, and TRANSPOSE_CONV2D whose weight is computed.

use accel_tosa::{Conv3dAttrs, ConvAttrs, DType, Node, Refusal, TransposeConvAttrs};

use super::axes::Axis;
use super::movers::LANES;
use crate::builder::{Builder, Launch};

/// Stride, dilation, and the padding before the input, or before the output where the convolution is transposed.
type Step = (u32, u32, i32);

/// That of an axis of extent 1.
const FLAT: Step = (1, 1, 0);

/// Where the zero points of input and weight are among the operands, if they are there.
const ZERO_POINTS: [usize; 2] = [3, 4];

/// How the weight lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Output channel, taps, input channel.
    OutputFirst,
    /// Taps, input channel, multiplier.
    Depthwise,
}

/// Whether only this family takes the operator's types, or its zero points.
pub(crate) fn is_needed(builder: &Builder<'_>, node: &Node) -> bool {
    let dtype = |operand: usize| builder.graph.tensor(node.inputs[operand]).dtype;
    dtype(0) == DType::Int16 || dtype(1) == DType::Int4 || node.inputs.len() > ZERO_POINTS[0]
}

pub(crate) fn conv2d(builder: &mut Builder<'_>, node: &Node, attrs: &ConvAttrs) -> Result<(), Refusal> {
    launch(builder, node, planar(attrs), Weight::OutputFirst, false, [attrs.input_zp, attrs.weight_zp])
}

pub(crate) fn depthwise(builder: &mut Builder<'_>, node: &Node, attrs: &ConvAttrs) -> Result<(), Refusal> {
    launch(builder, node, planar(attrs), Weight::Depthwise, false, [attrs.input_zp, attrs.weight_zp])
}

pub(crate) fn conv3d(builder: &mut Builder<'_>, node: &Node, attrs: &Conv3dAttrs) -> Result<(), Refusal> {
    let axes = [0, 1, 2].map(|axis| (attrs.stride[axis], attrs.dilation[axis], attrs.pad[2 * axis] as i32));
    launch(builder, node, axes, Weight::OutputFirst, false, [attrs.input_zp, attrs.weight_zp])
}

pub(crate) fn transposed(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &TransposeConvAttrs,
) -> Result<(), Refusal> {
    let axis = |axis: usize| (attrs.stride[axis], 1, attrs.out_pad[2 * axis]);
    let axes = [FLAT, axis(0), axis(1)];
    launch(builder, node, axes, Weight::OutputFirst, true, [attrs.input_zp, attrs.weight_zp])
}

fn planar(attrs: &ConvAttrs) -> [Step; 3] {
    let axis = |axis: usize| (attrs.stride[axis], attrs.dilation[axis], attrs.pad[2 * axis] as i32);
    [FLAT, axis(0), axis(1)]
}

fn launch(
    builder: &mut Builder<'_>,
    node: &Node,
    axes: [Step; 3],
    layout: Weight,
    transposed: bool,
    zero_points: [i32; 2],
) -> Result<(), Refusal> {
    let (input, weight, bias, output) = (node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]);
    let graph = builder.graph;
    let suffix = types(builder, node)?;
    let shape = |id| graph.tensor(id).shape.as_slice();
    let spatial = shape(output).len().saturating_sub(2);
    let kernel = match layout {
        Weight::OutputFirst => shape(weight).get(1..1 + spatial),
        Weight::Depthwise => shape(weight).get(..spatial),
    };
    let (&[_, ref in_size @ .., in_c], &[_, ref out_size @ .., out_c], Some(kernel), 1..=3) =
        (shape(input), shape(output), kernel, spatial)
    else {
        return Err(builder.unsupported(format!("{} takes operands of rank 4 or 5", builder.at.1)));
    };
    let mut words = Vec::new();
    for (axis, &(stride, dilation, pad)) in axes.iter().enumerate() {
        // Images have no depth.
        let extent = |dims: &[u32]| (axis + spatial).checked_sub(3).map_or(1, |at| dims[at]);
        let [input, output, kernel] = [in_size, out_size, kernel].map(extent);
        words.extend(Axis { input, output, kernel, stride, dilation: dilation as i32, pad }.words(0));
    }
    let taps: u32 = kernel.iter().product();
    let (depth, strides) = match layout {
        Weight::OutputFirst => (in_c, [taps * in_c, in_c, 1]),
        Weight::Depthwise => (1, [1, out_c, 0]),
    };
    words.extend([in_c, out_c, depth, (out_c / in_c).max(1)]);
    words.extend(strides);
    words.push(u32::from(transposed));
    let geometry = builder.words(&words);
    let [input_zp, weight_zp] =
        [0, 1].map(|index| builder.number(node, ZERO_POINTS[index], &[zero_points[index] as u8]));
    let count = graph.tensor(output).elements();
    let a_word =
        4_u64.checked_div(graph.tensor(output).dtype.bytes().unwrap_or(4) as u64).unwrap_or(1).max(1);
    builder.launch(&Launch {
        module: &format!("window.{suffix}"),
        constants: &[],
        writes: &[builder.tensor(output)],
        reads: &[
            builder.tensor(input),
            builder.tensor(weight),
            builder.tensor(bias),
            geometry,
            input_zp,
            weight_zp,
        ],
        params: &[count as u32, u32::from(graph.tensor(bias).elements() > 1)],
        groups: count.div_ceil(a_word).div_ceil(LANES),
        detail: &format!("{kernel:?} on {out_size:?} of {in_c} to {out_c} channels"),
    })
}

/// Name of the variant for the node's types.
fn types(builder: &Builder<'_>, node: &Node) -> Result<&'static str, Refusal> {
    let dtype = |id| builder.graph.tensor(id).dtype;
    let (input, weight, output) = (dtype(node.inputs[0]), dtype(node.inputs[1]), dtype(node.outputs[0]));
    Ok(match (input, weight, output) {
        (DType::Fp32, DType::Fp32, DType::Fp32) => "f32",
        (DType::Fp16, DType::Fp16, DType::Fp16) => "f16",
        (DType::Bf16, DType::Bf16, DType::Bf16) => "bf16",
        (DType::Fp8E4M3, DType::Fp8E4M3, DType::Fp16) => "e4m3",
        (DType::Fp8E5M2, DType::Fp8E5M2, DType::Fp16) => "e5m2",
        (DType::Int8, DType::Int8, DType::Int32) => "i8",
        (DType::Int8, DType::Int4, DType::Int32) => "i8i4",
        (DType::Int16, DType::Int8, DType::Int48) => "i16",
        _ => {
            return Err(builder
                .unsupported(format!("{} has no kernel for {input} x {weight} -> {output}", builder.at.1)));
        }
    })
}
