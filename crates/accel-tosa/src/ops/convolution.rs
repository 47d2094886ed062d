//! Convolutions, pools and MATMUL.

use super::blocks::{block_size, scales_fit};
use crate::schema::{ConvAttribute, ModeAttribute, PoolAttribute, TransposeConvAttribute};
use crate::site::{Result, Site, require, show};
use crate::{BLOCK, Conv3dAttrs, ConvAttrs, DType, Op, PoolAttrs, Tensor, TransposeConvAttrs, level};

/// A spatial extent of the output, which is returned: `span` must be a multiple of `step` and the output, in `dimension`,
/// one more than the quotient. `sum` says in numbers where the span comes from.
pub(super) fn extent(
    site: &Site<'_>,
    name: &str,
    (span, sum): (i64, impl Fn() -> String),
    step: i64,
    dimension: usize,
) -> Result<i64> {
    require!(
        site,
        span >= 0 && span % step == 0,
        "its {name} does not come out even: {} = {span} must be 0 or more and a multiple of {step}.",
        sum()
    );
    let wanted = span / step + 1;
    require!(
        site,
        site.has_extent(0, dimension, wanted as u64),
        "the output's {name} is {} where ({}) / {step} + 1 = {wanted} is needed.",
        site.output().shape[dimension],
        sum()
    );
    Ok(wanted)
}

/// Values that must be at least `least` and fit the level.
fn at_least<const N: usize>(
    site: &Site<'_>,
    what: &str,
    values: [i64; N],
    least: i64,
    (name, limit): (&str, i64),
) -> Result<[u32; N]> {
    for value in values {
        require!(site, value >= least, "its {what} is {value}; it must be at least {least}.");
        site.limit(&format!("its {what}"), value, name, limit)?;
    }
    Ok(values.map(|value| value as u32))
}

const KERNEL: (&str, i64) = ("MAX_KERNEL", level::MAX_KERNEL);
const STRIDE: (&str, i64) = ("MAX_STRIDE", level::MAX_STRIDE);

fn equal(site: &Site<'_>, what: &str, a: (&str, u32), b: (&str, u32)) -> Result<()> {
    require!(
        site,
        a.1 == b.1,
        "the {what} is {} in its {} and {} in its {}; they must be equal.",
        a.1,
        a.0,
        b.1,
        b.0
    );
    Ok(())
}

/// The output has the same extent in `dimension` as what is named.
pub(super) fn kept(site: &Site<'_>, what: &str, (name, extent): (&str, u32), dimension: usize) -> Result<()> {
    require!(
        site,
        site.has_extent(0, dimension, extent.into()),
        "the {what} is {extent} in its {name} and {} in its output; they must be equal.",
        site.output().shape[dimension]
    );
    Ok(())
}

/// The names of `N` spatial dimensions.
fn axes<const N: usize>() -> impl Iterator<Item = (usize, &'static str)> {
    ["depth", "height", "width"][3 - N..].iter().copied().enumerate()
}

/// Padding (`P` is twice `N`), stride and dilation over `N` spatial dimensions.
type Window<T, const N: usize, const P: usize> = ([T; P], [T; N], [T; N]);

/// The window of a convolution's attributes.
fn attributes<const N: usize, const P: usize>(site: &Site<'_>) -> Result<Window<i64, N, P>> {
    let attribute: ConvAttribute<'_> = site.attribute()?;
    Ok((
        site.ints("padding", attribute.pad())?,
        site.ints("stride", attribute.stride())?,
        site.ints("dilation", attribute.dilation())?,
    ))
}

/// A window against the kernel and the output.
fn window<const N: usize, const P: usize>(
    site: &Site<'_>,
    kernel: [u32; N],
    (pad, stride, dilation): Window<i64, N, P>,
) -> Result<Window<u32, N, P>> {
    let input = site.input(0);
    let pad = at_least(site, "padding", pad, 0, KERNEL)?;
    let stride = at_least(site, "stride", stride, 1, STRIDE)?;
    let dilation = at_least(site, "dilation", dilation, 1, KERNEL)?;
    for (axis, name) in axes::<N>() {
        let (kernel, dilation) = (i64::from(kernel[axis]), i64::from(dilation[axis]));
        site.limit(&format!("its dilated kernel {name}"), kernel * dilation, KERNEL.0, KERNEL.1)?;
        let (input, before, after) = (input.shape[axis + 1], pad[2 * axis], pad[2 * axis + 1]);
        let span = i64::from(input) - 1 + i64::from(before) + i64::from(after) - (kernel - 1) * dilation;
        let sum = || format!("{input} - 1 + padding {before} + {after} - (kernel {kernel} - 1) x {dilation}");
        extent(site, name, (span, sum), i64::from(stride[axis]), axis + 1)?;
    }
    Ok((pad, stride, dilation))
}

