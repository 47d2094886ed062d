//! Graphs of the cases.

use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};

/// `op(inputs) -> output`, each an operand of the graph.
pub fn operator(
    name: &str,
    attribute: Attribute,
    inputs: &[(DType, &[i32])],
    (dtype, shape): (DType, &[i32]),
    more: impl FnOnce(&mut Writer) -> Vec<&'static str>,
) -> Writer {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut w = Writer::new();
    for (name, (dtype, shape)) in NAMES.iter().zip(inputs) {
        w.input(name, *dtype, shape);
    }
    let rest = more(&mut w);
    let operands: Vec<&str> = NAMES[..inputs.len()].iter().copied().chain(rest).collect();
    w.op(name, attribute, &operands, "y", dtype, shape);
    w.output("y");
    w
}

/// No operands but the inputs.
pub fn nothing(_: &mut Writer) -> Vec<&'static str> {
    Vec::new()
}

/// The short name of a type.
pub fn short(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::Int8 => "i8",
        DType::Int16 => "i16",
        DType::Int32 => "i32",
        DType::Fp32 => "f32",
        DType::Fp16 => "f16",
        DType::Bf16 => "bf16",
        DType::Fp8E4M3 => "e4m3",
        DType::Fp8E5M2 => "e5m2",
        other => other.name(),
    }
}

/// Bytes of `count` elements that look random and are neither NaN nor far from one.
pub fn noise(dtype: DType, count: usize) -> Vec<u8> {
    let (keep, set) = pattern(dtype);
    let bytes = count * dtype.bytes().unwrap_or(1);
    let words = (0..bytes.div_ceil(4) as u32).map(|serial| {
        let x = serial.wrapping_mul(0x9e37_79b9);
        let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
        ((x ^ (x >> 13)) & keep) | set
    });
    words.flat_map(u32::to_le_bytes).take(bytes).collect()
}

/// Bits of a random word to keep, and bits to set, so that each element is a number of the type: floats of either sign
/// from a half to one.
pub fn pattern(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::Fp32 => (0x807f_ffff, 0x3f00_0000),
        DType::Fp16 => (0x83ff_83ff, 0x3800_3800),
        DType::Bf16 => (0x807f_807f, 0x3f00_3f00),
        DType::Fp8E4M3 => (0x8787_8787, 0x3030_3030),
        DType::Fp8E5M2 => (0x8383_8383, 0x3838_3838),
        DType::Bool => (0x0101_0101, 0),
        _ => (u32::MAX, 0),
    }
}
