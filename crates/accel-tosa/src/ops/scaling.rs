//! RESCALE and RESIZE.

use super::convolution::{extent, kept};
use crate::schema::{ModeAttribute, RescaleAttribute};
use crate::site::{Result, Site, require, show};
use crate::{DType, Op, RescaleAttrs, ResizeAttrs, ResizeMode, Rounding, Rule, level};

/// RESIZE's images have fewer than this many rows and columns.
const MAX_RESIZE_EXTENT: i64 = 16384;

pub(super) fn resize(site: &Site<'_>) -> Result<Op> {
    let (input, output) = (site.input(0), site.output());
    site.rank("its input", input, 4)?;
    site.rank("its output", output, 4)?;
    let mode = match site.attribute::<ModeAttribute<'_>>()?.mode().unwrap_or(0) {
        1 => ResizeMode::Nearest,
        2 => ResizeMode::Bilinear,
        other => {
            let message = format!("its mode is {other} where 1 (NEAREST) or 2 (BILINEAR) is needed.");
            return Err(site.refuse(Rule::ErrorIf, message));
        }
    };
    let widens = input.dtype != output.dtype;
    require!(
        site,
        input.dtype.is_float() || widens == (mode == ResizeMode::Bilinear),
        "it makes {} from {} in {mode:?} mode; integers keep their type in NEAREST mode and widen in BILINEAR mode, and \
         block-scaled types have no BILINEAR mode.",
        output.dtype,
        input.dtype
    );
    let scale = small(site, 0, 4)?;
    let offset = small(site, 1, 2)?;
    let border = small(site, 2, 2)?;
    for (axis, name) in [(0, "height"), (1, "width")] {
        let from = input.shape[axis + 1];
        let small_enough = |extent: i64| {
            require!(
                site,
                extent < MAX_RESIZE_EXTENT,
                "its {name} is {extent}; it must be below {MAX_RESIZE_EXTENT}."
            );
            Ok(())
        };
        small_enough(from.into())?;
        small_enough(output.shape[axis + 1].into())?;
        let (n, d, offset, border) = (scale[2 * axis], scale[2 * axis + 1], offset[axis], border[axis]);
        require!(site, n > 0 && d > 0, "its {name} scale is {n}/{d}; both numbers must be at least 1.");
        require!(site, n <= 1 << 11, "its {name} scale is {n}/{d}; the numerator may be at most 2048.");
        require!(site, d < 16 * n, "its {name} scale is {n}/{d}; the denominator must be below {}.", 16 * n);
        require!(
            site,
            -n <= offset && offset < 16 * n,
            "its {name} offset is {offset}; it must be at least {} and below {}.",
            -n,
            16 * n
        );
        require!(
            site,
            -16 * n <= border && border < n,
            "its {name} border is {border}; it must be at least {} and below {n}.",
            -16 * n
        );
        if n / d > level::MAX_SCALE {
            return Err(site.refuse(
                Rule::Level,
                format!(
                    "its {name} scale is {n}/{d}, above the {} of MAX_SCALE in level 8K.",
                    level::MAX_SCALE
                ),
            ));
        }
        let span = (i64::from(from) - 1) * n - offset + border;
        let sum = || format!("({from} - 1) x {n} - {offset} + {border}");
        small_enough(extent(site, name, (span, sum), d, axis + 1)?)?;
    }
    for (axis, name) in [(0, "batch size"), (3, "number of channels")] {
        kept(site, name, ("input", input.shape[axis]), axis)?;
    }
    let pair = |values: &[i64]| [values[0] as i32, values[1] as i32];
    Ok(Op::Resize(ResizeAttrs {
        mode,
        scale: [scale[0] as i32, scale[1] as i32, scale[2] as i32, scale[3] as i32],
        offset: pair(offset),
        border: pair(border),
    }))
}

/// A shape operand whose elements fit 32 bits, so that the sums made of them cannot overflow.
fn small<'a>(site: &Site<'a>, index: usize, length: usize) -> Result<&'a [i64]> {
    let (name, values) = site.dims(index, length)?;
    for &value in values {
        require!(site, i32::try_from(value).is_ok(), "its {name} holds {value}, which does not fit 32 bits.");
    }
    Ok(values)
}

