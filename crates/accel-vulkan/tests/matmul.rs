//! MATMUL against an oracle in double precision, with the kernels of CPUs and of GPUs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_tosa::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{caps, noise, run_tuned};
use half::{bf16, f16};

/// The kernels of few rows also where B is small. CPUs have none of them.
const STREAM: &str = "skinny=2";

/// Batches, rows, columns, depth: odd tails, single elements, both sides of a tile, splits of a deep k; whole vectors of
/// columns for every number of rows at a time.
const SIZES: [[usize; 4]; 13] = [
    [1, 1, 1, 1],
    [3, 5, 7, 3],
    [1, 1, 131, 70],
    [2, 2, 65, 513],
    [1, 8, 64, 1024],
    [1, 9, 1, 40],
    [2, 17, 19, 33],
    [1, 70, 133, 259],
    [1, 1, 272, 700],
    [2, 2, 16, 33],
    [1, 3, 48, 130],
    [3, 21, 32, 40],
    [2, 70, 132, 76],
];

fn graph(size: [usize; 4], from: DType, to: DType, zero_points: [&[u8]; 2]) -> Writer {
    let [batches, m, n, k] = size.map(|extent| extent as i32);
    let mut w = Writer::new();
    w.input("a", from, &[batches, m, k]);
    w.input("b", from, &[batches, k, n]);
    w.constant("a_zp", from, &[1], zero_points[0]);
    w.constant("b_zp", from, &[1], zero_points[1]);
    w.op("MATMUL", Attribute::None, &["a", "b", "a_zp", "b_zp"], "c", to, &[batches, m, n]);
    w.output("c");
    w
}

/// Each product's sum and the sum of its terms' magnitudes.
fn oracle([batches, m, n, k]: [usize; 4], a: &[f64], b: &[f64]) -> Vec<(f64, f64)> {
    let mut sums = Vec::new();
    for batch in 0..batches {
        for row in 0..m {
            for column in 0..n {
                let terms = (0..k).map(|i| a[(batch * m + row) * k + i] * b[(batch * k + i) * n + column]);
                sums.push(terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs())));
            }
        }
    }
    sums
}

/// Checks that sums in FP32, rounded to a type with this spacing, are as near as any order of addition makes them.
fn check(size: [usize; 4], result: &[f64], expected: &[(f64, f64)], spacing: f64) {
    for (at, (&value, &(sum, magnitude))) in result.iter().zip(expected).enumerate() {
        let bound = (size[3] + 64) as f64 * magnitude * 2f64.powi(-24) + sum.abs() * spacing + 1e-7;
        assert!((value - sum).abs() <= bound, "{size:?} element {at}: {value} instead of {sum}");
    }
}

fn values(seed: u32, count: usize) -> Vec<f32> {
    noise(seed, count).iter().map(|&x| (x as i32 >> 12) as f32 / (1 << 18) as f32).collect()
}

fn single(x: f32) -> (Vec<u8>, f64) {
    (x.to_le_bytes().to_vec(), f64::from(x))
}

fn half(x: f32) -> (Vec<u8>, f64) {
    let x = f16::from_f32(x);
    (x.to_le_bytes().to_vec(), x.to_f64())
}

fn brain(x: f32) -> (Vec<u8>, f64) {
    let x = bf16::from_f32(x);
    (x.to_le_bytes().to_vec(), x.to_f64())
}

/// Products of operands that `encode` makes, with results in FP32 or FP16.
fn floats(from: DType, to: DType, encode: fn(f32) -> (Vec<u8>, f64)) {
    for size in SIZES {
        let [batches, m, n, k] = size;
        let operand = |seed, count| {
            let encoded = values(seed, count).into_iter().map(encode);
            encoded.fold((Vec::new(), Vec::new()), |(mut bytes, mut numbers), (x, number)| {
                bytes.extend(x);
                numbers.push(number);
                (bytes, numbers)
            })
        };
        let ((a, a_values), (b, b_values)) = (operand(1, batches * m * k), operand(2, batches * k * n));
        let zero = &[0; 4][..from.bytes().unwrap()];
        let w = graph(size, from, to, [zero; 2]);
        let expected = oracle(size, &a_values, &b_values);
        for kind in [Cpu, Discrete] {
            let Some(c) = run_tuned(kind, STREAM, &w, &[&a, &b]) else { return };
            let (c, spacing): (Vec<f64>, f64) = match to {
                Fp16 => (numbers!(f16, c[0]).iter().map(|c| c.to_f64()).collect(), 2f64.powi(-11)),
                _ => (numbers!(f32, c[0]).iter().map(|&c| f64::from(c)).collect(), 0.0),
            };
            check(size, &c, &expected, spacing);
        }
    }
}

#[test]
fn single_precision() {
    floats(Fp32, Fp32, single);
}