/// What all convolutions share: batch, channels and bias, which is the operand number `bias`.
fn channels_fit(site: &Site<'_>, channels: u32, bias: usize) -> Result<()> {
    let output = site.output();
    kept(site, "batch size", ("input", site.input(0).shape[0]), 0)?;
    kept(site, "number of output channels", ("weight", channels), output.shape.len() - 1)?;
    let bias = &site.input(bias).shape;
    require!(
        site,
        *bias == [1] || *bias == [channels],
        "its bias has the shape {} where [1] or [{channels}] is needed.",
        show(bias)
    );
    Ok(())
}

/// The same, then the accumulator's type and the zero points of input and weight.
fn common(site: &Site<'_>, channels: u32) -> Result<(DType, [i32; 2])> {
    channels_fit(site, channels, 2)?;
    let acc_type = super::accumulator(site)?.unwrap_or(site.output().dtype);
    Ok((acc_type, [site.zero_point(3)?, site.zero_point(4)?]))
}

/// What CONV2D and DEPTHWISE_CONV2D share; `kernel` is `[KH, KW]`.
fn convolution(site: &Site<'_>, kernel: [u32; 2], channels: u32) -> Result<ConvAttrs> {
    let (pad, stride, dilation) = window(site, kernel, attributes(site)?)?;
    let (acc_type, [input_zp, weight_zp]) = common(site, channels)?;
    Ok(ConvAttrs { pad, stride, dilation, acc_type, input_zp, weight_zp })
}

/// The input; it and the output have rank 4.
fn image<'a>(site: &Site<'a>) -> Result<&'a Tensor> {
    site.rank("its input", site.input(0), 4)?;
    site.rank("its output", site.output(), 4)?;
    Ok(site.input(0))
}

/// The dimensions of the weight, which all have rank `N`.
fn weight<const N: usize>(site: &Site<'_>) -> Result<[u32; N]> {
    weight_at(site, 1)
}

/// The same where the weight is the operand number `index`.
fn weight_at<const N: usize>(site: &Site<'_>, index: usize) -> Result<[u32; N]> {
    let weight = site.input(index);
    site.rank("its weight", weight, N)?;
    let mut dims = [1; N];
    dims.copy_from_slice(&weight.shape);
    Ok(dims)
}

pub(super) fn conv2d(site: &Site<'_>) -> Result<Op> {
    let input = image(site)?;
    let [channels, height, width, depth] = weight(site)?;
    equal(site, "number of input channels", ("input", input.shape[3]), ("weight", depth))?;
    convolution(site, [height, width], channels).map(Op::Conv2d)
}

pub(super) fn conv2d_block_scaled(site: &Site<'_>) -> Result<Op> {
    block_size(site, BLOCK)?;
    let input = image(site)?;
    let [channels, height, width, depth] = weight_at(site, 2)?;
    equal(site, "number of input channels", ("input", input.shape[3]), ("weight", depth))?;
    scales_fit(site, 0)?;
    scales_fit(site, 2)?;
    let shapes = (site.numbers(0)?, site.numbers(1)?, site.numbers(2)?);
    let (pad, stride, dilation) = window(site, [height, width], shapes)?;
    channels_fit(site, channels, 4)?;
    let acc_type = DType::Fp32;
    Ok(Op::Conv2dBlockScaled(ConvAttrs { pad, stride, dilation, acc_type, input_zp: 0, weight_zp: 0 }))
}

