//! MATMUL against an oracle in double precision, with the kernels of CPUs and of GPUs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_tosa::DType::{self, Bf16, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run_as};
use half::{bf16, f16};

/// Batches, rows, columns, depth: odd tails, single elements, both sides of a tile, splits of a deep k.
const SIZES: [[usize; 4]; 9] = [
    [1, 1, 1, 1],
    [3, 5, 7, 3],
    [1, 1, 131, 70],
    [2, 2, 65, 513],
    [1, 8, 64, 1024],
    [1, 9, 1, 40],
    [2, 17, 19, 33],
    [1, 64, 64, 16],
    [1, 70, 133, 259],
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
fn check(name: &str, size: [usize; 4], result: &[f64], expected: &[(f64, f64)], spacing: f64) {
    for (at, (&value, &(sum, magnitude))) in result.iter().zip(expected).enumerate() {
        let bound = (size[3] + 64) as f64 * magnitude * 2f64.powi(-24) + sum.abs() * spacing + 1e-7;
        assert!((value - sum).abs() <= bound, "{name} {size:?} element {at}: {value} instead of {sum}");
    }
}

fn values(seed: u32, count: usize) -> Vec<f32> {
    noise(seed, count).iter().map(|&x| (x as i32 >> 12) as f32 / (1 << 18) as f32).collect()
}

#[test]
fn floats_are_summed_in_single_precision() {
    for size in SIZES {
        let [batches, m, n, k] = size;
        let (a, b) = (values(1, batches * m * k), values(2, batches * k * n));
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (a16, b16) = (a.iter().map(|&x| f16::from_f32(x)), b.iter().map(|&x| f16::from_f32(x)));
        let (a16, b16): (Vec<f16>, Vec<f16>) = (a16.collect(), b16.collect());
        let wide16 = |x: &[f16]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
        let (abf, bbf) = (a.iter().map(|&x| bf16::from_f32(x)), b.iter().map(|&x| bf16::from_f32(x)));
        let (abf, bbf): (Vec<bf16>, Vec<bf16>) = (abf.collect(), bbf.collect());
        let widebf = |x: &[bf16]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
        for kind in [Cpu, Discrete] {
            let w = graph(size, Fp32, Fp32, [&[0; 4]; 2]);
            let Some(c) = run_as(kind, &w, &[&bytes!(a), &bytes!(b)]) else { return };
            let expected = oracle(size, &wide(&a), &wide(&b));
            check("f32", size, &wide(&numbers!(f32, c[0])), &expected, 0.0);

            let expected = oracle(size, &wide16(&a16), &wide16(&b16));
            let inputs: [&[u8]; 2] = [&bytes!(a16), &bytes!(b16)];
            let c = run_as(kind, &graph(size, Fp16, Fp16, [&[0; 2]; 2]), &inputs).unwrap();
            check("f16", size, &wide16(&numbers!(f16, c[0])), &expected, 2f64.powi(-11));
            let c = run_as(kind, &graph(size, Fp16, Fp32, [&[0; 2]; 2]), &inputs).unwrap();
            check("f16 to f32", size, &wide(&numbers!(f32, c[0])), &expected, 0.0);

            let expected = oracle(size, &widebf(&abf), &widebf(&bbf));
            let inputs: [&[u8]; 2] = [&bytes!(abf), &bytes!(bbf)];
            let c = run_as(kind, &graph(size, Bf16, Fp32, [&[0; 2]; 2]), &inputs).unwrap();
            check("bf16 to f32", size, &wide(&numbers!(f32, c[0])), &expected, 0.0);
        }
    }
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
            let Some(c) = run_as(kind, &w, &[&bytes!(a), &bytes!(b)]) else { return };
            assert_eq!(numbers!(i32, c[0]), expected, "{size:?}");
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let size = [1, 3, 200, 5000];
    let (a, b) = (values(5, 3 * 5000), values(6, 5000 * 200));
    let w = graph(size, Fp32, Fp32, [&[0; 4]; 2]);
    let Some(first) = run_as(Discrete, &w, &[&bytes!(a), &bytes!(b)]) else { return };
    for _ in 0..3 {
        assert_eq!(run_as(Discrete, &w, &[&bytes!(a), &bytes!(b)]).unwrap(), first);
    }
}
