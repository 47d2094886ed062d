//! MATMUL: `[N,H,C] x [N,C,W]`, and MATMUL_T: `[N,H,C] x [N or 1,W,C]`.

use accel_tosa::{DType, Node, Op, Refusal};

use super::gemm::{Addressing, Product, Size};
use crate::builder::Builder;
use crate::epilogue::Epilogue;

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    zero_points: [i32; 2],
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let (a, b, output) = (node.inputs[0], node.inputs[1], node.outputs[0]);
    let graph = builder.graph;
    let transposed = matches!(node.op, Op::MatMulT { .. });
    let dtypes = [a, b, output].map(|id| graph.tensor(id).dtype);
    let [from, by, to] = dtypes;
    let types = if transposed { transposed_types(from, by, to) } else { types(from, by, to) };
    let types = types.ok_or_else(|| {
        builder.unsupported(format!("{} has no kernel for {from} x {by} -> {to}", builder.at.1))
    })?;
    let (&[mut batches, mut m, k], &[shared, rows, columns]) =
        (graph.tensor(a).shape.as_slice(), graph.tensor(b).shape.as_slice())
    else {
        return Err(builder.unsupported("MATMUL takes operands of rank 3"));
    };
    let (n, addressing) =
        if transposed { (rows, Addressing::RowsOfK) } else { (columns, Addressing::Matrix) };
    if shared == 1 {
        (batches, m) = (1, batches * m);
    }
    let size = Size { batches, m, n, k };
    Product { addressing, types, size, output, a, b, bias: None, zero_points }.launch_fused(builder, epilogue)
}

/// Name of the kernels' variants for a MATMUL of these types.
pub(crate) fn types(a: DType, b: DType, output: DType) -> Option<&'static str> {
    Some(match (a, b, output) {
        (DType::Fp32, DType::Fp32, DType::Fp32) => "f32",
        (DType::Fp16, DType::Fp16, DType::Fp16) => "f16",
        (DType::Fp16, DType::Fp16, DType::Fp32) => "f16f32",
        (DType::Bf16, DType::Bf16, DType::Fp32) => "bf16f32",
        (DType::Int8, DType::Int8, DType::Int32) => "i8",
        (DType::Fp8E4M3, DType::Fp8E4M3, DType::Fp16) => "e4m3",
        (DType::Fp8E5M2, DType::Fp8E5M2, DType::Fp16) => "e5m2",
        _ => return None,
    })
}

/// Name of the kernels' variants for a MATMUL_T of these types.
pub(crate) fn transposed_types(a: DType, b: DType, output: DType) -> Option<&'static str> {
    Some(match (a, b, output) {
        (DType::Fp32, DType::Fp32, DType::Fp32) => "f32",
        (DType::Fp16, DType::Fp16, DType::Fp16) => "f16",
        (DType::Bf16, DType::Bf16, DType::Bf16) => "bf16",
        (DType::Int8, DType::Int8, DType::Int32) => "i8",
        _ => return None,
    })
}
