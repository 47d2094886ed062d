//! CONV2D and CONV3D as a matrix product: m numbers the output's elements, n its channels, and k the weights of one channel.
//! No matrix of windows is made where channels are whole vectors; the kernel addresses the image.

use accel_tosa::{Conv3dAttrs, ConvAttrs, DType, Node, Refusal};

use super::axes::Windows;
use super::gemm::{Addressing, Product, Size};
use super::window;
use crate::builder::Builder;
use crate::epilogue::Epilogue;

pub(crate) fn planar(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &ConvAttrs,
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let windows = planar_windows(builder, node, attrs)
        .ok_or_else(|| builder.unsupported("CONV2D takes operands of rank 4"))?;
    if !windows.are_addressable() {
        return window::conv2d(builder, node, attrs);
    }
    lower(builder, node, &windows, [attrs.input_zp, attrs.weight_zp], epilogue)
}

/// Whether a CONV2D is a product, which may have an epilogue.
pub(crate) fn is_product(builder: &Builder<'_>, node: &Node, attrs: &ConvAttrs) -> bool {
    planar_windows(builder, node, attrs).is_some_and(|windows| windows.are_addressable())
}

fn planar_windows(builder: &Builder<'_>, node: &Node, attrs: &ConvAttrs) -> Option<Windows> {
    let [input, weight, output] = shapes(builder, node);
    let (&[_, in_h, in_w, in_c], &[_, kernel_h, kernel_w, _], &[_, out_h, out_w, _]) =
        (input, weight, output)
    else {
        return None;
    };
    let extents = [[in_h, in_w], [kernel_h, kernel_w], [out_h, out_w]];
    Some(Windows::new(extents, in_c, &attrs.pad, &attrs.stride, &attrs.dilation))
}

pub(crate) fn volume(builder: &mut Builder<'_>, node: &Node, attrs: &Conv3dAttrs) -> Result<(), Refusal> {
    let [input, weight, output] = shapes(builder, node);
    let (&[_, in_d, in_h, in_w, in_c], &[_, kernel_d, kernel_h, kernel_w, _], &[_, out_d, out_h, out_w, _]) =
        (input, weight, output)
    else {
        return Err(builder.unsupported("CONV3D takes operands of rank 5"));
    };
    let extents = [[in_d, in_h, in_w], [kernel_d, kernel_h, kernel_w], [out_d, out_h, out_w]];
    let windows = Windows::new(extents, in_c, &attrs.pad, &attrs.stride, &attrs.dilation);
    if window::is_needed(builder, node) || !windows.are_addressable() {
        return window::conv3d(builder, node, attrs);
    }
    lower(builder, node, &windows, [attrs.input_zp, attrs.weight_zp], None)
}

fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    windows: &Windows,
    zero_points: [i32; 2],
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let types = conv_types(builder, node)?;
    let [input, _, output] = shapes(builder, node);
    let size = Size {
        batches: 1,
        m: input[0] * windows.outputs(),
        n: output[output.len() - 1],
        k: windows.taps() as u32 * windows.channels,
    };
    let addressing = if windows.are_elements() { Addressing::RowsOfK } else { Addressing::Image(windows) };
    let [a, b, bias] = [0, 1, 2].map(|operand| node.inputs[operand]);
    let output = node.outputs[0];
    Product { addressing, types, size, output, a, b, known: None, bias: Some(bias), zero_points }
        .launch_fused(builder, epilogue)
}

/// Shapes of input, weight and output.
pub(crate) fn shapes<'a>(builder: &Builder<'a>, node: &Node) -> [&'a [u32]; 3] {
    [node.inputs[0], node.inputs[1], node.outputs[0]].map(|id| builder.graph.tensor(id).shape.as_slice())
}

/// Two extents of at most 16 bits, which level 8K grants, in a word: y low, x high.
pub(crate) fn packed([y, x]: [u32; 2]) -> u32 {
    y | x << 16
}

/// Name of the variant for the node's types, which CONV2D and DEPTHWISE_CONV2D share.
pub(crate) fn conv_types(builder: &Builder<'_>, node: &Node) -> Result<&'static str, Refusal> {
    let dtype = |id| builder.graph.tensor(id).dtype;
    let (input, weight, output) = (dtype(node.inputs[0]), dtype(node.inputs[1]), dtype(node.outputs[0]));
    types(input, weight, output).ok_or_else(|| {
        builder.unsupported(format!("{} has no kernel for {input} x {weight} -> {output}", builder.at.1))
    })
}

/// Name of the variant for these types.
pub(crate) fn types(input: DType, weight: DType, output: DType) -> Option<&'static str> {
    Some(match (input, weight, output) {
        (DType::Fp32, DType::Fp32, DType::Fp32) => "f32",
        (DType::Fp16, DType::Fp16, DType::Fp16) => "f16",
        (DType::Bf16, DType::Bf16, DType::Bf16) => "bf16",
        (DType::Int8, DType::Int8, DType::Int32) => "i8",
        (DType::Fp8E4M3, DType::Fp8E4M3, DType::Fp16) => "e4m3",
        (DType::Fp8E5M2, DType::Fp8E5M2, DType::Fp16) => "e5m2",
        _ => return None,
    })
}
