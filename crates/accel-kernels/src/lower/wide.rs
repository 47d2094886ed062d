//! Operators that compute with INT64, which no chain of pointwise stages holds.

use accel_tosa::{BinaryOp, CompareOp, DType, Node, Op, ReduceOp, Refusal, TensorId, UnaryOp};

use super::movers::{LANES, word_groups};
use super::pointwise::is_pointwise;
use crate::builder::{Builder, Launch, Value};
use crate::chain::element;
use crate::stage::Element;

/// The type's number in `wide.glsl`, whose other types are those of chains.
const INT64: u32 = 11;
/// Dimensions of the kernel's block.
const RANK: usize = 6;

/// Whether the operator computes with INT64.
pub(crate) fn is_needed(builder: &Builder<'_>, node: &Node) -> bool {
    let wide = |id: &TensorId| builder.graph.tensor(*id).dtype == DType::Int64;
    let computes = is_pointwise(&node.op) || matches!(node.op, Op::Reduce { .. });
    computes && node.inputs.iter().chain(&node.outputs).any(wide)
}

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    if let Op::Reduce { op, axis } = node.op {
        return reduce(builder, node, op, axis);
    }
    let code = code(builder, &node.op)?;
    let output = builder.graph.tensor(node.outputs[0]);
    let kind = |id: TensorId| match builder.graph.tensor(id).dtype {
        DType::Int64 => Ok(INT64),
        other => element(builder, other).map(|element| element as u32),
    };
    let last = node.inputs[node.inputs.len() - 1];
    let constants = [(0, code), (1, kind(node.inputs[0])?), (2, kind(last)?), (3, kind(node.outputs[0])?)];
    // Operands that the operator lacks repeat the last one and are not used.
    let operands: Vec<TensorId> = node.inputs.iter().copied().chain([last; 3]).take(3).collect();
    let mut words = vec![1; RANK - output.shape.len()];
    words.extend(&output.shape);
    for &operand in &operands {
        words.extend(strides(&builder.graph.tensor(operand).shape));
    }
    let count = output.elements();
    let size = output.dtype.bytes().unwrap_or(8);
    let mut reads: Vec<_> = operands.iter().map(|&operand| builder.tensor(operand)).collect();
    reads.push(builder.words(&words));
    builder.launch(&Launch {
        module: "wide",
        constants: &constants,
        writes: &[builder.tensor(node.outputs[0])],
        reads: &reads,
        params: &[count as u32],
        groups: word_groups(count, size.min(4)),
        detail: "",
    })
}

/// Elements from one coordinate to the next, 0 where the extent is 1 and the operand is repeated.
fn strides(shape: &[u32]) -> [u32; RANK] {
    let mut strides = [0; RANK];
    let mut step = 1;
    for (stride, &extent) in strides.iter_mut().rev().zip(shape.iter().rev()) {
        *stride = if extent > 1 { step } else { 0 };
        step *= extent;
    }
    strides
}

/// The operator's number in `wide.comp`.
fn code(builder: &Builder<'_>, op: &Op) -> Result<u32, Refusal> {
    Ok(match op {
        Op::Cast => 0,
        Op::Binary(BinaryOp::Add) => 1,
        Op::Binary(BinaryOp::Sub) => 2,
        Op::Mul { shift: 0 } => 3,
        Op::Binary(BinaryOp::Maximum { .. }) => 4,
        Op::Binary(BinaryOp::Minimum { .. }) => 5,
        Op::Binary(BinaryOp::IntDiv) => 6,
        Op::Binary(BinaryOp::BitwiseAnd) => 7,
        Op::Binary(BinaryOp::BitwiseOr) => 8,
        Op::Binary(BinaryOp::BitwiseXor) => 9,
        Op::Binary(BinaryOp::LogicalLeftShift) => 10,
        Op::Binary(BinaryOp::LogicalRightShift) => 11,
        Op::Binary(BinaryOp::ArithmeticRightShift { round: false }) => 12,
        Op::Binary(BinaryOp::ArithmeticRightShift { round: true }) => 13,
        Op::Compare(CompareOp::Equal) => 14,
        Op::Compare(CompareOp::Greater) => 15,
        Op::Compare(CompareOp::GreaterEqual) => 16,
        Op::Select => 17,
        Op::Unary(UnaryOp::Abs) => 18,
        Op::Negate { .. } => 19,
        Op::Unary(UnaryOp::BitwiseNot) => 20,
        Op::Unary(UnaryOp::Clz) => 21,
        _ => return Err(builder.unsupported("the operator has no kernel for INT64")),
    })
}

fn reduce(builder: &mut Builder<'_>, node: &Node, op: ReduceOp, axis: u32) -> Result<(), Refusal> {
    let code = match op {
        ReduceOp::Sum => 0,
        ReduceOp::Max { .. } => 1,
        ReduceOp::Min { .. } => 2,
        _ => return Err(builder.unsupported("the operator has no kernel for INT64")),
    };
    along(builder, node, code, axis)
}

/// ARGMAX of INT64, whose result is INT64 too.
pub(crate) fn argmax(builder: &mut Builder<'_>, node: &Node, axis: u32) -> Result<(), Refusal> {
    along(builder, node, 3, axis)
}

/// Extends INT32 to INT64.
pub(crate) fn extend(builder: &mut Builder<'_>, to: Value, from: Value, count: u64) -> Result<(), Refusal> {
    let mut words = vec![1; RANK];
    words[RANK - 1] = count as u32;
    for _ in 0..3 {
        words.extend(strides(&[count as u32]));
    }
    let block = builder.words(&words);
    builder.launch(&Launch {
        module: "wide",
        constants: &[(0, 0), (1, Element::I32 as u32), (2, Element::I32 as u32), (3, INT64)],
        writes: &[to],
        reads: &[from, from, from, block],
        params: &[count as u32],
        groups: count.div_ceil(LANES),
        detail: "",
    })
}

fn along(builder: &mut Builder<'_>, node: &Node, code: u32, axis: u32) -> Result<(), Refusal> {
    let shape = &builder.graph.tensor(node.inputs[0]).shape;
    let inner: u32 = shape[axis as usize + 1..].iter().product();
    let axis = shape[axis as usize];
    let count = builder.graph.tensor(node.outputs[0]).elements();
    builder.launch(&Launch {
        module: "wide_reduce",
        constants: &[(0, code)],
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[builder.tensor(node.inputs[0])],
        params: &[count as u32, axis, inner],
        groups: count.div_ceil(LANES),
        detail: &format!("{axis} elements {inner} apart"),
    })
}