pub(super) fn conv3d(site: &Site<'_>) -> Result<Op> {
    site.rank("its input", site.input(0), 5)?;
    site.rank("its output", site.output(), 5)?;
    let [channels, depth, height, width, inner] = weight(site)?;
    equal(site, "number of input channels", ("input", site.input(0).shape[4]), ("weight", inner))?;
    let (pad, stride, dilation) = window(site, [depth, height, width], attributes(site)?)?;
    let (acc_type, [input_zp, weight_zp]) = common(site, channels)?;
    Ok(Op::Conv3d(Conv3dAttrs { pad, stride, dilation, acc_type, input_zp, weight_zp }))
}

pub(super) fn depthwise_conv2d(site: &Site<'_>) -> Result<Op> {
    let input = image(site)?;
    let [height, width, depth, multiplier] = weight(site)?;
    equal(site, "number of input channels", ("input", input.shape[3]), ("weight", depth))?;
    // A weight has fewer than 2^31 elements, so the product fits.
    convolution(site, [height, width], depth.saturating_mul(multiplier)).map(Op::DepthwiseConv2d)
}

pub(super) fn transpose_conv2d(site: &Site<'_>) -> Result<Op> {
    let input = image(site)?;
    let [channels, height, width, depth] = weight(site)?;
    equal(site, "number of input channels", ("input", input.shape[3]), ("weight", depth))?;
    let attribute: TransposeConvAttribute<'_> = site.attribute()?;
    let out_pad: [i64; 4] = site.ints("output padding", attribute.out_pad())?;
    let stride = at_least(site, "stride", site.ints("stride", attribute.stride())?, 1, STRIDE)?;
    for (axis, name) in axes::<2>() {
        let kernel = i64::from([height, width][axis]);
        site.limit(&format!("its kernel {name}"), kernel, KERNEL.0, KERNEL.1)?;
        let [before, after] = [out_pad[2 * axis], out_pad[2 * axis + 1]];
        for side in [before, after] {
            site.limit("its output padding", side, KERNEL.0, KERNEL.1)?;
            require!(
                site,
                side > -kernel,
                "its output padding of {side} cuts off its whole kernel {name} of {kernel}."
            );
        }
    }
    for (axis, name) in axes::<2>() {
        let kernel = i64::from([height, width][axis]);
        let [before, after] = [out_pad[2 * axis], out_pad[2 * axis + 1]];
        let (input, stride) = (i64::from(input.shape[axis + 1]), i64::from(stride[axis]));
        let wanted = (input - 1) * stride + before + after + kernel;
        require!(
            site,
            site.has_extent(0, axis + 1, wanted.max(0) as u64),
            "the output's {name} is {} where ({input} - 1) x {stride} + padding {before} + {after} + kernel {kernel} = \
             {wanted} is needed.",
            site.output().shape[axis + 1]
        );
    }
    let (acc_type, [input_zp, weight_zp]) = common(site, channels)?;
    let out_pad = out_pad.map(|side| side as i32);
    Ok(Op::TransposeConv2d(TransposeConvAttrs { out_pad, stride, acc_type, input_zp, weight_zp }))
}

/// The kernel, stride and padding of a pool, from its attributes.
fn window_of(site: &Site<'_>, attribute: PoolAttribute<'_>) -> Result<([i64; 2], [i64; 2], [i64; 4])> {
    Ok((
        site.ints("kernel", attribute.kernel())?,
        site.ints("stride", attribute.stride())?,
        site.ints("padding", attribute.pad())?,
    ))
}

/// The same of an adaptive pool, which has shape operands in their place.
fn adaptive(site: &Site<'_>) -> Result<([i64; 2], [i64; 2], [i64; 4])> {
    Ok((site.numbers(0)?, site.numbers(1)?, site.numbers(2)?))
}

