//! Operators on values whose scales are a tensor of their own.

use super::{elementwise, layout};
use crate::schema::ModeAttribute;
use crate::site::{Result, Site, require, show};
use crate::{BLOCK, Op, Rule};

/// The block size, which must be `wanted`: 1 for data without scales.
pub(super) fn block_size(site: &Site<'_>, wanted: u32) -> Result<()> {
    let found = site.attribute::<ModeAttribute<'_>>()?.mode().unwrap_or(0);
    require!(site, found == wanted, "its block size is {found} where {wanted} is needed.");
    Ok(())
}

/// Whether the operand after the values number `index` has a scale for each block of them.
pub(super) fn scales_fit(site: &Site<'_>, index: usize) -> Result<()> {
    let scales = site.input(index + 1);
    let shape: Vec<u64> = site.input(index).shape.iter().map(|&extent| extent.into()).collect();
    let wanted = scales_shape(site, &shape)?;
    require!(
        site,
        scales.shape.iter().map(|&extent| u64::from(extent)).eq(wanted.iter().copied()),
        "the scales {:?} have the shape {} where {wanted:?} is needed: {RULE}.",
        scales.name,
        show(&scales.shape)
    );
    Ok(())
}

/// Whether the second result has a scale for each block of the first, which has this shape.
fn results_fit(site: &Site<'_>, values: &[u64]) -> Result<()> {
    site.result_shape(1, &scales_shape(site, values)?, RULE)
}

const RULE: &str = "one for each 32 values along the last dimension";

/// The shape of the scales for values of this shape.
fn scales_shape(site: &Site<'_>, values: &[u64]) -> Result<Vec<u64>> {
    let mut shape = values.to_vec();
    let block = u64::from(BLOCK);
    match shape.last_mut().filter(|last| last.is_multiple_of(block)) {
        Some(last) => *last /= block,
        None => {
            let message = format!(
                "its values have the shape {values:?}; the last dimension of values with scales must be a multiple of {BLOCK}."
            );
            return Err(site.refuse(Rule::ErrorIf, message));
        }
    }
    Ok(shape)
}

pub(super) fn cast_from(site: &Site<'_>) -> Result<Op> {
    block_size(site, BLOCK)?;
    scales_fit(site, 0)?;
    elementwise::same_shape(site, Op::CastFromBlockScaled)
}

pub(super) fn cast_to(site: &Site<'_>) -> Result<Op> {
    block_size(site, BLOCK)?;
    let op = elementwise::same_shape(site, Op::CastToBlockScaled)?;
    let shape: Vec<u64> = site.input(0).shape.iter().map(|&extent| extent.into()).collect();
    results_fit(site, &shape)?;
    Ok(op)
}

/// RESHAPE_BLOCK_SCALED: a RESHAPE where there are no scales.
pub(super) fn reshape(site: &Site<'_>) -> Result<Op> {
    if !site.info.scales {
        block_size(site, 1)?;
        return layout::reshape(site);
    }
    block_size(site, BLOCK)?;
    scales_fit(site, 0)?;
    results_fit(site, &layout::reshaped(site)?)?;
    Ok(Op::ReshapeBlockScaled)
}

/// ROW_GATHER_BLOCK_SCALED: a ROW_GATHER where there are no scales.
pub(super) fn row_gather(site: &Site<'_>) -> Result<Op> {
    if !site.info.scales {
        block_size(site, 1)?;
        return Ok(Op::RowGather { run: layout::row_gather(site, 1)? });
    }
    block_size(site, BLOCK)?;
    let run = layout::row_gather(site, 2)?;
    scales_fit(site, 0)?;
    let (values, indices) = (&site.input(0).shape, &site.input(2).shape);
    let [n, w, c] = [values[0], indices[1], values[2]].map(u64::from);
    results_fit(site, &[n, w * u64::from(run), c])?;
    Ok(Op::RowGatherBlockScaled { run })
}
