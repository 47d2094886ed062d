//! Element-wise operators against scalar oracles: conversions, elementary functions, integers, broadcasts, chains.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_tosa::DType::{self, Bf16, Bool, Fp8E4M3, Fp8E5M2, Fp16, Fp32, Int8, Int16, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run, run_as, run_both};
use half::{bf16, f16};

/// A graph with an operator on each of `inputs` alone.
fn unary(ops: &[&str], from: DType, to: DType, count: usize) -> Writer {
    let mut w = Writer::new();
    let shape = [count as i32];
    w.input("x", from, &shape);
    for (i, op) in ops.iter().enumerate() {
        let name = format!("y{i}");
        w.op(op, Attribute::None, &["x"], &name, to, &shape);
        w.output(&name);
    }
    w
}

fn cast(from: DType, to: DType, input: &[u8]) -> Option<Vec<u8>> {
    let count = input.len() / from.bytes().unwrap();
    Some(run_both(&unary(&["CAST"], from, to, count), &[input])?.remove(0))
}

#[test]
fn every_half_widens_and_every_kind_of_float_narrows() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let Some(wide) = cast(Fp16, Fp32, &bytes!(halves)) else { return };
    for (half, wide) in halves.iter().zip(numbers!(f32, wide)) {
        let expected = f16::from_bits(*half).to_f32();
        assert!(wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan(), "{half:#x}");
    }
    // Every sign, exponent and upper mantissa; at, below and above each tie.
    let floats: Vec<f32> = (0..=u16::MAX)
        .flat_map(|high| {
            [0x0000, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xf000].map(|low| (high, low))
        })
        .map(|(high, low)| f32::from_bits(u32::from(high) << 16 | low))
        .collect();
    let narrow = numbers!(u16, cast(Fp32, Fp16, &bytes!(floats)).unwrap());
    let brain = numbers!(u16, cast(Fp32, Bf16, &bytes!(floats)).unwrap());
    for ((x, narrow), brain) in floats.iter().zip(narrow).zip(brain) {
        if x.is_nan() {
            assert!(f16::from_bits(narrow).is_nan() && bf16::from_bits(brain).is_nan());
        } else {
            assert_eq!(narrow, f16::from_f32(*x).to_bits(), "{x:e}");
            assert_eq!(brain, bf16::from_f32(*x).to_bits(), "{x:e}");
        }
    }
}

/// The value of an FP8 code's magnitude, and the first magnitude that is no number.
fn fp8(to: DType, magnitude: u8) -> (f64, u8) {
    let (bits, bias, end) = if to == Fp8E4M3 { (3, 7, 0x7f) } else { (2, 15, 0x7c) };
    let (exponent, fraction) = (i32::from(magnitude >> bits), f64::from(magnitude & ((1 << bits) - 1)));
    let step = f64::from(1_u32 << bits);
    let value = if exponent == 0 { fraction / step * 2.0 } else { 1.0 + fraction / step };
    (value * 2_f64.powi(exponent - bias), end)
}

/// The code of the nearest FP8 number, the even one of two; beyond the largest what the type has for that.
fn to_fp8(to: DType, x: f64) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let end = fp8(to, 0).1;
    let distance = |code: u8| (fp8(to, code).0 - x.abs().min(1e9)).abs();
    // The code at the end stands for the next number that the format would have.
    let nearest = (0..=end).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    sign | nearest.unwrap()
}