#[test]
fn large_blocks_of_single_precision() {
    let size = [1, 140, 136, 52];
    let (a, b) = (values(1, 140 * 52), values(2, 52 * 136));
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let w = graph(size, Fp32, Fp32, [&[0; 4]; 2]);
    // CPU implementations compile eight steps without a loop for minutes.
    let steps = if caps().is_some_and(|caps| caps.kind == Cpu) { ",blocked.step=1" } else { "" };
    for geometry in ["blocked.geometry=0", "blocked.geometry=1"] {
        let Some(c) = run_tuned(Discrete, &(geometry.to_owned() + steps), &w, &[&bytes!(a), &bytes!(b)])
        else {
            return;
        };
        check(size, &wide(&numbers!(f32, c[0])), &oracle(size, &wide(&a), &wide(&b)), 0.0);
    }
}

#[test]
fn half_precision_is_summed_in_single() {
    floats(Fp16, Fp16, half);
}

#[test]
fn half_precision_with_single_results() {
    floats(Fp16, Fp32, half);
}

#[test]
fn bfloat16_with_single_results() {
    floats(Bf16, Fp32, brain);
}

#[test]
fn bytes_are_summed_exactly_without_their_zero_points() {
    for size in SIZES {
        let [batches, m, n, k] = size;
        let bytes = |seed, count| noise(seed, count).iter().map(|&x| x as i8).collect::<Vec<i8>>();
        let (mut a, mut b) = (bytes(3, batches * m * k), bytes(4, batches * k * n));
        (a[0], b[0]) = (-128, -128);
        let less = |x: &[i8], zero: i8| x.iter().map(|&x| f64::from(x) - f64::from(zero)).collect::<Vec<_>>();
        let expected: Vec<i32> =
            oracle(size, &less(&a, 127), &less(&b, -5)).iter().map(|s| s.0 as i32).collect();
        let w = graph(size, Int8, Int32, [&[127], &[251]]);
        for kind in [Cpu, Discrete] {
            let Some(c) = run_tuned(kind, STREAM, &w, &[&bytes!(a), &bytes!(b)]) else { return };
            assert_eq!(numbers!(i32, c[0]), expected, "{size:?}");
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let size = [1, 3, 200, 5000];
    let (a, b) = (values(5, 3 * 5000), values(6, 5000 * 200));
    let w = graph(size, Fp32, Fp32, [&[0; 4]; 2]);
    let Some(first) = run_tuned(Discrete, STREAM, &w, &[&bytes!(a), &bytes!(b)]) else { return };
    for _ in 0..3 {
        assert_eq!(run_tuned(Discrete, STREAM, &w, &[&bytes!(a), &bytes!(b)]).unwrap(), first);
    }
}

/// E4M3 and E5M2 by their definition: exponent bias and bits of the mantissa.
fn eight_bits(code: u8, bias: i32, mantissa: u32) -> f64 {
    let magnitude = u32::from(code & 0x7f);
    let (exponent, fraction) = ((magnitude >> mantissa) as i32, magnitude & ((1 << mantissa) - 1));
    let unit = 2f64.powi(-(mantissa as i32));
    let value = match exponent {
        0 => f64::from(fraction) * unit * 2f64.powi(1 - bias),
        _ => (1.0 + f64::from(fraction) * unit) * 2f64.powi(exponent - bias),
    };
    if code < 0x80 { value } else { -value }
}

#[test]
fn eight_bit_floats_of_every_code_are_exact_factors() {
    for (dtype, bias, mantissa, last) in [(Fp8E4M3, 7, 3, 0x7e_u8), (Fp8E5M2, 15, 2, 0x7b)] {
        for size in [[1, 1, 272, 70], [1, 2, 256, 1], [1, 7, 32, 300]] {
            let [batches, m, n, k] = size;
            let codes = |seed, count: usize, most: u8| {
                let code = |(at, x): (usize, u32)| {
                    // Every code once where there is room.
                    let code = if at < 256 { at as u8 } else { x as u8 };
                    (code & 0x7f).min(most) | code & 0x80
                };
                noise(seed, count).into_iter().enumerate().map(code).collect::<Vec<u8>>()
            };
            // A stays small, so that sums fit FP16.
            let (a, b) = (codes(7, batches * m * k, 0x10), codes(8, batches * k * n, last));
            let numbers =
                |codes: &[u8]| codes.iter().map(|&c| eight_bits(c, bias, mantissa)).collect::<Vec<_>>();
            let expected = oracle(size, &numbers(&a), &numbers(&b));
            let w = graph(size, dtype, Fp16, [&[0]; 2]);
            for kind in [Cpu, Discrete] {
                let Some(c) = run_tuned(kind, STREAM, &w, &[&a, &b]) else { return };
                let c: Vec<f64> = numbers!(f16, c[0]).iter().map(|c| c.to_f64()).collect();
                check(size, &c, &expected, 2f64.powi(-11));
            }
        }
    }
}

#[test]
fn a_nan_among_eight_bit_floats_spoils_its_column_alone() {
    let [m, n, k] = [2, 64, 50];
    let (a, mut b) = (vec![0x38_u8; m * k], vec![0x30_u8; k * n]);
    b[17 * n + 5] = 0x7f;
    b[49 * n + 63] = 0xff;
    for kind in [Cpu, Discrete] {
        let w = graph([1, m, n, k], Fp8E4M3, Fp16, [&[0]; 2]);
        let Some(c) = run_tuned(kind, STREAM, &w, &[&a, &b]) else { return };
        for (at, c) in numbers!(f16, c[0]).iter().enumerate() {
            let column = at % n;
            assert_eq!(c.is_nan(), column == 5 || column == 63, "{kind:?} element {at}: {c}");
        }
    }
}

#[test]
fn weights_that_are_cast_from_eight_bits_are_decoded_by_the_product() {
    let [m, n, k] = [3, 96, 70];
    let a: Vec<f16> = values(9, m * k).into_iter().map(f16::from_f32).collect();
    for (dtype, bias, mantissa, last) in [(Fp8E4M3, 7, 3, 0x7e_u8), (Fp8E5M2, 15, 2, 0x5b)] {
        let b: Vec<u8> =
            noise(10, k * n).iter().map(|&x| (x as u8 & 0x7f).min(last) | x as u8 & 0x80).collect();
        let mut w = Writer::new();
        w.input("a", Fp16, &[1, m as i32, k as i32]);
        w.input("codes", dtype, &[1, k as i32, n as i32]);
        w.op("CAST", Attribute::None, &["codes"], "b", Fp16, &[1, k as i32, n as i32]);
        w.constant("zero", Fp16, &[1], &[0; 2]);
        w.op("MATMUL", Attribute::None, &["a", "b", "zero", "zero"], "c", Fp32, &[1, m as i32, n as i32]);
        w.output("c");
        let a_values: Vec<f64> = a.iter().map(|x| x.to_f64()).collect();
        let b_values: Vec<f64> = b.iter().map(|&c| eight_bits(c, bias, mantissa)).collect();
        let expected = oracle([1, m, n, k], &a_values, &b_values);
        for kind in [Cpu, Discrete] {
            let Some(c) = run_tuned(kind, STREAM, &w, &[&bytes!(a), &b]) else { return };
            let c: Vec<f64> = numbers!(f32, c[0]).iter().map(|&c| f64::from(c)).collect();
            check([1, m, n, k], &c, &expected, 0.0);
        }
    }
}

#[test]
fn products_with_a_transposed_factor_take_any_two_floats() {
    let sizes = [[3, 5, 7, 3], [2, 17, 19, 33], [1, 70, 133, 259]];
    for (size, shared) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let [batches, m, n, k] = size;
        let b_batches = if shared { 1 } else { batches };
        let (a, b) = (values(11, batches * m * k), values(12, b_batches * n * k));
        // The oracle's B is [batch][k][n].
        let columns = (0..batches * k * n).map(|at| {
            let (batch, i, column) = (at / (k * n) % b_batches, at / n % k, at % n);
            f64::from(bf16::from_f32(b[(batch * n + column) * k + i]))
        });
        let halves: Vec<f64> = a.iter().map(|&x| f16::from_f32(x).to_f64()).collect();
        let expected = oracle(size, &halves, &columns.collect::<Vec<_>>());
        let a: Vec<f16> = a.iter().map(|&x| f16::from_f32(x)).collect();
        let b: Vec<bf16> = b.iter().map(|&x| bf16::from_f32(x)).collect();
        for (to, spacing) in [(Fp32, 0.0), (Bf16, 2f64.powi(-8))] {
            let mut w = Writer::new();
            w.version = [1, 1, 0];
            let dims = |list: [usize; 3]| list.map(|extent| extent as i32);
            w.input("a", Fp16, &dims([batches, m, k]));
            w.input("b", Bf16, &dims([b_batches, n, k]));
            w.constant("a_zp", Fp16, &[1], &[0; 2]);
            w.constant("b_zp", Bf16, &[1], &[0; 2]);
            w.op("MATMUL_T", Attribute::None, &["a", "b", "a_zp", "b_zp"], "c", to, &dims([batches, m, n]));
            w.output("c");
            for kind in [Cpu, Discrete] {
                let Some(c) = run_tuned(kind, STREAM, &w, &[&bytes!(a), &bytes!(b)]) else { return };
                let c: Vec<f64> = if to == Fp32 {
                    numbers!(f32, c[0]).into_iter().map(f64::from).collect()
                } else {
                    numbers!(bf16, c[0]).into_iter().map(bf16::to_f64).collect()
                };
                check(size, &c, &expected, spacing);
            }
        }
    }
}
