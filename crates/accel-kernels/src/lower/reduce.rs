//! REDUCE_* and ARGMAX.

use accel_tosa::{DType, NanMode, Node, ReduceOp, Refusal};

use super::reduce_wide::Reduction;
use super::wide;
use crate::builder::{Builder, Launch, Value};
use crate::chain::element;
use crate::stage::{Code, Element};
use crate::{DeviceCaps, DeviceKind};

/// Invocations of a workgroup.
const LANES: u32 = 64;
/// Outputs that a set of axis lanes computes.
const QUAD: u64 = 4;
/// Fewest elements of an axis that are worth an invocation.
const MIN_RUN: u32 = 32;

/// `[outer, axis, inner]`, as `shaders/reduce/view.glsl` sees a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub outer: u64,
    pub axis: u32,
    pub inner: u32,
}

impl View {
    fn new(shape: &[u32], axis: u32) -> Self {
        let axis = axis as usize;
        let extent = |dims: &[u32]| dims.iter().map(|&d| u64::from(d)).product::<u64>();
        let inner = extent(&shape[axis + 1..]) as u32;
        Self { outer: extent(&shape[..axis]), axis: shape[axis], inner }
    }

    /// Elements of the output.
    pub fn outputs(&self) -> u64 {
        self.outer * u64::from(self.inner)
    }

    /// Invocations that share an axis: neighbours must read neighbouring elements, so only where the axis is innermost.
    fn axis_lanes(&self) -> u32 {
        match (self.inner, self.axis) {
            (2.., _) | (_, ..8) => 1,
            (_, 8..256) => 8,
            _ => LANES,
        }
    }

    /// Parts that the axis is cut into so that the workgroups fill the device.
    fn chunks(&self, caps: &DeviceCaps) -> u32 {
        let fill = match caps.kind {
            DeviceKind::Cpu => 8,
            DeviceKind::Integrated => 256,
            DeviceKind::Discrete => 1056,
        };
        let wanted = (fill / self.blocks()).max(1) as u32;
        wanted.min(self.axis / (MIN_RUN * self.axis_lanes())).max(1)
    }

    /// Workgroups of a chunk.
    fn blocks(&self) -> u64 {
        self.outputs().div_ceil(QUAD * u64::from(LANES / self.axis_lanes()))
    }
}

/// Lowers a REDUCE_*.
///
/// # Errors
/// An unsupported-refusal for types that no kernel reads.
pub(crate) fn reduce(builder: &mut Builder<'_>, node: &Node, op: ReduceOp, axis: u32) -> Result<(), Refusal> {
    let tensor = builder.graph.tensor(node.inputs[0]);
    let input = element(builder, tensor.dtype)?;
    let view = View::new(&tensor.shape, axis);
    let (code, identity) = combiner(op, input.is_float());
    let read = builder.tensor(node.inputs[0]);
    let write = Value::Tensor(node.outputs[0]);
    let vectors = Reduction { kind: "reduce", code: code as u32, identity, input, output: input };
    if vectors.launch(builder, &view, read, write)? {
        return Ok(());
    }
    let chunks = view.chunks(builder.caps);
    if chunks == 1 {
        return launch(builder, "reduce", view, [code as u32, identity], (read, input), (write, input), 1);
    }
    // Partial results stay in register form.
    let register = if input.is_float() { Element::F32 } else { Element::I32 };
    let partial = builder.scratch(view.outputs() * u64::from(chunks) * 4);
    launch(builder, "reduce", view, [code as u32, identity], (read, input), (partial, register), chunks)?;
    let rest = View { outer: 1, axis: chunks, inner: view.outputs() as u32 };
    launch(builder, "reduce", rest, [code as u32, identity], (partial, register), (write, input), 1)
}

