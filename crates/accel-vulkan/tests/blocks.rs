//! Block-scaled data: values and scales against a search among all numbers of a format.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_tosa::DType::{
    self, Bf16, Bs32Fp4E2M1, Bs32Fp6E2M3, Bs32MxInt8, Fp4E2M1, Fp6E2M3, Fp6E3M2, Fp8E4M3, Fp8E5M2, Fp8UE8M0,
    Fp32, Int32, MxInt8,
};
use accel_tosa::writer::{Attribute, Writer};

use common::{noise, run_both};

const SIZE: Attribute = Attribute::Mode(32);
const TYPES: [DType; 6] = [Fp8E4M3, Fp8E5M2, Fp6E2M3, Fp6E3M2, Fp4E2M1, MxInt8];

/// A number of the format; infinity and NaN where the code is one.
fn number(dtype: DType, code: u32) -> f64 {
    let (bits, fraction, bias) = match dtype {
        Fp8E4M3 => (8, 3, 7),
        Fp8E5M2 => (8, 2, 15),
        Fp6E2M3 => (6, 3, 1),
        Fp6E3M2 => (6, 2, 3),
        Fp4E2M1 => (4, 1, 1),
        MxInt8 => return f64::from(code as u8 as i8) / 64.0,
        other => panic!("{other} has no scales"),
    };
    let sign = if code >> (bits - 1) == 0 { 1.0 } else { -1.0 };
    let magnitude = code & ((1 << (bits - 1)) - 1);
    match (dtype, magnitude) {
        (Fp8E4M3, 0x7f) | (Fp8E5M2, 0x7d..) => return f64::NAN,
        (Fp8E5M2, 0x7c) => return sign * f64::INFINITY,
        _ => {}
    }
    let (field, part) = (magnitude >> fraction, f64::from(magnitude & ((1 << fraction) - 1)));
    let whole = f64::from(1 << fraction);
    let power = 2f64.powi(field.max(1) as i32 - bias);
    sign * (part / whole + f64::from(field.min(1))) * power
}

/// The codes without a sign of finite numbers, which ascend.
fn magnitudes(dtype: DType) -> Vec<f64> {
    (0..1 << (dtype.bits() - 1)).map(|code| number(dtype, code)).take_while(|x| x.is_finite()).collect()
}

/// The code of a block and its scale, by search.
fn encoded(dtype: DType, block: &[f32]) -> (Vec<u32>, u8) {
    let numbers = magnitudes(dtype);
    let largest = block.iter().fold(0f64, |m, &x| m.max(f64::from(x).abs()));
    if block.iter().any(|x| !x.is_finite()) {
        let undefined = match dtype {
            Fp8E5M2 => 0x7e,
            Fp6E2M3 => 0x18,
            Fp6E3M2 => 0x1c,
            Fp4E2M1 => 6,
            _ => 0x7f,
        };
        return (vec![undefined; block.len()], 255);
    }
    let top = numbers.len() - 1;
    let limit = numbers[top] + (numbers[top] - numbers[top - 1]) / 2.0;
    let fits = |scale: i32| {
        let x = largest / 2f64.powi(scale);
        x < limit || x == limit && top.is_multiple_of(2)
    };
    let scale = (-127..127).find(|&scale| fits(scale)).unwrap_or(127);
    let code = |&x: &f32| {
        let magnitude = f64::from(x).abs() / 2f64.powi(scale);
        let above = numbers.partition_point(|&n| n < magnitude).min(top);
        let below = above.saturating_sub(1);
        let [to_below, to_above] = [below, above].map(|code| (numbers[code] - magnitude).abs());
        let up = to_above < to_below || to_above == to_below && above.is_multiple_of(2);
        let code = if up { above } else { below } as u32;
        match (x.is_sign_negative(), dtype) {
            (false, _) => code,
            (true, MxInt8) => code.wrapping_neg() & 0xff,
            (true, _) => code | 1 << (dtype.bits() - 1),
        }
    };
    (block.iter().map(code).collect(), (scale + 127) as u8)
}

fn pack(dtype: DType, codes: &[u32]) -> Vec<u8> {
    let bits = dtype.bits();
    let mut bytes = vec![0; codes.len() * bits / 8];
    for (index, &code) in codes.iter().enumerate() {
        for bit in 0..bits {
            bytes[(index * bits + bit) / 8] |= ((code >> bit & 1) << ((index * bits + bit) % 8)) as u8;
        }
    }
    bytes
}

