//! MATMUL: `[N,H,C] x [N,C,W]`, and MATMUL_T: `[N,H,C] x [N or 1,W,C]`.

use accel_tosa::{DType, Node, Op, Refusal, TensorId};

use super::gemm::{Addressing, Product, Size};
use super::product;
use super::skinny::{Layout, Skinny};
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
    let size = size(builder, node).ok_or_else(|| builder.unsupported("MATMUL takes operands of rank 3"))?;
    let addressing = if transposed { Addressing::RowsOfK } else { Addressing::Matrix };
    Product { addressing, types, size, output, a, b, known: None, bias: None, zero_points }
        .launch_fused(builder, epilogue)
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

fn size(builder: &Builder<'_>, node: &Node) -> Option<Size> {
    let [a, b] = [0, 1].map(|operand| builder.graph.tensor(node.inputs[operand]).shape.as_slice());
    let (&[batches, m, k], &[shared, rows, columns]) = (a, b) else { return None };
    let n = if matches!(node.op, Op::MatMulT { .. }) { rows } else { columns };
    let (batches, m) = if shared == 1 { (1, batches * m) } else { (batches, m) };
    Some(Size { batches, m, n, k })
}

/// Whether the kernel that is chosen for a MATMUL or MATMUL_T can read `b`, of which the operator's second operand is a CAST.
pub(crate) fn decodes(builder: &Builder<'_>, node: &Node, b: TensorId) -> bool {
    let layout = match node.op {
        Op::MatMul { .. } => Layout::Columns,
        Op::MatMulT { .. } => Layout::Rows,
        _ => return false,
    };
    // The kernel that takes zero points which are computed reads operands as they are.
    if product::is_needed(builder, node) {
        return false;
    }
    let dtypes = [node.inputs[0], b].map(|id| builder.graph.tensor(id).dtype);
    size(builder, node).is_some_and(|size| Skinny::choose(builder.caps, size, layout, dtypes).is_some())
}
