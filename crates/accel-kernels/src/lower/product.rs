//! MATMUL and MATMUL_T in general form: for types and run-time zero points that the fast kernels do not take.

use accel_tosa::{DType, Node, Op, Refusal};

use super::movers::{LANES, word_groups};
use crate::builder::{Builder, Launch};
use crate::chain::element;

/// Whether only this family takes the operator's types, or its zero points.
pub(crate) fn is_needed(builder: &Builder<'_>, node: &Node) -> bool {
    builder.graph.tensor(node.inputs[0]).dtype == DType::Int16 || node.inputs.len() > 2
}

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, zero_points: [i32; 2]) -> Result<(), Refusal> {
    let graph = builder.graph;
    let [a, b] = [0, 1].map(|operand| graph.tensor(node.inputs[operand]));
    let output = graph.tensor(node.outputs[0]);
    let (&[_, m, k], &[batches, rows, columns]) = (a.shape.as_slice(), b.shape.as_slice()) else {
        return Err(builder.unsupported("MATMUL takes operands of rank 3"));
    };
    let transposed = matches!(node.op, Op::MatMulT { .. });
    let (n, b_k, b_n) = if transposed { (rows, 1, k) } else { (columns, columns, 1) };
    let b_batch = if batches > 1 { rows * columns } else { 0 };
    let count = output.elements();
    let (variant, groups) = match output.dtype {
        DType::Fp32 => ("f32", word_groups(count, 4)),
        DType::Fp16 => ("f16", word_groups(count, 2)),
        DType::Int32 => ("i32", word_groups(count, 4)),
        DType::Int48 => ("i48", count.div_ceil(LANES)),
        other => return Err(builder.unsupported(format!("MATMUL has no kernel for results of {other}"))),
    };
    let constants = [(0, element(builder, a.dtype)? as u32), (1, element(builder, b.dtype)? as u32)];
    let [a_zp, b_zp] = [0, 1].map(|index| builder.number(node, 2 + index, &[zero_points[index] as u8]));
    builder.launch(&Launch {
        module: &format!("product.{variant}"),
        constants: &constants,
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[builder.tensor(node.inputs[0]), builder.tensor(node.inputs[1]), a_zp, b_zp],
        params: &[count as u32, m, n, k, b_batch, b_k, b_n],
        groups,
        detail: &format!("{m}x{n}x{k}"),
    })
}