fn pool(site: &Site<'_>, (kernel, stride, pad): ([i64; 2], [i64; 2], [i64; 4])) -> Result<PoolAttrs> {
    let input = image(site)?;
    let kernel = at_least(site, "kernel", kernel, 1, KERNEL)?;
    let stride = at_least(site, "stride", stride, 1, STRIDE)?;
    let pad = at_least(site, "padding", pad, 0, KERNEL)?;
    for (axis, name) in [(0, "height"), (1, "width")] {
        for side in [pad[2 * axis], pad[2 * axis + 1]] {
            require!(
                site,
                side < kernel[axis],
                "its padding of {side} is not below its kernel {name} of {}; a window would hold nothing.",
                kernel[axis]
            );
        }
    }
    kept(site, "batch size", ("input", input.shape[0]), 0)?;
    kept(site, "number of channels", ("input", input.shape[3]), 3)?;
    for (axis, name) in [(0, "height"), (1, "width")] {
        let [before, after] = [pad[2 * axis], pad[2 * axis + 1]];
        let (kernel, input) = (kernel[axis], input.shape[axis + 1]);
        let span = i64::from(input) + i64::from(before) + i64::from(after) - i64::from(kernel);
        let sum = || format!("{input} + padding {before} + {after} - kernel {kernel}");
        extent(site, name, (span, sum), stride[axis].into(), axis + 1)?;
    }
    Ok(PoolAttrs { kernel, stride, pad })
}

pub(super) fn avg_pool2d(site: &Site<'_>) -> Result<Op> {
    average(site, window_of(site, site.attribute()?)?)
}

pub(super) fn avg_pool2d_adaptive(site: &Site<'_>) -> Result<Op> {
    average(site, adaptive(site)?)
}

fn average(site: &Site<'_>, window: ([i64; 2], [i64; 2], [i64; 4])) -> Result<Op> {
    let pool = pool(site, window)?;
    let acc_type = super::accumulator(site)?.unwrap_or(DType::Fp32);
    Ok(Op::AvgPool2d { pool, acc_type, input_zp: site.zero_point(1)?, output_zp: site.zero_point(2)? })
}

pub(super) fn max_pool2d(site: &Site<'_>) -> Result<Op> {
    let attribute: PoolAttribute<'_> = site.attribute()?;
    let pool = pool(site, window_of(site, attribute)?)?;
    Ok(Op::MaxPool2d { pool, nan_mode: site.nan_mode(attribute.last())? })
}

pub(super) fn max_pool2d_adaptive(site: &Site<'_>) -> Result<Op> {
    let attribute: ModeAttribute<'_> = site.attribute()?;
    Ok(Op::MaxPool2d { pool: pool(site, adaptive(site)?)?, nan_mode: site.nan_mode(attribute.mode())? })
}

pub(super) fn matmul_t(site: &Site<'_>) -> Result<Op> {
    transposed(site, 1)?;
    Ok(Op::MatMulT { a_zp: site.zero_point(2)?, b_zp: site.zero_point(3)? })
}

pub(super) fn matmul_t_block_scaled(site: &Site<'_>) -> Result<Op> {
    block_size(site, BLOCK)?;
    transposed(site, 2)?;
    scales_fit(site, 0)?;
    scales_fit(site, 2)?;
    Ok(Op::MatMulTBlockScaled)
}

/// The shapes of A, of B, which is the operand number `second`, and of the output.
fn transposed(site: &Site<'_>, second: usize) -> Result<()> {
    let (a, b) = matrices(site, second)?;
    require!(
        site,
        b.shape[0] == a.shape[0] || b.shape[0] == 1,
        "the batch size of B is {} where that of A, {}, or 1 is needed.",
        b.shape[0],
        a.shape[0]
    );
    equal(site, "inner dimension C", ("A", a.shape[2]), ("B", b.shape[2]))?;
    let wanted = [a.shape[0], a.shape[1], b.shape[1]].map(u64::from);
    site.output_shape(&wanted, "N and H of A, W of B")
}

fn matrices<'a>(site: &Site<'a>, second: usize) -> Result<(&'a Tensor, &'a Tensor)> {
    let (a, b) = (site.input(0), site.input(second));
    site.rank("A", a, 3)?;
    site.rank("B", b, 3)?;
    Ok((a, b))
}

pub(super) fn matmul(site: &Site<'_>) -> Result<Op> {
    let (a, b) = matrices(site, 1)?;
    equal(site, "batch size N", ("A", a.shape[0]), ("B", b.shape[0]))?;
    equal(site, "inner dimension C", ("A", a.shape[2]), ("B", b.shape[1]))?;
    let wanted = [a.shape[0], a.shape[1], b.shape[2]].map(u64::from);
    site.output_shape(&wanted, "N and H of A, W of B")?;
    Ok(Op::MatMul { a_zp: site.zero_point(2)?, b_zp: site.zero_point(3)? })
}