pub(super) fn rescale(site: &Site<'_>) -> Result<Op> {
    let attribute: RescaleAttribute<'_> = site.attribute()?;
    let (input, output) = (site.input(0), site.output());
    let scale32 = attribute.scale32().unwrap_or(false);
    let per_channel = attribute.per_channel().unwrap_or(false);
    let input_unsigned = attribute.input_unsigned().unwrap_or(false);
    let output_unsigned = attribute.output_unsigned().unwrap_or(false);
    let rounding = match attribute.rounding().unwrap_or(0) {
        1 => Rounding::Single,
        2 => Rounding::Inexact,
        3 => Rounding::Double,
        other => {
            let message =
                format!("its rounding mode is {other}; 1 to 3 are SINGLE, INEXACT and DOUBLE_ROUND.");
            return Err(site.refuse(Rule::ErrorIf, message));
        }
    };
    require!(
        site,
        scale32 || rounding != Rounding::Double,
        "DOUBLE_ROUND needs 32-bit multipliers (scale32)."
    );
    require!(
        site,
        !scale32 || input.dtype != DType::Int48,
        "an INT48 input needs 16-bit multipliers, not scale32."
    );
    require!(
        site,
        !(input_unsigned && output_unsigned),
        "its input and output are both unsigned; only one may be."
    );
    for dtype in [input.dtype, output.dtype] {
        require!(
            site,
            !(input_unsigned || output_unsigned) || matches!(dtype, DType::Int8 | DType::Int16),
            "it is unsigned on one side while its types are {} and {}; then both must be INT8 or INT16.",
            input.dtype,
            output.dtype
        );
    }
    site.output_like(0)?;
    multipliers(site, scale32, per_channel)?;
    Ok(Op::Rescale(RescaleAttrs {
        scale32,
        rounding,
        per_channel,
        input_unsigned,
        output_unsigned,
        input_zp: zero_point(site, 3, input_unsigned)?,
        output_zp: zero_point(site, 4, output_unsigned)?,
    }))
}

/// A zero point of RESCALE: free for 8 bits, 0 or 32768 for unsigned 16 bits, otherwise 0.
fn zero_point(site: &Site<'_>, index: usize, unsigned: bool) -> Result<i32> {
    let dtype = site.input(index).dtype;
    let value = site.number(index, unsigned, dtype != DType::Int8 && !unsigned)?;
    let name = site.input_name(index);
    match dtype {
        DType::Int8 => {}
        DType::Int16 if unsigned => {
            require!(
                site,
                value == 0 || value == 32768,
                "{name} is {value}; for unsigned 16 bits it is 0 or 32768."
            );
        }
        _ => require!(site, value == 0, "{name} is {value}; for signed {dtype} it must be 0."),
    }
    Ok(value as i32)
}

/// The multipliers and shifts: their shape, type and range.
fn multipliers(site: &Site<'_>, scale32: bool, per_channel: bool) -> Result<()> {
    let channels = if per_channel {
        site.not_scalar(site.input(0))?;
        site.input(0).shape.last().copied().unwrap_or(1)
    } else {
        1
    };
    for index in [1, 2] {
        let tensor = site.input(index);
        require!(
            site,
            tensor.shape == [channels],
            "its {} {:?} has the shape {} where [{channels}] is needed.",
            site.input_name(index),
            tensor.name,
            show(&tensor.shape)
        );
    }
    let wanted = if scale32 { DType::Int32 } else { DType::Int16 };
    let multiplier = site.input(1);
    require!(
        site,
        multiplier.dtype == wanted,
        "its multiplier {:?} has the type {} where {wanted} is needed.",
        multiplier.name,
        multiplier.dtype
    );
    in_range(site, 1, "each must be at least 0", |multiplier| multiplier >= 0)?;
    in_range(site, 2, "each must be 2 to 62", |shift| (2..=62).contains(&shift))
}

/// Whether every element of a constant integer operand is in range, once for each constant.
fn in_range(site: &Site<'_>, index: usize, rule: &str, fits: impl Fn(i32) -> bool) -> Result<()> {
    if !site.values.checked.borrow_mut().insert(site.tensors[index]) {
        return Ok(());
    }
    let bytes = site.constant(index);
    let wrong = match site.input(index).dtype {
        DType::Int8 => bytes.iter().map(|&byte| i32::from(byte as i8)).find(|&element| !fits(element)),
        DType::Int16 => {
            let elements = bytes.as_chunks().0.iter().map(|&element| i32::from(i16::from_le_bytes(element)));
            elements.into_iter().find(|&element| !fits(element))
        }
        _ => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&element| i32::from_le_bytes(element))
            .find(|&element| !fits(element)),
    };
    match wrong {
        None => Ok(()),
        Some(element) => {
            let name = site.input_name(index);
            Err(site.refuse(Rule::ErrorIf, format!("one element of its {name} is {element}; {rule}.")))
        }
    }
}
