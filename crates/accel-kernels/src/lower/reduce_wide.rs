//! REDUCE_* and ARGMAX on GPUs, 16 bytes an invocation at a time. A long axis is cut into parts, which a second launch adds.

use accel_tosa::Refusal;

use super::reduce::View;
use crate::builder::{Builder, Launch, Value};
use crate::stage::{Code, Element};
use crate::{DeviceCaps, DeviceKind};

/// Invocations of a workgroup.
const LANES: u32 = 256;
/// Bytes that an invocation loads at once.
const LOAD: u32 = 16;

/// What is reduced.
pub(crate) struct Reduction {
    /// Suffix of the kernels' names: `reduce` or `argmax`.
    pub kind: &'static str,
    /// The stage that combines two elements; for ARGMAX whether NaN is the greatest.
    pub code: u32,
    /// Neutral element in register form.
    pub identity: u32,
    pub input: Element,
    pub output: Element,
}

/// How a view is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Invocations that share a row, or that lie along the columns.
    lanes_n: u32,
    /// Loads in flight.
    loads: u32,
    /// Elements of the axis in a part.
    chunk: u32,
    chunks: u32,
    /// Workgroups of a part.
    blocks: u64,
}

impl Shape {
    /// `None` where the simple kernel is to take it.
    fn choose(caps: &DeviceCaps, view: &View, input: Element) -> Option<Self> {
        let vector = LOAD / input.bytes();
        let gpu = caps.tuning.or("reduce", u32::from(caps.kind != DeviceKind::Cpu)) != 0;
        if !gpu || caps.max_workgroup_invocations < LANES || view.outer > u64::from(u32::MAX) {
            return None;
        }
        let loads = caps.tuning.or("reduce.loads", if view.inner == 1 { 4 } else { 8 });
        let (lanes_n, blocks, round) = if view.inner == 1 {
            if view.axis < 2 * vector {
                return None;
            }
            let lanes_n = caps.tuning.or("reduce.lanes_row", LANES);
            let lanes_n = (view.axis / vector).next_power_of_two().min(lanes_n);
            (lanes_n, view.outer.div_ceil(u64::from(LANES / lanes_n)), lanes_n * vector)
        } else {
            if !view.inner.is_multiple_of(vector) {
                return None;
            }
            let lanes_n = caps.tuning.or("reduce.lanes_n", 16);
            let lanes_n = (view.inner / vector).next_power_of_two().min(lanes_n);
            let blocks = u64::from((view.inner / vector).div_ceil(lanes_n));
            (lanes_n, view.outer * blocks, LANES / lanes_n)
        };
        let fill =
            caps.tuning.or("reduce.groups", if caps.kind == DeviceKind::Discrete { 2112 } else { 256 });
        let round = round * loads;
        let wanted = u64::from(fill).div_ceil(blocks).min(u64::from(view.axis.div_ceil(round))) as u32;
        let chunk = view.axis.div_ceil(wanted).next_multiple_of(round);
        Some(Self { lanes_n, loads, chunk, chunks: view.axis.div_ceil(chunk), blocks })
    }
}

impl Reduction {
    /// Whether the device compares two elements of these types at once, exactly.
    fn goes_in_pairs(&self, caps: &DeviceCaps) -> bool {
        const FLOATS: [Code; 4] = [Code::MaxF, Code::MaxFIgnore, Code::MinF, Code::MinFIgnore];
        const INTEGERS: [Code; 2] = [Code::MaxI, Code::MinI];
        let is = |codes: &[Code]| codes.iter().any(|&code| code as u32 == self.code);
        self.kind == "reduce"
            && caps.exact_half
            && caps.tuning.or("reduce.packed", 1) != 0
            && match self.input {
                Element::F16 => is(&FLOATS),
                Element::I8 => is(&INTEGERS),
                _ => false,
            }
    }

    /// Launches the kernels; gives whether there are some for this view.
    pub fn launch(
        &self,
        builder: &mut Builder<'_>,
        view: &View,
        read: Value,
        write: Value,
    ) -> Result<bool, Refusal> {
        let Some(shape) = Shape::choose(builder.caps, view, self.input) else { return Ok(false) };
        let Shape { lanes_n, loads, chunk, chunks, blocks } = shape;
        let View { outer, axis, inner } = *view;
        // An ARGMAX keeps the greatest element and its place.
        let words = if self.kind == "argmax" { 2 } else { 1 };
        let target =
            if chunks == 1 { write } else { builder.scratch(view.outputs() * u64::from(chunks) * 4 * words) };
        let axis_lies = if inner == 1 { "rows" } else { "columns" };
        let constants = |lanes_n: u32, loads: u32| {
            let quads = 4 / self.input.bytes();
            [LANES, lanes_n, loads, self.input as u32, self.output as u32, self.code, quads]
        };
        let kind = if self.goes_in_pairs(builder.caps) { "packed" } else { self.kind };
        builder.launch(&Launch {
            module: &format!("reduce_{axis_lies}.{kind}"),
            constants: &(0..).zip(constants(lanes_n, loads)).collect::<Vec<_>>(),
            writes: &[target],
            reads: &[read],
            params: &[outer as u32, axis, inner, chunk, chunks, self.identity],
            groups: blocks * u64::from(chunks),
            detail: &format!("{outer}x{axis}x{inner}, {lanes_n} lanes in {chunks}"),
        })?;
        if chunks == 1 {
            return Ok(true);
        }
        let outputs = view.outputs();
        let lanes_n = if outputs < u64::from(LANES) * 8 { chunks.next_power_of_two().min(LANES) } else { 1 };
        builder.launch(&Launch {
            module: &format!("reduce_parts.{}", self.kind),
            constants: &(0..).zip(constants(lanes_n, 4)).collect::<Vec<_>>(),
            writes: &[write],
            reads: &[target],
            params: &[outputs as u32, chunks, 1, chunks, 1, self.identity],
            groups: outputs.div_ceil(u64::from(LANES / lanes_n)),
            detail: &format!("{chunks} parts of {outputs}, {lanes_n} lanes"),
        })?;
        Ok(true)
    }
}
