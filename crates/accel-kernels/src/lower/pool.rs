//! MAX_POOL2D and AVG_POOL2D.

use accel_tosa::{DType, NanMode, Node, PoolAttrs, Refusal};

use super::conv::packed;
use super::movers::word_groups;
use crate::builder::{Builder, Launch};

/// Which pool.
pub(crate) enum Kind {
    Max(NanMode),
    /// Zero points of input and output.
    Average([i32; 2]),
}

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    pool: &PoolAttrs,
    kind: &Kind,
) -> Result<(), Refusal> {
    let (input, output) = (node.inputs[0], node.outputs[0]);
    let graph = builder.graph;
    let dtype = graph.tensor(input).dtype;
    let suffix = match dtype {
        DType::Fp32 => "f32",
        DType::Fp16 => "f16",
        DType::Bf16 => "bf16",
        DType::Int8 => "i8",
        DType::Int16 => "i16",
        DType::Fp8E4M3 => "e4m3",
        DType::Fp8E5M2 => "e5m2",
        _ => {
            return Err(builder.unsupported(format!(
                "{} has no kernel for {dtype}; it takes FP32, FP16, BF16, FP8, INT8 and INT16",
                builder.at.1
            )));
        }
    };
    let (&[_, in_h, in_w, channels], &[_, out_h, out_w, _]) =
        (graph.tensor(input).shape.as_slice(), graph.tensor(output).shape.as_slice())
    else {
        return Err(builder.unsupported(format!("{} takes an operand of rank 4", builder.at.1)));
    };
    let (name, ignore_nan, [input_zp, output_zp]) = match *kind {
        Kind::Max(nan_mode) => ("max", nan_mode == NanMode::Ignore, [0, 0]),
        Kind::Average(zero_points) => ("avg", false, zero_points),
    };
    let [input_zp, output_zp] =
        [(1, input_zp), (2, output_zp)].map(|(index, known)| builder.number(node, index, &[known as u8]));
    let count = graph.tensor(output).elements();
    let [kernel_h, kernel_w] = pool.kernel;
    builder.launch(&Launch {
        module: &format!("pool2d.{name}_{suffix}"),
        constants: &[],
        writes: &[builder.tensor(output)],
        reads: &[builder.tensor(input), input_zp, output_zp],
        params: &[
            count as u32,
            in_h,
            in_w,
            channels,
            out_h,
            out_w,
            kernel_h,
            kernel_w,
            packed(pool.stride),
            packed([pool.pad[0], pool.pad[2]]),
            u32::from(ignore_nan),
        ],
        groups: word_groups(count, dtype.bytes().unwrap_or(4)),
        detail: &format!("{kernel_h}x{kernel_w} on {out_h}x{out_w}x{channels}"),
    })
}
