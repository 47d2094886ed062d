//! DEPTHWISE_CONV2D.

use accel_tosa::{ConvAttrs, Node, Refusal};

use super::conv::{conv_types, packed};
use crate::builder::{Builder, Launch};
use crate::epilogue::Epilogue;
use crate::{DeviceCaps, DeviceKind};

/// Columns of the input that an invocation of `depthwise.comp` holds at most.
const LARGEST_SPAN: u32 = 16;
/// Vectors of channels of a workgroup, which make whole cache lines.
const ACROSS: u32 = 8;
/// Rows of a workgroup's tile on GPUs.
const ROWS: u32 = 8;
/// Invocations that fill a large GPU.
const FILL: u64 = 132 * 512;

/// How a workgroup of `depthwise.comp` divides its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    /// Vectors of channels.
    across: u32,
    /// Runs of pixels along x, and rows.
    tile: [u32; 2],
    /// Pixels of an invocation.
    pixels: u32,
    /// Taps of a row that are multiplied at once.
    taps: u32,
    /// Along x.
    stride: u32,
    /// Along x, or 1 where taps are taken one by one.
    dilation: u32,
    /// Channels are whole vectors, and those of the output the input's.
    whole: bool,
}

impl Geometry {
    fn span(&self) -> u32 {
        (self.pixels - 1) * self.stride + (self.taps - 1) * self.dilation + 1
    }

    fn lanes(&self) -> u32 {
        self.across * self.tile[0] * self.tile[1]
    }

    /// Chooses for outputs of `[images, height, width, vectors of channels]`. Windows whose columns do not fit the registers are
    /// multiplied tap by tap, and channels that are no whole vectors for one pixel.
    fn choose(
        caps: &DeviceCaps,
        output: [u32; 4],
        whole: bool,
        [kernel, stride, dilation]: [u32; 3],
    ) -> Self {
        let [images, height, width, vectors] = output;
        let across = vectors.div_ceil(vectors.div_ceil(ACROSS));
        let least = Self { across, tile: [1, 1], pixels: 1, taps: kernel, stride, dilation, whole };
        let narrow = if whole && least.span() <= LARGEST_SPAN / 2 {
            least
        } else {
            Self { taps: 1, dilation: 1, ..least }
        };
        let invocations = |pixels: u32| {
            u64::from(images) * u64::from(height) * u64::from(width.div_ceil(pixels)) * u64::from(vectors)
        };
        let most = if whole { caps.tuning.or("depthwise.pixels", 4) } else { 1 };
        let mut fitting = [8, 4, 2, 1]
            .map(|pixels| Self { pixels, ..narrow })
            .into_iter()
            .filter(|g| g.pixels <= most && g.span() <= LARGEST_SPAN && (g.pixels == 1 || g.pixels <= width));
        let fills = |g: &Self| caps.kind == DeviceKind::Cpu || invocations(g.pixels) >= FILL;
        let chosen = fitting.clone().find(fills).or_else(|| fitting.next_back()).unwrap_or(narrow);
        let rows =
            if caps.kind == DeviceKind::Cpu { 1 } else { caps.tuning.or("depthwise.rows", ROWS).min(height) };
        let lanes = caps.tuning.or("depthwise.lanes", caps.stream_lanes());
        let runs = (lanes / (across * rows)).clamp(1, width.div_ceil(chosen.pixels));
        Self { tile: [runs, rows], ..chosen }
    }
}

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &ConvAttrs,
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let (input, weight, bias, output) = (node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]);
    let graph = builder.graph;
    let suffix = conv_types(builder, node)?;
    let (&[images, in_h, in_w, in_c], &[kernel_h, kernel_w, ..], &[_, out_h, out_w, out_c]) = (
        graph.tensor(input).shape.as_slice(),
        graph.tensor(weight).shape.as_slice(),
        graph.tensor(output).shape.as_slice(),
    ) else {
        return Err(builder.unsupported("DEPTHWISE_CONV2D takes operands of rank 4"));
    };
    let channels = 16 / graph.tensor(input).dtype.bytes().unwrap_or(4) as u32;
    let vectors = out_c.div_ceil(channels);
    let whole = in_c == out_c && in_c.is_multiple_of(channels);
    let [stride, dilation] = [attrs.stride[1], attrs.dilation[1]];
    let geometry =
        Geometry::choose(builder.caps, [images, out_h, out_w, vectors], whole, [kernel_w, stride, dilation]);
    let Geometry { across, tile, pixels, taps, stride, dilation, whole } = geometry;
    let target = builder.tensor(epilogue.map_or(output, |e| e.output));
    let operands = [builder.tensor(input), builder.tensor(weight), builder.tensor(bias)];
    let reads = epilogue.map_or(operands.to_vec(), |e| e.reads(builder, &operands));
    let variant = match epilogue {
        Some(_) => "_fused",
        None if suffix == "f16" && builder.caps.exact_half => "_half",
        None => "",
    };
    let numbers = [geometry.lanes(), across, tile[0], pixels, taps, stride, dilation, u32::from(whole)];
    let mut constants: Vec<(u32, u32)> = (0..).zip(numbers).collect();
    constants.extend(epilogue.map_or(&[][..], |e| &e.constants));
    let groups = u64::from(vectors.div_ceil(across))
        * u64::from(out_w.div_ceil(tile[0] * pixels))
        * u64::from(out_h.div_ceil(tile[1]))
        * u64::from(images);
    builder.launch(&Launch {
        module: &format!("depthwise.{suffix}{variant}"),
        constants: &constants,
        writes: &[target],
        reads: &reads,
        params: &[
            images,
            in_h,
            in_w,
            in_c,
            out_h,
            out_w,
            out_c,
            kernel_h,
            kernel_w,
            packed(attrs.stride),
            packed(attrs.dilation),
            packed([attrs.pad[0], attrs.pad[2]]),
            u32::from(graph.tensor(bias).elements() > 1),
            attrs.input_zp as u32,
            attrs.weight_zp as u32,
        ],
        groups,
        detail: &format!(
            "{}{kernel_h}x{kernel_w} on {out_h}x{out_w}x{out_c}, {}x{} of {pixels} pixels",
            epilogue.map_or(String::new(), Epilogue::label),
            tile[1],
            tile[0]
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_the_registers_and_workgroups_the_device() {
        for kind in [DeviceKind::Cpu, DeviceKind::Discrete] {
            let caps = DeviceCaps { kind, ..DeviceCaps::baseline() };
            for (kernel, stride, dilation) in
                [(1, 1, 1), (3, 1, 1), (3, 2, 1), (7, 2, 1), (3, 1, 3), (3, 1, 40), (500, 3, 7), (2, 8000, 1)]
            {
                for output in [[1, 1, 1, 1], [1, 7, 7, 120], [32, 112, 112, 12], [1, 1, 9000, 1]] {
                    let whole = output[3] > 1;
                    let chosen = Geometry::choose(&caps, output, whole, [kernel, stride, dilation]);
                    assert!(chosen.span() <= LARGEST_SPAN, "{chosen:?}");
                    assert!(chosen.taps == kernel || (chosen.taps, chosen.dilation) == (1, 1), "{chosen:?}");
                    assert!((1..=caps.max_workgroup_invocations).contains(&chosen.lanes()), "{chosen:?}");
                }
            }
        }
    }
}
