//! Operators that move elements without computing.

use crate::schema::{AxisAttribute, TransposeAttribute};
use crate::site::{Result, Site, UNKNOWN, require, show};
use crate::{DType, Op};

fn axis(site: &Site<'_>) -> Result<u32> {
    site.axis(site.attribute::<AxisAttribute<'_>>()?.axis())
}

pub(super) fn concat(site: &Site<'_>) -> Result<Op> {
    let axis = axis(site)?;
    let first = &site.input(0).shape;
    let mut wanted: Vec<u64> = first.iter().map(|&extent| extent.into()).collect();
    wanted[axis as usize] = 0;
    for index in 0..site.tensors.len() {
        let shape = &site.input(index).shape;
        let fits = shape.len() == first.len()
            && shape
                .iter()
                .zip(first)
                .enumerate()
                .all(|(dimension, (a, b))| dimension == axis as usize || a == b);
        require!(
            site,
            fits,
            "operand {index} has the shape {}, which may differ from the first one's {} only in dimension {axis}.",
            show(shape),
            show(first)
        );
        wanted[axis as usize] += u64::from(shape[axis as usize]);
    }
    site.output_shape(&wanted, "the extents of the operands add up along the axis")?;
    Ok(Op::Concat { axis })
}

pub(super) fn pad(site: &Site<'_>) -> Result<Op> {
    let input = site.input(0);
    site.not_scalar(input)?;
    let amounts = site.dims(0, 2 * input.shape.len())?.1;
    let mut padding = Vec::with_capacity(input.shape.len());
    let mut wanted = Vec::with_capacity(input.shape.len());
    for (&extent, pair) in input.shape.iter().zip(amounts.as_chunks::<2>().0) {
        let amount = |amount: i64| {
            u32::try_from(amount).map_err(|_| {
                site.refuse(
                    crate::Rule::ErrorIf,
                    format!("a padding amount is {amount}; each must be 0 to 2^32 - 1."),
                )
            })
        };
        let pair = [amount(pair[0])?, amount(pair[1])?];
        wanted.push(u64::from(extent) + u64::from(pair[0]) + u64::from(pair[1]));
        padding.push(pair);
    }
    site.output_shape(&wanted, "the input's shape with the padding added")?;
    Ok(Op::Pad { padding, value: site.bits(1)? })
}

pub(super) fn reshape(site: &Site<'_>) -> Result<Op> {
    reshaped(site).map(|_| Op::Reshape)
}

/// RESHAPE; gives the new shape.
pub(super) fn reshaped(site: &Site<'_>) -> Result<Vec<u64>> {
    let (input, output) = (site.input(0), site.output());
    let shape = site.dims(0, output.shape.len())?.1;
    // One number may be open in a graph whose shapes are, and is what is left of the input's elements.
    let open = shape.iter().zip(&output.shape).position(|(&wanted, &found)| (wanted, found) == (-1, UNKNOWN));
    let mut wanted: Vec<u64> = shape.iter().map(|&extent| u64::try_from(extent).unwrap_or(0)).collect();
    if let Some(open) = open {
        wanted[open] = 1;
        let rest = wanted.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
        wanted[open] = rest.and_then(|rest| input.elements().checked_div(rest)).unwrap_or(0);
        site.infer_element(0, open, wanted[open]);
    }
    require!(
        site,
        (0..).zip(&wanted).all(|(dimension, &wanted)| site.has_extent(0, dimension, wanted)),
        "the new shape is {shape:?}, but the output {:?} has {}; they must be equal.",
        output.name,
        show(&output.shape)
    );
    let elements = wanted.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
    require!(
        site,
        elements == Some(input.elements()),
        "the input of shape {} has {} elements and the new shape {wanted:?} has another number.",
        show(&input.shape),
        input.elements()
    );
    Ok(wanted)
}

pub(super) fn reverse(site: &Site<'_>) -> Result<Op> {
    let axis = axis(site)?;
    site.output_like(0)?;
    Ok(Op::Reverse { axis })
}

pub(super) fn slice(site: &Site<'_>) -> Result<Op> {
    let input = site.input(0);
    site.not_scalar(input)?;
    let starts = site.dims(0, input.shape.len())?.1;
    let sizes = site.dims(1, input.shape.len())?.1;
    let mut start = Vec::with_capacity(input.shape.len());
    let mut wanted = Vec::with_capacity(input.shape.len());
    for (dimension, (&extent, (&from, &size))) in input.shape.iter().zip(starts.iter().zip(sizes)).enumerate()
    {
        let extent = i64::from(extent);
        require!(
            site,
            from >= 0,
            "it starts at {from} in dimension {dimension}; the start must be at least 0."
        );
        require!(site, size > 0, "its size in dimension {dimension} is {size}; it must be at least 1.");
        require!(
            site,
            from <= extent && size <= extent - from,
            "it takes {size} elements from {from} on in dimension {dimension}, which has only {extent}."
        );
        start.push(from as u32);
        wanted.push(size as u64);
    }
    site.output_shape(&wanted, "the size operand")?;
    Ok(Op::Slice { start })
}

pub(super) fn tile(site: &Site<'_>) -> Result<Op> {
    let input = site.input(0);
    site.not_scalar(input)?;
    let multiples = site.dims(0, input.shape.len())?.1;
    let mut wanted = Vec::with_capacity(input.shape.len());
    for (&extent, &multiple) in input.shape.iter().zip(multiples) {
        require!(site, multiple > 0, "one of its multiples is {multiple}; each must be at least 1.");
        wanted.push(u64::from(extent).saturating_mul(multiple as u64));
    }
    site.output_shape(&wanted, "the input's shape times the multiples")?;
    Ok(Op::Tile)
}

pub(super) fn transpose(site: &Site<'_>) -> Result<Op> {
    let input = site.input(0);
    site.not_scalar(input)?;
    let rank = input.shape.len();
    let list = site.attribute::<TransposeAttribute<'_>>()?.perms().unwrap_or_default();
    require!(site, list.len() == rank, "its permutation has {} entries where {rank} are needed.", list.len());
    let mut perms: Vec<u32> = Vec::with_capacity(rank);
    for perm in list.iter() {
        let inside = u32::try_from(perm).ok().filter(|&p| (p as usize) < rank);
        let Some(index) = inside.filter(|p| !perms.contains(p)) else {
            require!(
                site,
                inside.is_some(),
                "its permutation names dimension {perm}, outside 0 to {}.",
                rank - 1
            );
            return Err(
                site.refuse(crate::Rule::ErrorIf, format!("its permutation names dimension {perm} twice."))
            );
        };
        perms.push(index);
    }
    let wanted: Vec<u64> = perms.iter().map(|&p| input.shape[p as usize].into()).collect();
    site.output_shape(&wanted, "the permuted shape of the input")?;
    Ok(Op::Transpose { perms })
}

/// `[N, K, C]` of the values, `[N, W]` of the indices, which are the operand number `indices`.
fn indexed(site: &Site<'_>, indices: usize) -> Result<([u64; 3], u64)> {
    let (values, indices) = (site.input(0), site.input(indices));
    site.rank("its values", values, 3)?;
    site.rank("its indices", indices, 2)?;
    let later = site.version() > (1, 0);
    require!(
        site,
        indices.dtype == DType::Int32 || later && indices.dtype == DType::Int64,
        "its indices have the type {} where INT32{} is needed.",
        indices.dtype,
        if later { " or INT64" } else { "" }
    );
    require!(
        site,
        values.shape[0] == indices.shape[0],
        "its values have N = {} and its indices N = {}; they must be equal.",
        values.shape[0],
        indices.shape[0]
    );
    Ok(([values.shape[0].into(), values.shape[1].into(), values.shape[2].into()], indices.shape[1].into()))
}

pub(super) fn gather(site: &Site<'_>) -> Result<Op> {
    let ([n, _, c], w) = indexed(site, 1)?;
    site.output_shape(&[n, w, c], "N of the values, W of the indices, C of the values")?;
    Ok(Op::Gather)
}

/// ROW_GATHER, whose indices are the operand number `indices` and row_count the next; gives row_count.
pub(super) fn row_gather(site: &Site<'_>, indices: usize) -> Result<u32> {
    let ([n, _, c], w) = indexed(site, indices)?;
    if site.input(indices + 1).constant.is_none() {
        let message = "its row_count is computed at run time; the shape of its output depends on it.";
        return Err(site.refuse(crate::Rule::Unsupported, message.to_owned()));
    }
    let run = site.number(indices + 1, false, false)?;
    require!(site, run > 0, "its row_count is {run}; it must be at least 1.");
    site.output_shape(
        &[n, w.saturating_mul(run as u64), c],
        "N and C of the values, W of the indices times row_count",
    )?;
    Ok(run as u32)
}

pub(super) fn scatter(site: &Site<'_>) -> Result<Op> {
    let ([n, k, c], w) = indexed(site, 1)?;
    let input = &site.input(2).shape;
    require!(
        site,
        input.len() == 3 && input.iter().zip([n, w, c]).all(|(&found, wanted)| u64::from(found) == wanted),
        "its input has the shape {} where [{n}, {w}, {c}] is needed.",
        show(input)
    );
    site.output_shape(&[n, k, c], "the shape of the values")?;
    Ok(Op::Scatter)
}
