//! FFT2D and RFFT2D.

use crate::schema::FftAttribute;
use crate::site::{Result, Site, require, show};
use crate::{Op, Tensor, level};

/// All operands and results have rank 3, operands one shape with sides that are powers of two, and results that shape
/// with `width` of the operands' width.
fn transform(site: &Site<'_>, width: impl Fn(u32) -> u32) -> Result<()> {
    for (_, tensor) in site.inputs() {
        site.rank("its input", tensor, 3)?;
    }
    for tensor in site.outputs() {
        site.rank("its output", tensor, 3)?;
    }
    let shape = &site.input(0).shape;
    for (axis, name) in [(1, "height"), (2, "width")] {
        let extent = shape[axis];
        require!(site, extent.is_power_of_two(), "its {name} is {extent}; it must be a power of two.");
        site.limit(&format!("its {name}"), extent.into(), "MAX_KERNEL", level::MAX_KERNEL)?;
    }
    let same = |tensor: &Tensor, wanted: &[u32]| {
        require!(
            site,
            tensor.shape == wanted,
            "{:?} has the shape {} where {} is needed.",
            tensor.name,
            show(&tensor.shape),
            show(wanted)
        );
        Ok(())
    };
    for (_, tensor) in site.inputs() {
        same(tensor, shape)?;
    }
    let wanted = [shape[0], shape[1], width(shape[2])].map(u64::from);
    (0..site.outputs().count())
        .try_for_each(|index| site.result_shape(index, &wanted, "the shape that its input gives"))
}

pub(super) fn fft2d(site: &Site<'_>) -> Result<Op> {
    transform(site, |width| width)?;
    let attribute: FftAttribute<'_> = site.attribute()?;
    Ok(Op::Fft2d { inverse: attribute.inverse().unwrap_or(false) })
}

pub(super) fn rfft2d(site: &Site<'_>) -> Result<Op> {
    transform(site, |width| width / 2 + 1)?;
    Ok(Op::Rfft2d)
}
