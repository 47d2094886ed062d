//! CONV2D as a matrix product: m numbers the output's pixels, n its channels, and k the weights of one channel.
//! No matrix of windows is made; the kernel addresses the image.

use accel_tosa::{ConvAttrs, DType, Node, Refusal};

use super::gemm::{Addressing, Product, Size};
use super::movers::magic;
use crate::builder::Builder;
use crate::epilogue::Epilogue;

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &ConvAttrs,
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let (a, b, bias, output) = (node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]);
    let graph = builder.graph;
    let types = conv_types(builder, node)?;
    let (&[images, in_h, in_w, in_c], &[_, kernel_h, kernel_w, _], &[_, out_h, out_w, n]) = (
        graph.tensor(a).shape.as_slice(),
        graph.tensor(b).shape.as_slice(),
        graph.tensor(output).shape.as_slice(),
    ) else {
        return Err(builder.unsupported("CONV2D takes operands of rank 4"));
    };
    let size = Size { batches: 1, m: images * out_h * out_w, n, k: kernel_h * kernel_w * in_c };
    let pointwise = [kernel_h, kernel_w] == [1, 1] && attrs.stride == [1, 1] && attrs.pad == [0; 4];
    let ((c_magic, c_shift), (w_magic, w_shift)) = (magic(in_c), magic(kernel_w));
    let image = [
        in_h,
        in_w,
        in_c,
        out_h,
        out_w,
        kernel_w,
        packed(attrs.stride),
        packed(attrs.dilation),
        packed([attrs.pad[0], attrs.pad[2]]),
        c_magic,
        w_magic,
        packed([c_shift, w_shift]),
    ];
    Product {
        addressing: if pointwise { Addressing::RowsOfK } else { Addressing::Image(&image) },
        types,
        size,
        output,
        a,
        b,
        bias: Some(bias),
        zero_points: [attrs.input_zp, attrs.weight_zp],
    }
    .launch_fused(builder, epilogue)
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