#[test]
fn every_half_and_every_bfloat16_narrows_to_fp8_and_back() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    for to in [Fp8E4M3, Fp8E5M2] {
        for from in [Fp16, Bf16] {
            let value = |bits: u16| match from {
                Fp16 => f16::from_bits(bits).to_f64(),
                _ => bf16::from_bits(bits).to_f64(),
            };
            for kind in [Cpu, Discrete] {
                let Some(narrow) = run_as(kind, &unary(&["CAST"], from, to, all.len()), &[&bytes!(all)])
                else {
                    return;
                };
                for (&bits, &code) in all.iter().zip(&narrow[0]) {
                    let is_nan = code & 0x7f > fp8(to, 0).1 || to == Fp8E4M3 && code & 0x7f == 0x7f;
                    match value(bits) {
                        x if x.is_nan() => assert!(is_nan, "{from} {bits:#x} became {to} {code:#x}"),
                        x => assert_eq!(code, to_fp8(to, x), "{from} {x:e} to {to}"),
                    }
                }
                let wide = run_as(kind, &unary(&["CAST"], to, from, codes.len()), &[&codes]).unwrap();
                for (&code, bits) in codes.iter().zip(numbers!(u16, &wide[0])) {
                    let (magnitude, end) = fp8(to, code & 0x7f);
                    let is_number = code & 0x7f < end;
                    let sign = if code < 0x80 { 1.0 } else { -1.0 };
                    match (is_number, to == Fp8E5M2 && code & 0x7f == end) {
                        (true, _) => assert_eq!(value(bits), sign * magnitude, "{to} {code:#x}"),
                        (false, true) => assert_eq!(value(bits), sign * f64::INFINITY),
                        (false, false) => assert!(value(bits).is_nan(), "{to} {code:#x}"),
                    }
                }
            }
        }
    }
}

#[test]
fn integers_and_floats_convert_to_nearest_and_saturate() {
    let mut ints: Vec<i32> = noise(1, 5001).iter().map(|&x| (x as i32) >> (x % 31)).collect();
    ints.extend([0, 1, -1, i32::MIN, i32::MAX, (1 << 24) + 1, -(1 << 24) - 3, 65_519, 65_520]);
    let Some(wide) = cast(Int32, Fp32, &bytes!(ints)) else { return };
    assert_eq!(numbers!(f32, wide), ints.iter().map(|&i| i as f32).collect::<Vec<_>>());
    let halves = numbers!(u16, cast(Int32, Fp16, &bytes!(ints)).unwrap());
    assert_eq!(halves, ints.iter().map(|&i| f16::from_f64(i.into()).to_bits()).collect::<Vec<_>>());
    let brains = numbers!(u16, cast(Int32, Bf16, &bytes!(ints)).unwrap());
    assert_eq!(brains, ints.iter().map(|&i| bf16::from_f64(i.into()).to_bits()).collect::<Vec<_>>());
    let bools = cast(Int32, Bool, &bytes!(ints)).unwrap();
    assert_eq!(bools, ints.iter().map(|&i| u8::from(i != 0)).collect::<Vec<_>>());
    let small = numbers!(i16, cast(Int32, Int16, &bytes!(ints)).unwrap());
    assert_eq!(small, ints.iter().map(|&i| i as i16).collect::<Vec<_>>());

    let mut floats: Vec<f32> =
        noise(2, 4000).iter().map(|&x| f32::from_bits(x)).filter(|x| !x.is_nan()).collect();
    floats.extend([0.5, 1.5, 2.5, -0.5, -1.5, 127.5, -128.5, 1e10, -1e10, f32::INFINITY, f32::NEG_INFINITY]);
    let rounded = |x: &f32| f64::from(*x).round_ties_even();
    let words = numbers!(i32, cast(Fp32, Int32, &bytes!(floats)).unwrap());
    assert_eq!(words, floats.iter().map(|x| rounded(x) as i32).collect::<Vec<_>>());
    let bytes = numbers!(i8, cast(Fp32, Int8, &bytes!(floats)).unwrap());
    assert_eq!(bytes, floats.iter().map(|x| rounded(x) as i8).collect::<Vec<_>>());
}

/// erf in FP64: its series, and the continued fraction of 1 - erf.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 2.5 {
        let mut term = a;
        let mut sum = a;
        for n in 1..80 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..60).rev().fold(a, |f, k| a + f64::from(k) / 2.0 / f);
        1.0 - (-a * a).exp() / fraction * 0.5 * std::f64::consts::FRAC_2_SQRT_PI
    };
    value.copysign(x)
}

const NORMAL_MIN: f64 = f32::MIN_POSITIVE as f64;

/// One unit of FP32 at `magnitude`, times `units`.
fn ulp(magnitude: f64, units: f64) -> f64 {
    2_f64.powi(-23) * magnitude.abs().max(NORMAL_MIN).log2().floor().exp2() * units
}

