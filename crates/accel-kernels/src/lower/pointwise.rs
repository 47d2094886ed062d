//! Element-wise operators: appended to a chain, which one kernel runs.

use accel_tosa::{
    BinaryOp, CompareOp, DType, LogicalOp, NanMode, Node, Op, Refusal, RescaleAttrs, Rounding, TensorId,
    UnaryOp,
};
use half::{bf16, f16};

use crate::builder::Builder;
use crate::chain::{Chain, element};
use crate::stage::{Code, Element, Source};

/// Whether the operator is computed element by element.
pub(crate) fn is_pointwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Clamp { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Mul { .. }
            | Op::Logical(_)
            | Op::Compare(_)
            | Op::Negate { .. }
            | Op::Select
            | Op::Table
            | Op::Cast
            | Op::Rescale(_)
    )
}

/// A chain that loads the operator's first operand.
///
/// # Errors
/// An unsupported-refusal for types that no pointwise kernel reads.
pub(crate) fn start(builder: &Builder<'_>, node: &Node) -> Result<Chain, Refusal> {
    let mut first = element(builder, builder.graph.tensor(node.inputs[0]).dtype)?;
    if matches!(node.op, Op::Rescale(RescaleAttrs { input_unsigned: true, .. })) {
        first = first.unsigned();
    }
    Ok(Chain::load(node.inputs[0], first))
}

/// Appends the operator's stages to a chain whose register holds one of its operands.
///
/// # Errors
/// An unsupported-refusal for types that no pointwise kernel reads.
pub(crate) fn append(builder: &Builder<'_>, chain: &mut Chain, node: &Node) -> Result<(), Refusal> {
    let dtype = |id| builder.graph.tensor(id).dtype;
    let input = element(builder, dtype(node.inputs[0]))?;
    let output = element(builder, dtype(node.outputs[0]))?;
    let float = input.is_float();
    let pick = |f: Code, i: Code| if float { f } else { i };
    match &node.op {
        Op::Clamp { min, max, nan_mode } => {
            let code = match (float, nan_mode) {
                (false, _) => Code::ClampI,
                (true, NanMode::Propagate) => Code::ClampF,
                (true, NanMode::Ignore) => Code::ClampFIgnore,
            };
            let bounds = [register(dtype(node.inputs[0]), *min), register(dtype(node.inputs[0]), *max)];
            unary(chain, code, &bounds, input);
        }
        Op::Unary(op) => unary(chain, unary_code(*op, float), &[], input),
        Op::Binary(op) => nary(builder, chain, node, binary_code(*op, float), &[], input)?,
        Op::Mul { .. } if node.inputs.len() == 3 => nary(builder, chain, node, Code::MulShiftBy, &[], input)?,
        Op::Mul { shift: 0 } => nary(builder, chain, node, pick(Code::MulF, Code::MulI), &[], input)?,
        Op::Mul { shift } => nary(builder, chain, node, Code::MulShift, &[*shift], input)?,
        Op::Logical(op) => {
            let code = match op {
                LogicalOp::And => Code::And,
                LogicalOp::Or => Code::Or,
                LogicalOp::Xor => Code::Xor,
            };
            nary(builder, chain, node, code, &[], input)?;
        }
        Op::Compare(op) => {
            let code = match op {
                CompareOp::Equal => pick(Code::EqualF, Code::EqualI),
                CompareOp::Greater => pick(Code::GreaterF, Code::GreaterI),
                CompareOp::GreaterEqual => pick(Code::GreaterEqualF, Code::GreaterEqualI),
            };
            nary(builder, chain, node, code, &[], input)?;
        }
        Op::Negate { .. } if float => unary(chain, Code::NegateF, &[], input),
        Op::Negate { .. } if node.inputs.len() == 3 => {
            nary(builder, chain, node, Code::NegateBy, &[], input)?
        }
        Op::Negate { input_zp, output_zp } => {
            unary(chain, Code::NegateI, &[(input_zp + output_zp) as u32], input);
        }
        Op::Select => nary(builder, chain, node, Code::Select, &[], input)?,
        Op::Table => {
            let code = if input == Element::I8 { Code::Table8 } else { Code::Table16 };
            let table = chain.table(node.inputs[1], element(builder, dtype(node.inputs[1]))?);
            chain.stage(code, &[Source::Chain, table], &[], input);
        }
        Op::Cast => cast(chain, input, output),
        Op::Rescale(attrs) => rescale(builder, chain, node, attrs, output)?,
        _ => return Err(builder.unsupported("the operator is not element-wise")),
    }
    chain.holds(node.outputs[0], node.op.name());
    Ok(())
}

fn unary(chain: &mut Chain, code: Code, immediates: &[u32], element: Element) {
    chain.stage(code, &[Source::Chain], immediates, element);
}

fn nary(
    builder: &Builder<'_>,
    chain: &mut Chain,
    node: &Node,
    code: Code,
    immediates: &[u32],
    kind: Element,
) -> Result<(), Refusal> {
    let mut sources = Vec::with_capacity(3);
    for &id in &node.inputs {
        sources.push(chain.source(id, element(builder, builder.graph.tensor(id).dtype)?));
    }
    chain.stage(code, &sources, immediates, kind);
    Ok(())
}

