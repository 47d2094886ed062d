//! Reductions and ARGMAX.

use crate::schema::AxisAttribute;
use crate::site::{Result, Site};
use crate::{Op, ReduceOp};

pub(super) fn argmax(site: &Site<'_>) -> Result<Op> {
    let attribute: AxisAttribute<'_> = site.attribute()?;
    let axis = site.axis(attribute.axis())?;
    let kept = site.input(0).shape.iter().enumerate().filter(|(dimension, _)| *dimension != axis as usize);
    let wanted: Vec<u64> = kept.map(|(_, &extent)| extent.into()).collect();
    site.output_shape(&wanted, "the input's shape without the axis")?;
    Ok(Op::ArgMax { axis, nan_mode: site.nan_mode(attribute.nan_mode())? })
}

pub(super) fn reduce(site: &Site<'_>) -> Result<Op> {
    let attribute: AxisAttribute<'_> = site.attribute()?;
    let axis = site.axis(attribute.axis())?;
    let mut wanted: Vec<u64> = site.input(0).shape.iter().map(|&extent| extent.into()).collect();
    wanted[axis as usize] = 1;
    site.output_shape(&wanted, "the input's shape with 1 in the axis")?;
    let op = match site.info.name {
        "REDUCE_ALL" => ReduceOp::All,
        "REDUCE_ANY" => ReduceOp::Any,
        "REDUCE_MAX" => ReduceOp::Max { nan_mode: site.nan_mode(attribute.nan_mode())? },
        "REDUCE_MIN" => ReduceOp::Min { nan_mode: site.nan_mode(attribute.nan_mode())? },
        "REDUCE_PRODUCT" => ReduceOp::Product,
        _ => ReduceOp::Sum,
    };
    Ok(Op::Reduce { op, axis })
}
