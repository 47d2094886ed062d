//! RESIZE.

use accel_tosa::{DType, Node, Refusal, ResizeAttrs, ResizeMode};

use super::movers::word_groups;
use crate::builder::{Builder, Launch};

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, attrs: &ResizeAttrs) -> Result<(), Refusal> {
    let (input, output) = (node.inputs[0], node.outputs[0]);
    let graph = builder.graph;
    let dtypes = (graph.tensor(input).dtype, graph.tensor(output).dtype);
    let mode = match attrs.mode {
        ResizeMode::Nearest => "nearest",
        ResizeMode::Bilinear => "bilinear",
    };
    let suffix = match (dtypes, attrs.mode) {
        ((DType::Fp32, DType::Fp32), _) => "f32",
        ((DType::Fp16, DType::Fp16), _) => "f16",
        ((DType::Bf16, DType::Bf16), _) => "bf16",
        // The nearest byte is the same of whatever type.
        ((DType::Fp8E4M3, DType::Fp8E4M3) | (DType::Fp8E5M2, DType::Fp8E5M2), ResizeMode::Nearest) => "i8",
        ((DType::Fp8E4M3, DType::Fp8E4M3), ResizeMode::Bilinear) => "e4m3",
        ((DType::Fp8E5M2, DType::Fp8E5M2), ResizeMode::Bilinear) => "e5m2",
        ((DType::Int8, DType::Int8), ResizeMode::Nearest)
        | ((DType::Int8, DType::Int32), ResizeMode::Bilinear) => "i8",
        ((DType::Int16, DType::Int16), ResizeMode::Nearest)
        | ((DType::Int16, DType::Int48), ResizeMode::Bilinear) => "i16",
        ((from, to), _) => {
            return Err(builder.unsupported(format!(
                "RESIZE has no {mode} kernel for {from} -> {to}; it takes FP32, FP16, BF16, FP8, INT8 and INT16"
            )));
        }
    };
    let (&[_, in_h, in_w, channels], &[_, out_h, out_w, _]) =
        (graph.tensor(input).shape.as_slice(), graph.tensor(output).shape.as_slice())
    else {
        return Err(builder.unsupported("RESIZE takes an operand of rank 4"));
    };
    let count = graph.tensor(output).elements();
    let mut params = vec![count as u32, in_h, in_w, channels, out_h, out_w];
    params.extend(attrs.scale.map(|scale| scale as u32));
    params.extend(attrs.offset.map(|offset| offset as u32));
    builder.launch(&Launch {
        module: &format!("resize.{mode}_{suffix}"),
        constants: &[],
        writes: &[builder.tensor(output)],
        reads: &[builder.tensor(input)],
        params: &params,
        // An INT48 is more than a word.
        groups: word_groups(count, dtypes.1.bytes().unwrap_or(4).min(4)),
        detail: &format!("{in_h}x{in_w} to {out_h}x{out_w}x{channels}"),
    })
}