fn rescale(
    builder: &Builder<'_>,
    chain: &mut Chain,
    node: &Node,
    attrs: &RescaleAttrs,
    output: Element,
) -> Result<(), Refusal> {
    let clip = if attrs.output_unsigned { output.unsigned() } else { output };
    // INEXACT_ROUND allows what SINGLE_ROUND gives.
    let code = if attrs.rounding == Rounding::Double { Code::RescaleDouble } else { Code::Rescale };
    let multiplier = element(builder, builder.graph.tensor(node.inputs[1]).dtype)?;
    let multiplier = chain.source(node.inputs[1], multiplier);
    let shift = chain.source(node.inputs[2], Element::I8);
    let operands = [Source::Chain, multiplier, shift];
    if let &[input, _, _, input_zp, output_zp] = node.inputs.as_slice() {
        // Zero points that are read at run time, of at most 16 bits where they are not 0.
        let mut zero_point = |id: TensorId, of: TensorId, unsigned: bool| {
            let element = element(builder, builder.graph.tensor(of).dtype)?;
            Ok(chain.source(id, if unsigned { element.unsigned() } else { element }))
        };
        let input_zp = zero_point(input_zp, input, attrs.input_unsigned)?;
        let output_zp = zero_point(output_zp, node.outputs[0], attrs.output_unsigned)?;
        chain.stage(Code::SubI, &[Source::Chain, input_zp], &[], Element::I32);
        chain.stage(code, &operands, &[0, 0], Element::I32);
        // The sum cannot overflow after this, and is clipped to the same.
        chain.stage(Code::ClampI, &[Source::Chain], &[-(1 << 30) as u32, 1 << 30], Element::I32);
        chain.stage(Code::AddI, &[Source::Chain, output_zp], &[], Element::I32);
        let (low, high) = clip.bounds();
        chain.stage(Code::ClampI, &[Source::Chain], &[low as u32, high as u32], clip);
    } else {
        let zero_points = [attrs.input_zp as u32, attrs.output_zp as u32];
        chain.stage(code, &operands, &zero_points, clip);
    }
    if attrs.output_unsigned {
        chain.close();
    }
    Ok(())
}

fn cast(chain: &mut Chain, from: Element, to: Element) {
    let mut stage = |code| chain.stage(code, &[Source::Chain], &[], to);
    match (from.is_float(), to) {
        (true, Element::F16) => stage(Code::RoundF16),
        (true, Element::Bf16) => stage(Code::RoundBf16),
        (true, Element::E4M3) => stage(Code::RoundE4M3),
        (true, Element::E5M2) => stage(Code::RoundE5M2),
        (true, Element::F32) => {}
        (true, Element::Bool) => stage(Code::FloatToBool),
        (true, _) => stage(Code::FloatToInt),
        (false, Element::Bf16) => {
            // FP32 holds all of the others.
            stage(if from == Element::I32 { Code::IntToBf16 } else { Code::IntToFloat });
            stage(Code::RoundBf16);
        }
        (false, Element::F32) => stage(Code::IntToFloat),
        (false, Element::F16) => {
            stage(Code::IntToFloat);
            stage(Code::RoundF16);
        }
        (false, Element::Bool) => stage(Code::ToBool),
        (false, _) => stage(Code::Wrap),
    }
}

/// A constant of a type, given as its bits, in register form.
fn register(dtype: DType, bits: u64) -> u32 {
    match dtype {
        DType::Fp16 => f16::from_bits(bits as u16).to_f32().to_bits(),
        DType::Bf16 => bf16::from_bits(bits as u16).to_f32().to_bits(),
        DType::Int8 => i32::from(bits as i8) as u32,
        DType::Int16 => i32::from(bits as i16) as u32,
        _ => bits as u32,
    }
}

fn unary_code(op: UnaryOp, float: bool) -> Code {
    match op {
        UnaryOp::Abs if float => Code::AbsF,
        UnaryOp::Abs => Code::AbsI,
        UnaryOp::BitwiseNot => Code::Not,
        UnaryOp::Ceil => Code::Ceil,
        UnaryOp::Clz => Code::Clz,
        UnaryOp::Cos => Code::Cos,
        UnaryOp::Erf => Code::Erf,
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Floor => Code::Floor,
        UnaryOp::Log => Code::Log,
        UnaryOp::LogicalNot => Code::LogicalNot,
        UnaryOp::Reciprocal => Code::Reciprocal,
        UnaryOp::Rsqrt => Code::Rsqrt,
        UnaryOp::Sigmoid => Code::Sigmoid,
        UnaryOp::Sin => Code::Sin,
        UnaryOp::Tanh => Code::Tanh,
    }
}

fn binary_code(op: BinaryOp, float: bool) -> Code {
    let pick = |f: Code, i: Code| if float { f } else { i };
    match op {
        BinaryOp::Add => pick(Code::AddF, Code::AddI),
        BinaryOp::ArithmeticRightShift { round: true } => Code::ShiftArithmeticRound,
        BinaryOp::ArithmeticRightShift { round: false } => Code::ShiftArithmetic,
        BinaryOp::BitwiseAnd => Code::And,
        BinaryOp::BitwiseOr => Code::Or,
        BinaryOp::BitwiseXor => Code::Xor,
        BinaryOp::IntDiv => Code::Divide,
        BinaryOp::LogicalLeftShift => Code::ShiftLeft,
        BinaryOp::LogicalRightShift => Code::ShiftRight,
        BinaryOp::Maximum { nan_mode: NanMode::Propagate } => pick(Code::MaxF, Code::MaxI),
        BinaryOp::Maximum { nan_mode: NanMode::Ignore } => pick(Code::MaxFIgnore, Code::MaxI),
        BinaryOp::Minimum { nan_mode: NanMode::Propagate } => pick(Code::MinF, Code::MinI),
        BinaryOp::Minimum { nan_mode: NanMode::Ignore } => pick(Code::MinFIgnore, Code::MinI),
        BinaryOp::Pow => Code::Pow,
        BinaryOp::Sub => pick(Code::SubF, Code::SubI),
    }
}
