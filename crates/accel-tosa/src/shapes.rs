//! Operators that make shapes (CONST_SHAPE, and EXT-SHAPE of TOSA 1.1). All shapes of tensors are known when a graph is read, so
//! these are computed then and leave no node behind.

use crate::block::Reader;
use crate::operators::OperatorInfo;
use crate::schema::{AxisAttribute, RoundAttribute, TosaOperator};
use crate::site::{Result, Site, Value, require};
use crate::types::need;
use crate::{Refusal, Rule};

impl<'a> Reader<'a> {
    /// Reads an operator that makes a shape, or checks one.
    pub(crate) fn shape_operator(
        &mut self,
        info: &'static OperatorInfo,
        position: u32,
        operator: TosaOperator<'a>,
    ) -> Result<()> {
        let fail = |rule, message| Refusal { at: Some((position, info.name)), rule, message };
        let operands = self.operands(info, operator.inputs().unwrap_or_default(), fail)?;
        let results = self.made(info, operator, fail)?;
        let site = Site::new(&self.values, info, position, operator, &operands, &[])?;
        site.since()?;
        if info.name == "DIM" {
            need(&mut self.profile, site.row(None)?);
        }
        let Some(Value::Shape(made)) = results.first().copied() else {
            return assert_equal(&site);
        };
        let shape = &self.values.shapes[made];
        let dims = if info.name == "CONST_SHAPE" {
            stored(&site, shape.data.bytes, shape.rank)?
        } else {
            compute(&site)?
        };
        require!(
            site,
            dims.len() == shape.rank,
            "its output {:?} has the rank {} where {} is needed.",
            shape.name,
            shape.rank,
            dims.len()
        );
        self.values.shapes[made].dims = dims;
        Ok(())
    }
}

/// The value of a CONST_SHAPE. Like a constant's, its bytes may be padded: a shape of rank 0 is stored as 8 bytes.
fn stored(site: &Site<'_>, data: &[u8], rank: usize) -> Result<Vec<i64>> {
    let Some(bytes) = rank.checked_mul(8).and_then(|wanted| data.get(..wanted)) else {
        return Err(site.refuse(
            Rule::Malformed,
            format!("its shape of rank {rank} has {} bytes where 8 for each element are needed.", data.len()),
        ));
    };
    Ok(bytes.as_chunks().0.iter().map(|&element| i64::from_le_bytes(element)).collect())
}

fn compute(site: &Site<'_>) -> Result<Vec<i64>> {
    match site.info.name {
        "DIM" => {
            let axis = site.axis(site.attribute::<AxisAttribute<'_>>()?.axis())?;
            Ok(vec![site.input(0).shape[axis as usize].into()])
        }
        "CONCAT_SHAPE" => concat(site),
        "SLICE_SHAPE" => slice(site),
        "ADD_SHAPE" => pairs(site, i64::checked_add),
        "SUB_SHAPE" => pairs(site, i64::checked_sub),
        "MUL_SHAPE" => pairs(site, i64::checked_mul),
        "MAX_SHAPE" => pairs(site, |a, b| Some(a.max(b))),
        "MIN_SHAPE" => pairs(site, |a, b| Some(a.min(b))),
        "MOD_SHAPE" => pairs(site, |a, b| divisible(a, b).map(|()| a % b)),
        "DIV_CEIL_SHAPE" => pairs(site, |a, b| divisible(a, b).map(|()| a / b + i64::from(a % b != 0))),
        "DIV_FLOOR_SHAPE" => pairs(site, |a, b| divisible(a, b).map(|()| a / b)),
        "EXP2_SHAPE" => each(site, |a| (0..63).contains(&a).then(|| 1 << a)),
        "LOG2_CEIL_SHAPE" => each(site, |a| {
            let floor = a.checked_ilog2()?;
            Some(i64::from(floor) + i64::from(!(a as u64).is_power_of_two()))
        }),
        "LOG2_FLOOR_SHAPE" => each(site, |a| a.checked_ilog2().map(i64::from)),
        _ => Err(site.refuse(Rule::Unsupported, "graphs cannot hold it.".to_owned())),
    }
}

/// What TOSA divides: nothing negative, by something positive.
fn divisible(a: i64, b: i64) -> Option<()> {
    (a >= 0 && b > 0).then_some(())
}

fn undefined(site: &Site<'_>, operands: &[i64]) -> Refusal {
    site.refuse(
        Rule::ErrorIf,
        format!("its result for {operands:?} is not defined, or does not fit 64 bits."),
    )
}

fn each(site: &Site<'_>, f: impl Fn(i64) -> Option<i64>) -> Result<Vec<i64>> {
    site.shape(0).iter().map(|&a| f(a).ok_or_else(|| undefined(site, &[a]))).collect()
}

fn pairs(site: &Site<'_>, f: impl Fn(i64, i64) -> Option<i64>) -> Result<Vec<i64>> {
    let (a, b) = equal_ranks(site)?;
    a.iter().zip(b).map(|(&a, &b)| f(a, b).ok_or_else(|| undefined(site, &[a, b]))).collect()
}

fn equal_ranks<'a>(site: &Site<'a>) -> Result<(&'a [i64], &'a [i64])> {
    let (a, b) = (site.shape(0), site.shape(1));
    require!(
        site,
        a.len() == b.len(),
        "its operands have the ranks {} and {}; they must be equal.",
        a.len(),
        b.len()
    );
    Ok((a, b))
}

fn concat(site: &Site<'_>) -> Result<Vec<i64>> {
    let mut joined = Vec::new();
    for index in 0..site.shapes() {
        let shape = site.shape(index);
        require!(site, !shape.is_empty(), "operand {index} has the rank 0; each must have at least 1.");
        joined.extend(shape);
    }
    Ok(joined)
}

fn slice(site: &Site<'_>) -> Result<Vec<i64>> {
    let shape = site.shape(0);
    for index in [0, 1] {
        if site.input(index).constant.is_none() {
            let message = format!(
                "its {} is computed at run time; every shape must be known when the graph is loaded.",
                site.input_name(index)
            );
            return Err(site.refuse(Rule::Unsupported, message));
        }
    }
    let (start, size) = (site.number(0, false, false)?, site.number(1, false, false)?);
    require!(site, !shape.is_empty(), "it slices a shape of rank 0; at least 1 is needed.");
    require!(site, start >= 0, "its start is {start}; it must be at least 0.");
    require!(site, size > 0, "its size is {size}; it must be at least 1.");
    let part = usize::try_from(start).ok().zip(usize::try_from(start + size).ok());
    let part = part.and_then(|(from, to)| shape.get(from..to));
    part.map(<[i64]>::to_vec).ok_or_else(|| {
        let message = format!("it takes {size} elements from {start} on of a shape of rank {}.", shape.len());
        site.refuse(Rule::ErrorIf, message)
    })
}

fn assert_equal(site: &Site<'_>) -> Result<()> {
    let broadcast = site.attribute::<RoundAttribute<'_>>()?.round().unwrap_or(false);
    let (a, b) = equal_ranks(site)?;
    let same = |a: i64, b: i64| a == b || broadcast && (a == 1 || b == 1);
    require!(
        site,
        a.iter().zip(b).all(|(&a, &b)| same(a, b)),
        "its operands are {a:?} and {b:?}; they must be equal{}.",
        if broadcast { ", or 1 where they are not" } else { "" }
    );
    Ok(())
}
