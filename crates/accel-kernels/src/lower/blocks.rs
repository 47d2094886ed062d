//! CAST_FROM_BLOCK_SCALED to FP32, and CAST_TO_BLOCK_SCALED from it.

use accel_tosa::{BLOCK, DType, Node, Refusal};

use super::movers::stream_constants;
use crate::builder::{Builder, Launch, Value};

/// `[values, scales]` -> FP32.
pub(crate) fn decode(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    let count = builder.graph.tensor(node.inputs[0]).elements();
    let [values, scales] = [0, 1].map(|operand| builder.tensor(node.inputs[operand]));
    let format = format(builder, node.inputs[0])?;
    let output = builder.tensor(node.outputs[0]);
    launch(builder, "block_decode", &format, (output, &[values, scales]), count, count)
}

/// FP32 -> `[values, scales]`.
pub(crate) fn encode(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    let tensor = builder.graph.tensor(node.outputs[0]);
    let (blocks, words) = (tensor.elements() / u64::from(BLOCK), tensor.bytes() / 4);
    let format = format(builder, node.outputs[0])?;
    let input = builder.tensor(node.inputs[0]);
    let [values, scales] = [0, 1].map(|result| builder.tensor(node.outputs[result]));
    launch(builder, "block_scales", &format, (scales, &[input]), blocks, blocks.div_ceil(4))?;
    launch(builder, "block_encode", &format, (values, &[input, scales]), words, words)
}

fn launch(
    builder: &mut Builder<'_>,
    module: &str,
    format: &[u32; 7],
    (write, reads): (Value, &[Value]),
    count: u64,
    invocations: u64,
) -> Result<(), Refusal> {
    let constants: Vec<(u32, u32)> = (0..).zip(*format).chain(stream_constants(builder)).collect();
    builder.launch(&Launch {
        module,
        constants: &constants,
        writes: &[write],
        reads,
        params: &[count as u32],
        groups: invocations.div_ceil(u64::from(builder.caps.stream_lanes())),
        detail: &format!("{} bits", format[0]),
    })
}

/// The specialization constants of `blocks/format.glsl` for the type of a tensor of values.
fn format(builder: &Builder<'_>, values: accel_tosa::TensorId) -> Result<[u32; 7], Refusal> {
    let dtype = builder.graph.tensor(values).dtype;
    let bits = dtype.bits() as u32;
    let [fraction, least, most, top, undefined, kind] = match dtype {
        DType::Fp8E4M3 => [3, -6, 8, 0x7e, 0x7f, 1],
        DType::Fp8E5M2 => [2, -14, 15, 0x7b, 0x7e, 2],
        DType::Fp6E2M3 => [3, 0, 2, 0x1f, 0x18, 0],
        DType::Fp6E3M2 => [2, -2, 4, 0x1f, 0x1c, 0],
        DType::Fp4E2M1 => [1, 0, 2, 7, 6, 0],
        DType::MxInt8 => [6, 0, 0, 0x7f, 0x7f, 3],
        other => return Err(builder.unsupported(format!("values of type {other} have no scales"))),
    };
    Ok([bits, fraction as u32, least as u32, most as u32, top as u32, undefined as u32, kind as u32])
}