/// TOSA's absolute error bound for FP32.
fn absolute(magnitude: f64, units: f64, lowest: f64) -> f64 {
    let floor = if lowest > 0.0 { lowest / units } else { 0.0 };
    2_f64.powi(-23) * magnitude.abs().max(NORMAL_MIN).max(floor) * units
}

#[test]
fn elementary_functions_stay_within_the_bounds() {
    type Function = (&'static str, fn(f64) -> f64, fn(f64, f64) -> f64);
    let functions: [Function; 12] = [
        ("EXP", f64::exp, |x, y| absolute(y, 3.0 + 2.0 * x.abs(), 0.0)),
        ("LOG", f64::ln, |_, y| absolute(y, 5.0, 0.5)),
        ("RECIPROCAL", |x| 1.0 / x, |_, y| ulp(y, 1.0)),
        ("RSQRT", |x| 1.0 / x.sqrt(), |_, y| ulp(y, 2.0)),
        ("SIN", f64::sin, |x, _| (2_f64.powf(-11.5) * x.abs() * 2.0).max(std::f64::consts::PI * NORMAL_MIN)),
        ("COS", f64::cos, |x, _| 2_f64.powf(-11.5) * (1.0 + x.abs())),
        ("TANH", f64::tanh, |x, y| absolute(y, 4.0 * (3.0 + 2.0 * x.abs()), 0.5)),
        ("SIGMOID", |x| 1.0 / (1.0 + (-x).exp()), |x, y| absolute(y, 2.0 * (1.0 + x.abs()), 0.0)),
        ("ERF", erf, |_, y| ulp(y, 5.0)),
        ("CEIL", f64::ceil, |_, _| 0.0),
        ("FLOOR", f64::floor, |_, _| 0.0),
        ("ABS", f64::abs, |_, _| 0.0),
    ];
    // All bit patterns coarsely, the range where the functions bend densely, and special values.
    let mut inputs: Vec<f32> = noise(3, 40_000).iter().map(|&x| f32::from_bits(x)).collect();
    inputs.extend(noise(4, 40_000).iter().map(|&x| (f64::from(x) / 2_f64.powi(32) * 24.0 - 12.0) as f32));
    inputs.extend([
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        88.72,
        -103.9,
        1e-45,
        f32::MAX,
    ]);
    let names: Vec<&str> = functions.iter().map(|f| f.0).collect();
    let Some(outputs) = run(&unary(&names, Fp32, Fp32, inputs.len()), &[&bytes!(inputs)]) else { return };
    for ((name, function, bound), output) in functions.iter().zip(outputs) {
        for (&x, y) in inputs.iter().zip(numbers!(f32, output)) {
            let (wide, y) = (f64::from(x), f64::from(y));
            let expected = function(wide);
            let close = if expected.is_nan() {
                y.is_nan()
            } else if expected.abs() > f64::from(f32::MAX) {
                y == expected || y.abs() == f64::INFINITY && y.signum() == expected.signum()
            } else {
                // Subnormal results may be flushed to zero.
                (y - expected).abs() <= bound(wide, expected) || y == 0.0 && expected.abs() < NORMAL_MIN
            };
            assert!(close, "{name}({x:e}) is {expected:e} and came out as {y:e}");
        }
    }
}

#[test]
fn maximum_and_clamp_treat_nan_as_their_mode_says() {
    let mut w = Writer::new();
    w.input("a", Fp32, &[3]);
    w.input("b", Fp32, &[3]);
    for (i, mode) in [1, 2].into_iter().enumerate() {
        w.op("MAXIMUM", Attribute::Mode(mode), &["a", "b"], &format!("max{i}"), Fp32, &[3]);
        let clamp = Attribute::Clamp { min: bytes!([-1_f32]), max: bytes!([1_f32]), nan_mode: mode };
        w.op("CLAMP", clamp, &["a"], &format!("clamp{i}"), Fp32, &[3]);
    }
    ["max0", "clamp0", "max1", "clamp1"].iter().for_each(|name| w.output(name));
    let (a, b) = ([f32::NAN, 2.0, -3.0], [5.0, f32::NAN, -4.0]);
    let Some(outputs) = run(&w, &[&bytes!(a), &bytes!(b)]) else { return };
    let outputs: Vec<Vec<f32>> = outputs.iter().map(|bytes| numbers!(f32, bytes)).collect();
    assert!(outputs[0][0].is_nan() && outputs[0][1].is_nan() && outputs[0][2] == -3.0);
    assert!(outputs[1][0].is_nan() && outputs[1][1..] == [1.0, -1.0]);
    assert_eq!(outputs[2], [5.0, 2.0, -3.0]);
    assert_eq!(outputs[3], [-1.0, 1.0, -1.0]);
}

/// `[outer, inner]` of every pair of broadcast operands of up to six dimensions.
#[test]
fn every_way_to_broadcast_reads_the_right_element() {
    let shapes: [(&[i32], &[i32]); 12] = [
        (&[5], &[1]),
        (&[1, 8], &[5, 8]),
        (&[5, 8], &[5, 1]),
        (&[5, 3, 1], &[5, 3, 7]),
        (&[1, 7], &[3, 7]),
        (&[3, 1, 5], &[1, 4, 5]),
        (&[2, 3, 1, 5], &[2, 1, 4, 1]),
        (&[2, 1, 3, 1, 2, 3], &[1, 2, 3, 2, 1, 3]),
        (&[2, 1, 2, 1, 3, 1], &[1, 3, 1, 2, 1, 5]),
        (&[3, 2, 16], &[3, 1, 16]),
        (&[3, 32], &[3, 1]),
        (&[2, 3, 16], &[2, 1, 1]),
    ];
    for (left, right) in shapes {
        let output: Vec<i32> = left.iter().zip(right).map(|(a, b)| *a.max(b)).collect();
        let size = |shape: &[i32]| shape.iter().product::<i32>() as usize;
        let a: Vec<i32> = noise(5, size(left)).iter().map(|&x| x as i32).collect();
        let b: Vec<i32> = noise(6, size(right)).iter().map(|&x| x as i32).collect();
        let mut w = Writer::new();
        w.input("a", Int32, left);
        w.input("b", Int32, right);
        w.op("SUB", Attribute::None, &["a", "b"], "c", Int32, &output);
        w.output("c");
        let Some(outputs) = run_both(&w, &[&bytes!(a), &bytes!(b)]) else { return };
        let element = |shape: &[i32], mut index: usize| {
            let mut at = 0;
            let mut step = 1;
            for (&extent, &out) in shape.iter().zip(&output).rev() {
                let i = index % out as usize;
                index /= out as usize;
                at += if extent == 1 { 0 } else { i * step };
                step *= extent as usize;
            }
            at
        };
        let expected: Vec<i32> =
            (0..size(&output)).map(|i| a[element(left, i)].wrapping_sub(b[element(right, i)])).collect();
        assert_eq!(numbers!(i32, outputs[0]), expected, "{left:?} {right:?}");
    }
}

#[test]
fn narrow_integers_shift_and_invert_at_every_tail() {
    for count in [1, 2, 3, 4, 7, 9] {
        let a: Vec<i8> = noise(7, count).iter().map(|&x| x as i8).collect();
        let b: Vec<i8> = noise(8, count).iter().map(|&x| (x % 8) as i8).collect();
        let shape = [count as i32];
        let mut w = Writer::new();
        w.input("a", Int8, &shape);
        w.input("b", Int8, &shape);
        w.op("LOGICAL_LEFT_SHIFT", Attribute::None, &["a", "b"], "left", Int8, &shape);
        w.op("LOGICAL_RIGHT_SHIFT", Attribute::None, &["a", "b"], "right", Int8, &shape);
        w.op("ARITHMETIC_RIGHT_SHIFT", Attribute::Round(true), &["a", "b"], "round", Int8, &shape);
        w.op("BITWISE_NOT", Attribute::None, &["a"], "not", Int8, &shape);
        ["left", "right", "round", "not"].iter().for_each(|name| w.output(name));
        let Some(outputs) = run_both(&w, &[&bytes!(a), &bytes!(b)]) else { return };
        let pairs = || a.iter().zip(&b);
        let expected: [Vec<i8>; 4] = [
            pairs().map(|(a, b)| a << b).collect(),
            pairs().map(|(a, b)| ((*a as u8) >> b) as i8).collect(),
            pairs().map(|(a, b)| ((i32::from(*a) * 2 + (1 << b)) >> (b + 1)) as i8).collect(),
            a.iter().map(|a| !a).collect(),
        ];
        for (output, expected) in outputs.iter().zip(&expected) {
            assert_eq!(&numbers!(i8, output), expected, "{count} elements");
        }
    }
}

/// TOSA's apply_scale in 128 bits, then zero point and clipping.
fn rescale(value: i64, multiplier: i64, shift: i8, double: bool, zero_point: i64, range: [i64; 2]) -> i64 {
    let mut round = 1_i128 << (shift - 1);
    if double && shift > 31 {
        round += if value < 0 { -(1 << 30) } else { 1 << 30 };
    }
    let scaled = (i128::from(value) * i128::from(multiplier) + round) >> shift;
    (scaled as i64 + zero_point).clamp(range[0], range[1])
}

#[test]
fn rescale_rounds_once_or_twice_by_channel_into_signed_and_unsigned() {
    let channels = 5;
    let count = 7 * channels;
    let words: Vec<i32> = noise(9, count).iter().map(|&x| (x as i32) >> (8 + x % 16)).collect();
    let halfwords: Vec<i16> = words.iter().map(|&x| x as i16).collect();
    let multipliers: Vec<i32> = noise(10, channels).iter().map(|&m| (m >> 1 | 1 << 30) as i32).collect();
    let shifts: [i8; 5] = [31, 34, 38, 40, 30];
    let shape = [7, channels as i32];
    for (rounding, unsigned) in [(1, false), (3, false), (1, true), (3, true)] {
        // INT32 does not go into unsigned types.
        let (from, x): (_, Vec<i64>) = if unsigned {
            (Int16, halfwords.iter().map(|&x| x.into()).collect())
        } else {
            (Int32, words.iter().map(|&x| x.into()).collect())
        };
        let mut w = Writer::new();
        w.input("x", from, &shape);
        w.constant("multiplier", Int32, &[channels as i32], &bytes!(multipliers));
        w.constant("shift", Int8, &[channels as i32], &bytes!(shifts));
        w.constant("in_zp", from, &[1], &vec![0; from.bytes().unwrap()]);
        w.constant("out_zp", Int8, &[1], &[if unsigned { 130 } else { 0xfb }]);
        let attributes = Attribute::Rescale {
            scale32: true,
            rounding,
            per_channel: true,
            input_unsigned: false,
            output_unsigned: unsigned,
        };
        w.op("RESCALE", attributes, &["x", "multiplier", "shift", "in_zp", "out_zp"], "y", Int8, &shape);
        w.output("y");
        let input = if unsigned { bytes!(halfwords) } else { bytes!(words) };
        let Some(outputs) = run(&w, &[&input]) else { return };
        let (zero_point, range) = if unsigned { (130, [0, 255]) } else { (-5, [-128, 127]) };
        let expected: Vec<u8> = x
            .iter()
            .enumerate()
            .map(|(i, &x)| {
                let channel = i % channels;
                let multiplier = multipliers[channel].into();
                rescale(x, multiplier, shifts[channel], rounding == 3, zero_point, range) as u8
            })
            .collect();
        assert_eq!(outputs[0], expected, "rounding {rounding}, unsigned {unsigned}");
    }
}

#[test]
fn a_fused_chain_gives_what_its_operators_give_alone() {
    let count = 1003;
    let chain = |keep: bool| {
        let mut w = Writer::new();
        let shape = [count, 1];
        w.input("x", Fp32, &shape);
        w.input("y", Fp16, &shape);
        w.constant("half", Fp32, &[1, 1], &bytes!([0.5_f32]));
        w.op("ADD", Attribute::None, &["x", "half"], "a", Fp32, &shape);
        w.op("TANH", Attribute::None, &["a"], "b", Fp32, &shape);
        w.op("CAST", Attribute::None, &["b"], "c", Fp16, &shape);
        w.op("GREATER", Attribute::None, &["y", "c"], "d", Bool, &shape);
        w.op("LOGICAL_NOT", Attribute::None, &["d"], "e", Bool, &shape);
        w.op("SELECT", Attribute::None, &["e", "x", "half"], "f", Fp32, &shape);
        w.output("f");
        if keep {
            ["a", "b", "c", "d", "e"].iter().for_each(|name| w.output(name));
        }
        w
    };
    let x: Vec<f32> = noise(11, 1003).iter().map(|&x| x as i32 as f32 * 1e-9).collect();
    let y: Vec<u16> =
        noise(12, 1003).iter().map(|&x| f16::from_f32(x as i32 as f32 * 4e-10).to_bits()).collect();
    let Some(fused) = run(&chain(false), &[&bytes!(x), &bytes!(y)]) else { return };
    let alone = run(&chain(true), &[&bytes!(x), &bytes!(y)]).unwrap();
    assert_eq!(fused[0], alone[0]);
    assert!(numbers!(f32, fused[0]).iter().zip(&x).any(|(f, x)| f != x));
}

#[test]
fn casts_there_and_back_lose_what_the_narrow_type_lacks() {
    let mut w = Writer::new();
    w.input("x", Int32, &[9]);
    w.input("f", Fp32, &[9]);
    w.op("CAST", Attribute::None, &["x"], "narrow", Int8, &[9]);
    w.op("CAST", Attribute::None, &["narrow"], "wide", Int32, &[9]);
    w.op("CAST", Attribute::None, &["f"], "half", Fp16, &[9]);
    w.op("CAST", Attribute::None, &["half"], "float", Fp32, &[9]);
    w.output("wide");
    w.output("float");
    let x: Vec<i32> = noise(14, 9).iter().map(|&x| x as i32).collect();
    let f: Vec<f32> = x.iter().map(|&x| x as f32 * 1e-6).collect();
    let Some(outputs) = run(&w, &[&bytes!(x), &bytes!(f)]) else { return };
    assert_eq!(numbers!(i32, outputs[0]), x.iter().map(|&x| i32::from(x as i8)).collect::<Vec<_>>());
    let rounded: Vec<f32> = f.iter().map(|&f| f16::from_f32(f).to_f32()).collect();
    assert_eq!(numbers!(f32, outputs[1]), rounded);
}

#[test]
fn tables_look_up_and_interpolate() {
    let bytes8: Vec<i8> = (0..=255).map(|i| (i as u8 ^ 0x5a) as i8).collect();
    let table16: Vec<i16> = (0..513).map(|i| ((i - 256) * (i - 256) / 4) as i16).collect();
    let mut w = Writer::new();
    w.input("x", Int8, &[256]);
    w.input("z", Int16, &[501]);
    w.constant("t8", Int8, &[256], &bytes!(bytes8));
    w.constant("t16", Int16, &[513], &bytes!(table16));
    w.op("TABLE", Attribute::None, &["x", "t8"], "y", Int8, &[256]);
    w.op("TABLE", Attribute::None, &["z", "t16"], "v", Int32, &[501]);
    w.output("y");
    w.output("v");
    let x: Vec<i8> = (0..=255).map(|i: u8| i.wrapping_mul(77) as i8).collect();
    let mut z: Vec<i16> = noise(13, 499).iter().map(|&x| x as i16).collect();
    z.extend([i16::MIN, i16::MAX]);
    let Some(outputs) = run(&w, &[&bytes!(x), &bytes!(z)]) else { return };
    let expected: Vec<i8> = x.iter().map(|&x| bytes8[(i32::from(x) + 128) as usize]).collect();
    assert_eq!(numbers!(i8, outputs[0]), expected);
    let interpolated = |x: i16| {
        let at = i32::from(x) + 32_768;
        let (index, fraction) = ((at >> 7) as usize, at & 127);
        let (base, next) = (i32::from(table16[index]), i32::from(table16[index + 1]));
        base * 128 + (next - base) * fraction
    };
    assert_eq!(numbers!(i32, outputs[1]), z.iter().map(|&z| interpolated(z)).collect::<Vec<_>>());
}
