//! TRANSPOSE_CONV2D as products: outputs whose coordinates leave the same rest when divided by the stride meet the same taps, so that
//! each rest is a convolution with a stride of one, whose outputs lie apart.

use accel_tosa::{Node, Refusal, TransposeConvAttrs};

use super::axes::{Axis, Spread, Windows};
use super::conv::{conv_types, shapes};
use super::gemm::{Addressing, Product, Size};
use super::window;
use crate::builder::Builder;

/// Most phases, each a launch.
const MOST_PHASES: u32 = 16;

/// What a phase is along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    axis: Axis,
    /// The first output.
    first: u32,
    /// The first tap of the whole kernel; the others follow at the stride.
    tap: u32,
}

impl Phase {
    /// All phases of an axis: output o meets input i at tap `o - pad - i * stride`. `None` where they are too many, or one has no taps.
    fn all(stride: u32, pad: i32, [input, kernel, output]: [u32; 3]) -> Option<Vec<Self>> {
        if stride > MOST_PHASES {
            return None;
        }
        let phase = |first: u32| {
            let at = first as i32 - pad;
            let tap = at.rem_euclid(stride as i32) as u32;
            let axis = Axis {
                input,
                output: (output - first).div_ceil(stride),
                kernel: kernel.checked_sub(tap)?.div_ceil(stride),
                stride: 1,
                dilation: -1,
                pad: -at.div_euclid(stride as i32),
            };
            (axis.kernel > 0).then_some(Self { axis, first, tap })
        };
        (0..stride.min(output)).map(phase).collect()
    }

    fn taps(&self, stride: u32) -> impl Iterator<Item = u32> {
        let first = self.tap;
        (0..self.axis.kernel).map(move |tap| first + tap * stride)
    }
}

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    attrs: &TransposeConvAttrs,
) -> Result<(), Refusal> {
    let [input, weight, output] = shapes(builder, node);
    let (&[images, in_h, in_w, in_c], &[n, kernel_h, kernel_w, _], &[_, out_h, out_w, _]) =
        (input, weight, output)
    else {
        return Err(builder.unsupported("TRANSPOSE_CONV2D takes operands of rank 4"));
    };
    let [step_y, step_x] = attrs.stride;
    let weights = builder.constant(node.inputs[1]).map(<[u8]>::to_vec);
    let rows = Phase::all(step_y, attrs.out_pad[0], [in_h, kernel_h, out_h]);
    let columns = Phase::all(step_x, attrs.out_pad[2], [in_w, kernel_w, out_w]);
    let (Some(weights), Some(rows), Some(columns), true) =
        (weights, rows, columns, step_y * step_x <= MOST_PHASES && !window::is_needed(builder, node))
    else {
        return window::transposed(builder, node, attrs);
    };
    let windows = |y: &Phase, x: &Phase| {
        let spread = Spread { full: [out_h, out_w], step: attrs.stride, first: [y.first, x.first] };
        Windows { axes: [Axis::FLAT, y.axis, x.axis], channels: in_c, spread: Some(spread) }
    };
    let phases: Vec<_> = rows
        .iter()
        .flat_map(|y| columns.iter().map(move |x| (y, x)))
        .map(|(y, x)| (y, x, windows(y, x)))
        .collect();
    if !phases.iter().all(|(.., windows)| windows.are_addressable()) {
        return window::transposed(builder, node, attrs);
    }
    let types = conv_types(builder, node)?;
    let [a, b, bias] = [0, 1, 2].map(|operand| node.inputs[operand]);
    let tap_bytes = in_c as usize * builder.graph.tensor(b).dtype.bytes().unwrap_or(1);
    for (y, x, windows) in &phases {
        // The phase's own taps of each output channel.
        let mut known = Vec::new();
        for row in weights.chunks_exact((kernel_h * kernel_w) as usize * tap_bytes) {
            for ky in y.taps(step_y) {
                for kx in x.taps(step_x) {
                    let at = (ky * kernel_w + kx) as usize * tap_bytes;
                    known.extend_from_slice(&row[at..at + tap_bytes]);
                }
            }
        }
        let size = Size { batches: 1, m: images * windows.outputs(), n, k: windows.taps() as u32 * in_c };
        Product {
            addressing: Addressing::Image(windows),
            types,
            size,
            output: node.outputs[0],
            a,
            b,
            known: Some(known),
            bias: Some(bias),
            zero_points: [attrs.input_zp, attrs.weight_zp],
        }
        .launch_fused(builder, None)?;
    }
    Ok(())
}
