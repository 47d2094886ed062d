//! Operators that work element by element.

use crate::schema::{ClampAttribute, ModeAttribute, RoundAttribute};
use crate::site::{Result, Site, require, show};
use crate::{BinaryOp, CompareOp, DType, LogicalOp, NanMode, Op, UnaryOp};
use half::{bf16, f16};

/// An operator whose result has its input's shape.
pub(super) fn same_shape(site: &Site<'_>, op: Op) -> Result<Op> {
    site.output_like(0)?;
    Ok(op)
}

pub(super) fn unary(site: &Site<'_>, op: UnaryOp) -> Result<Op> {
    same_shape(site, Op::Unary(op))
}

/// The first `count` operands broadcast to the output: equal ranks, and in each dimension equal extents or 1.
fn broadcast(site: &Site<'_>, count: usize, op: Op) -> Result<Op> {
    let first = &site.input(0).shape;
    let mut wanted: Vec<u64> = vec![1; first.len()];
    for index in 0..count {
        let shape = &site.input(index).shape;
        require!(
            site,
            shape.len() == first.len(),
            "its operands have the ranks {} and {}; they must be equal.",
            first.len(),
            shape.len()
        );
        for (dimension, (wanted, &extent)) in wanted.iter_mut().zip(shape).enumerate() {
            let extent = u64::from(extent);
            require!(
                site,
                extent == *wanted || extent == 1 || *wanted == 1,
                "its operands do not broadcast: dimension {dimension} is {} in one and {extent} in another (of shape {}); \
                 they must be equal, or one of them 1.",
                *wanted,
                show(shape)
            );
            *wanted = extent.max(*wanted);
        }
    }
    site.output_shape(&wanted, "the broadcast shape of the operands")?;
    Ok(op)
}

pub(super) fn binary(site: &Site<'_>, op: BinaryOp) -> Result<Op> {
    broadcast(site, 2, Op::Binary(op))
}

pub(super) fn logical(site: &Site<'_>, op: LogicalOp) -> Result<Op> {
    broadcast(site, 2, Op::Logical(op))
}

pub(super) fn compare(site: &Site<'_>, op: CompareOp) -> Result<Op> {
    broadcast(site, 2, Op::Compare(op))
}

pub(super) fn select(site: &Site<'_>) -> Result<Op> {
    broadcast(site, 3, Op::Select)
}

pub(super) fn nan_mode(site: &Site<'_>) -> Result<NanMode> {
    site.nan_mode(site.attribute::<ModeAttribute<'_>>()?.mode())
}

pub(super) fn arithmetic_right_shift(site: &Site<'_>) -> Result<Op> {
    let round = site.attribute::<RoundAttribute<'_>>()?.round().unwrap_or(false);
    binary(site, BinaryOp::ArithmeticRightShift { round })
}

pub(super) fn mul(site: &Site<'_>) -> Result<Op> {
    let dtype = site.input(0).dtype;
    let shift = site.number(2, false, dtype != DType::Int32)?;
    let highest = if dtype == DType::Int32 { 63 } else { 0 };
    require!(
        site,
        (0..=highest).contains(&shift),
        "its shift is {shift}; for {dtype} it may be 0 to {highest}."
    );
    broadcast(site, 2, Op::Mul { shift: shift as u32 })
}

pub(super) fn negate(site: &Site<'_>) -> Result<Op> {
    let op = Op::Negate { input_zp: site.zero_point(1)?, output_zp: site.zero_point(2)? };
    same_shape(site, op)
}

pub(super) fn table(site: &Site<'_>) -> Result<Op> {
    let table = site.input(1);
    let wanted = if site.input(0).dtype == DType::Int8 { 256 } else { 513 };
    require!(
        site,
        table.shape == [wanted],
        "the table {:?} has the shape {} where [{wanted}] is needed for {}.",
        table.name,
        show(&table.shape),
        site.input(0).dtype
    );
    same_shape(site, Op::Table)
}

pub(super) fn clamp(site: &Site<'_>) -> Result<Op> {
    let attribute: ClampAttribute<'_> = site.attribute()?;
    let dtype = site.input(0).dtype;
    let min = site.element("lower bound", attribute.min(), dtype)?;
    let max = site.element("upper bound", attribute.max(), dtype)?;
    let (low, high) = (value(min, dtype), value(max, dtype));
    require!(site, !low.is_nan() && !high.is_nan(), "its bounds are {low} and {high}; neither may be NaN.");
    require!(
        site,
        low.total_cmp(&high).is_le() || low == high,
        "its lower bound {low} is above its upper bound {high}."
    );
    same_shape(site, Op::Clamp { min, max, nan_mode: site.nan_mode(attribute.nan_mode())? })
}

/// An element as a number; exact for every type that CLAMP accepts.
fn value(bits: u64, dtype: DType) -> f64 {
    match dtype {
        DType::Int8 => f64::from(bits as i8),
        DType::Int16 => f64::from(bits as i16),
        DType::Fp16 => f16::from_bits(bits as u16).to_f64(),
        DType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}
