//! MATMUL into INT48 and RESCALE from it. In memory an INT48 has six bytes.

use accel_tosa::{DType, Node, Op, Refusal, RescaleAttrs};

use super::movers::{LANES, word_groups};
use crate::builder::{Builder, Launch};

/// Whether the operator is a RESCALE of INT48, which no chain of pointwise stages holds.
pub(crate) fn is_rescale(builder: &Builder<'_>, node: &Node) -> bool {
    matches!(node.op, Op::Rescale(_)) && builder.graph.tensor(node.inputs[0]).dtype == DType::Int48
}

pub(crate) fn rescale(builder: &mut Builder<'_>, node: &Node, attrs: &RescaleAttrs) -> Result<(), Refusal> {
    let output = builder.graph.tensor(node.outputs[0]);
    let suffix = match output.dtype {
        DType::Int8 => "i8",
        DType::Int16 => "i16",
        DType::Int32 => "i32",
        other => return Err(builder.unsupported(format!("RESCALE has no kernel for INT48 -> {other}"))),
    };
    let count = output.elements();
    let channels = builder.graph.tensor(node.inputs[1]).elements();
    builder.launch(&Launch {
        module: &format!("rescale_i48.{suffix}"),
        constants: &[],
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[0, 1, 2].map(|operand| builder.tensor(node.inputs[operand])),
        params: &[count as u32, channels as u32, attrs.output_zp as u32],
        groups: word_groups(count, output.dtype.bytes().unwrap_or(4)),
        detail: "",
    })
}

/// Whether the operator is a MATMUL of INT16.
pub(crate) fn is_matmul(builder: &Builder<'_>, node: &Node) -> bool {
    builder.graph.tensor(node.inputs[0]).dtype == DType::Int16
}

pub(crate) fn matmul(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    let graph = builder.graph;
    let [a, b] = [0, 1].map(|operand| node.inputs[operand]);
    let (&[_, m, k], &[_, _, n]) = (graph.tensor(a).shape.as_slice(), graph.tensor(b).shape.as_slice())
    else {
        return Err(builder.unsupported("MATMUL takes operands of rank 3"));
    };
    let count = graph.tensor(node.outputs[0]).elements();
    builder.launch(&Launch {
        module: "matmul_i16",
        constants: &[],
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[builder.tensor(a), builder.tensor(b)],
        params: &[count as u32, m, n, k],
        groups: count.div_ceil(LANES),
        detail: &format!("{m}x{n}x{k}"),
    })
}