/// Lowers an ARGMAX.
///
/// # Errors
/// An unsupported-refusal for types that no kernel reads.
pub(crate) fn argmax(
    builder: &mut Builder<'_>,
    node: &Node,
    axis: u32,
    nan_mode: NanMode,
) -> Result<(), Refusal> {
    let tensor = builder.graph.tensor(node.inputs[0]);
    if tensor.dtype == DType::Int64 {
        return wide::argmax(builder, node, axis);
    }
    let input = element(builder, tensor.dtype)?;
    let view = View::new(&tensor.shape, axis);
    let read = builder.tensor(node.inputs[0]);
    let output = Value::Tensor(node.outputs[0]);
    let is_wide = builder.graph.tensor(node.outputs[0]).dtype == DType::Int64;
    let write = if is_wide { builder.scratch(view.outputs() * 4) } else { output };
    let nan_greatest = u32::from(nan_mode == NanMode::Propagate);
    let vectors = Reduction { kind: "argmax", code: nan_greatest, identity: 0, input, output: Element::I32 };
    if !vectors.launch(builder, &view, read, write)? {
        launch(builder, "argmax", view, [nan_greatest, 0], (read, input), (write, Element::I32), 1)?;
    }
    if is_wide { wide::extend(builder, output, write, view.outputs()) } else { Ok(()) }
}

fn launch(
    builder: &mut Builder<'_>,
    module: &str,
    view: View,
    [code, identity]: [u32; 2],
    (read, input): (Value, Element),
    (write, output): (Value, Element),
    chunks: u32,
) -> Result<(), Refusal> {
    let chunk = view.axis.div_ceil(chunks);
    let lanes = view.axis_lanes();
    let View { outer, axis, inner } = view;
    builder.launch(&Launch {
        module,
        constants: &[(0, lanes), (1, input as u32), (2, output as u32), (3, code)],
        writes: &[write],
        reads: &[read],
        params: &[view.outputs() as u32, axis, inner, chunk, chunks, identity],
        groups: view.blocks() * u64::from(chunks),
        detail: &format!("{outer}x{axis}x{inner}, {lanes} lanes an axis in {chunks}"),
    })
}

/// The stage that combines two elements, and its neutral element in register form.
pub(crate) fn combiner(op: ReduceOp, float: bool) -> (Code, u32) {
    let (infinity, one) = (f32::INFINITY.to_bits(), 1_f32.to_bits());
    match op {
        ReduceOp::All => (Code::And, 1),
        ReduceOp::Any => (Code::Or, 0),
        ReduceOp::Sum if float => (Code::AddF, 0),
        ReduceOp::Sum => (Code::AddI, 0),
        ReduceOp::Product => (Code::MulF, one),
        ReduceOp::Max { nan_mode: NanMode::Propagate } if float => (Code::MaxF, infinity | 1 << 31),
        ReduceOp::Max { nan_mode: NanMode::Ignore } if float => (Code::MaxFIgnore, infinity | 1 << 31),
        ReduceOp::Min { nan_mode: NanMode::Propagate } if float => (Code::MinF, infinity),
        ReduceOp::Min { nan_mode: NanMode::Ignore } if float => (Code::MinFIgnore, infinity),
        ReduceOp::Max { .. } => (Code::MaxI, i32::MIN as u32),
        ReduceOp::Min { .. } => (Code::MinI, i32::MAX as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_keeps_every_element() {
        assert_eq!(View::new(&[2, 3, 4, 5], 1), View { outer: 2, axis: 3, inner: 20 });
        assert_eq!(View::new(&[7], 0), View { outer: 1, axis: 7, inner: 1 });
    }

    #[test]
    fn long_axes_are_cut_until_the_device_is_full() {
        let caps = DeviceCaps { kind: DeviceKind::Discrete, ..DeviceCaps::baseline() };
        assert_eq!(View::new(&[1 << 20], 0).chunks(&caps), 512);
        assert_eq!(View::new(&[1 << 20, 1 << 10], 1).chunks(&caps), 1);
        assert_eq!(View::new(&[100], 0).chunks(&caps), 1);
        assert_eq!(View::new(&[4096, 4096], 0).chunks(&caps), 66);
    }
}
