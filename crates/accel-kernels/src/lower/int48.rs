//! RESCALE of INT48, which has six bytes in memory.

use accel_tosa::{DType, Node, Op, Refusal, RescaleAttrs};

use super::movers::word_groups;
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
    let output_zp = builder.number(node, 4, &[attrs.output_zp as u8]);
    let channels = builder.graph.tensor(node.inputs[1]).elements();
    builder.launch(&Launch {
        module: &format!("rescale_i48.{suffix}"),
        constants: &[],
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[
            builder.tensor(node.inputs[0]),
            builder.tensor(node.inputs[1]),
            builder.tensor(node.inputs[2]),
            output_zp,
        ],
        params: &[count as u32, channels as u32],
        groups: word_groups(count, output.dtype.bytes().unwrap_or(4)),
        detail: "",
    })
}