fn unpack(dtype: DType, bytes: &[u8]) -> Vec<u32> {
    let bits = dtype.bits();
    let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
    (0..bytes.len() * 8 / bits)
        .map(|index| (0..bits).map(|place| bit(index * bits + place) << place).sum())
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn random(seed: u32, count: usize) -> Vec<u8> {
    noise(seed, count).iter().map(|&x| (x >> 13) as u8).collect()
}

fn writer() -> Writer {
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w
}

/// Blocks of like magnitudes from the least to the greatest, with ties, and one of each kind that has no such.
fn blocks() -> Vec<f32> {
    let dice = noise(5, 61 * 32);
    let mut x: Vec<f32> = dice
        .iter()
        .enumerate()
        .map(|(at, &dice)| {
            let field = (at / 32) as u32 * 4 + 12 - (dice >> 16 & 7).min(6);
            // Few bits of the fraction make ties.
            f32::from_bits(dice & 0x8000_0000 | field << 23 | (dice & 0x3f) << 17)
        })
        .collect();
    x.extend([0.0; 32]);
    x.extend([-0.0; 32]);
    for first in [1e-45, 6e-39, 1.1754942e-38, f32::MAX, f32::INFINITY, f32::NAN] {
        x.extend((0..32).map(|at| if at == 7 { first } else { first.min(1.0) * 0.3 }));
    }
    x
}

#[test]
fn casts_to_blocks_round_to_nearest_and_fill_the_format() {
    let x = blocks();
    let count = x.len() as i32;
    for dtype in TYPES {
        let mut w = writer();
        w.input("x", Fp32, &[count]);
        w.tensor("y", dtype, &[count]);
        w.tensor("s", Fp8UE8M0, &[count / 32]);
        w.raw("CAST_TO_BLOCK_SCALED", SIZE, &["x"], &["y", "s"]);
        w.output("y");
        w.output("s");
        let Some(outputs) = run_both(&w, &[&bytes(&x)]) else { return };
        let codes = unpack(dtype, &outputs[0]);
        for (at, block) in x.chunks(32).enumerate() {
            let (wanted, scale) = encoded(dtype, block);
            assert_eq!(outputs[1][at], scale, "{dtype} {block:?}");
            assert_eq!(codes[at * 32..at * 32 + 32], wanted, "{dtype} {block:?}");
        }
    }
}

#[test]
fn casts_from_blocks_are_exact() {
    for dtype in TYPES {
        // Every code with every scale, or with many.
        let codes: Vec<u32> = (0..256 * 32 * 8).map(|at| at * 7 % (1 << dtype.bits())).collect();
        let scales: Vec<u8> = (0..256 * 8).map(|at| at as u8).collect();
        let mut w = writer();
        let (count, blocks) = (codes.len() as i32, scales.len() as i32);
        w.input("x", dtype, &[count]);
        w.input("s", Fp8UE8M0, &[blocks]);
        w.op("CAST_FROM_BLOCK_SCALED", SIZE, &["x", "s"], "y", Fp32, &[count]);
        w.output("y");
        let Some(outputs) = run_both(&w, &[&pack(dtype, &codes), &scales]) else { return };
        for (at, found) in floats(&outputs[0]).into_iter().enumerate() {
            let (code, scale) = (codes[at], scales[at / 32]);
            let scale = if scale == 255 { f64::NAN } else { 2f64.powi(i32::from(scale) - 127) };
            let wanted = (number(dtype, code) * scale) as f32;
            let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
            assert!(same, "{dtype} {code:#x} x {scale}: {found} for {wanted}");
        }
    }
}

/// A block-scaled tensor takes two slots, the scales behind the values.
#[test]
fn block_scaled_tensors_move_whole() {
    let (values, scales) = (random(1, 5 * 2 * 24), random(2, 5 * 2));
    let mut w = writer();
    w.input("x", Bs32Fp6E2M3, &[1, 5, 64]);
    w.input("i", Int32, &[1, 3]);
    w.constant("n", Int32, &[1], &1_i32.to_le_bytes());
    w.op("ROW_GATHER", Attribute::None, &["x", "i", "n"], "rows", Bs32Fp6E2M3, &[1, 3, 64]);
    let axis = Attribute::Axis { axis: 1, nan_mode: 0 };
    w.op("CONCAT", axis, &["rows", "x"], "joined", Bs32Fp6E2M3, &[1, 8, 64]);
    w.shape("shape", &[16, 32]);
    w.op("RESHAPE", Attribute::None, &["joined", "shape"], "y", Bs32Fp6E2M3, &[16, 32]);
    w.output("y");
    let indices: Vec<u8> = [4_i32, 0, 2].iter().flat_map(|index| index.to_le_bytes()).collect();
    let Some(outputs) = run_both(&w, &[&values, &scales, &indices]) else { return };
    let rows = |data: &[u8], size: usize| -> Vec<u8> {
        [4, 0, 2, 0, 1, 2, 3, 4].iter().flat_map(|&row| data[row * size..][..size].to_vec()).collect()
    };
    assert_eq!(outputs, [rows(&values, 48), rows(&scales, 2)]);
}

#[test]
fn resize_moves_blocks_of_neighbours() {
    let (values, scales) = (random(3, 2 * 2 * 32), random(4, 2 * 2));
    let mut w = writer();
    w.input("x", Bs32MxInt8, &[1, 2, 2, 32]);
    w.shape("scale", &[4, 2, 2, 2]);
    w.shape("offset", &[0, 0]);
    w.shape("border", &[2, 0]);
    w.op("RESIZE", Attribute::Mode(1), &["x", "scale", "offset", "border"], "y", Bs32MxInt8, &[1, 4, 2, 32]);
    w.output("y");
    let Some(outputs) = run_both(&w, &[&values, &scales]) else { return };
    let rows = |data: &[u8], size: usize| -> Vec<u8> {
        [0, 1, 1, 1].iter().flat_map(|&row| data[row * size..][..size].to_vec()).collect()
    };
    assert_eq!(outputs, [rows(&values, 64), rows(&scales, 2)]);
}

/// Small scales keep the sums exact, so that their order is no matter.
#[test]
fn products_multiply_what_the_blocks_stand_for() {
    let (m, n, k) = (3, 5, 64);
    let (a, b) = (random(6, m * k / 2), random(7, n * k / 2));
    let scales = |seed, count| -> Vec<u8> { random(seed, count).iter().map(|s| 126 + s % 3).collect() };
    let (a_scales, b_scales) = (scales(8, m * k / 32), scales(9, n * k / 32));
    let numbers = |values: &[u8], scales: &[u8]| -> Vec<f64> {
        let codes = unpack(Fp4E2M1, values);
        let scale = |at: usize| 2f64.powi(i32::from(scales[at / 32]) - 127);
        codes.iter().enumerate().map(|(at, &code)| number(Fp4E2M1, code) * scale(at)).collect()
    };
    let (left, right) = (numbers(&a, &a_scales), numbers(&b, &b_scales));
    let sums: Vec<f32> = (0..m * n)
        .map(|at| (0..k).map(|c| left[at / n * k + c] * right[at % n * k + c]).sum::<f64>() as f32)
        .collect();
    let [m, n, k] = [m, n, k].map(|extent| extent as i32);
    let result = [1, m, n];

    // Values and scales apart, all inputs of the graph.
    let mut w = writer();
    for (name, dtype, shape) in [
        ("a", Fp4E2M1, [1, m, k]),
        ("a_scale", Fp8UE8M0, [1, m, k / 32]),
        ("b", Fp4E2M1, [1, n, k]),
        ("b_scale", Fp8UE8M0, [1, n, k / 32]),
    ] {
        w.input(name, dtype, &shape);
    }
    let operands = ["a", "a_scale", "b", "b_scale"];
    w.op("MATMUL_T_BLOCK_SCALED", SIZE, &operands, "y", Fp32, &result);
    w.output("y");
    let Some(outputs) = run_both(&w, &[&a, &a_scales, &b, &b_scales]) else { return };
    assert_eq!(floats(&outputs[0]), sums);

    // A block-scaled input and a constant, with a result that is rounded.
    let mut w = writer();
    w.input("a", Bs32Fp4E2M1, &[1, m, k]);
    w.scaled_constant("b", Bs32Fp4E2M1, &[1, n, k], &b, &b_scales);
    w.constant("zero", Fp32, &[1], &[0; 4]);
    w.op("MATMUL_T", Attribute::None, &["a", "b", "zero", "zero"], "y", Bf16, &result);
    w.output("y");
    let outputs = run_both(&w, &[&a, &a_scales]).unwrap();
    let rounded: Vec<u8> = sums.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
    assert_eq!(outputs[0], rounded);
}

#[test]
fn casts_go_through_fp32_and_round_once() {
    let x = blocks();
    let narrow: Vec<u8> = x.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
    let wide: Vec<f32> = x.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
    let count = x.len() as i32;
    let mut w = writer();
    w.input("x", Bf16, &[count]);
    w.op("CAST", Attribute::None, &["x"], "scaled", Bs32Fp4E2M1, &[count]);
    w.op("CAST", Attribute::None, &["scaled"], "y", Bf16, &[count]);
    w.output("scaled");
    w.output("y");
    let Some(outputs) = run_both(&w, &[&narrow]) else { return };
    let blocks = wide.chunks(32).map(|block| encoded(Fp4E2M1, block));
    let (codes, scales): (Vec<_>, Vec<_>) = blocks.unzip();
    assert_eq!(outputs[0], pack(Fp4E2M1, &codes.concat()));
    assert_eq!(outputs[1], scales);
    for (at, found) in outputs[2].as_chunks().0.iter().enumerate() {
        let (code, scale) = (codes[at / 32][at % 32], scales[at / 32]);
        let found = half::bf16::from_le_bytes(*found);
        if scale == 255 {
            assert!(found.is_nan());
            continue;
        }
        let wanted = number(Fp4E2M1, code) * 2f64.powi(i32::from(scale) - 127);
        assert_eq!(found.to_bits(), half::bf16::from_f64(wanted).to_bits(), "{wanted}");
    }
}
