//! Softmax and normalisation patterns, which are one launch on GPUs, against double precision.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_tosa::DType::{self, Fp16, Fp32, Int8};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run_tuned};
use half::f16;

fn axis() -> Attribute {
    Attribute::Axis { axis: 1, nan_mode: 0 }
}

/// Softmax as front-ends write it; in FP32 between two CASTs where `dtype` is FP16.
fn softmax(dtype: DType, rows: i32, columns: i32) -> Writer {
    let (full, one) = ([rows, columns], [rows, 1]);
    let mut w = Writer::new();
    w.input("x", dtype, &full);
    w.constant("shift", Int8, &[1], &[0]);
    let x = if dtype == Fp32 { "x" } else { "wide" };
    if dtype != Fp32 {
        w.op("CAST", Attribute::None, &["x"], "wide", Fp32, &full);
    }
    w.op("REDUCE_MAX", Attribute::Axis { axis: 1, nan_mode: 1 }, &[x], "max", Fp32, &one);
    w.op("SUB", Attribute::None, &[x, "max"], "d", Fp32, &full);
    w.op("EXP", Attribute::None, &["d"], "e", Fp32, &full);
    w.op("REDUCE_SUM", axis(), &["e"], "sum", Fp32, &one);
    w.op("RECIPROCAL", Attribute::None, &["sum"], "r", Fp32, &one);
    w.op("MUL", Attribute::None, &["e", "r", "shift"], "y", Fp32, &full);
    if dtype != Fp32 {
        w.op("CAST", Attribute::None, &["y"], "z", dtype, &full);
    }
    w.output(if dtype == Fp32 { "y" } else { "z" });
    w
}

#[test]
fn softmax_of_rows_of_every_length() {
    for (rows, columns) in [(3, 8), (5, 100), (2, 2056), (300, 24)] {
        let x: Vec<f16> = noise(1, rows * columns)
            .iter()
            .map(|&x| f16::from_f32((x as i32 >> 20) as f32 / 128.0))
            .collect();
        let expected: Vec<f64> = x
            .chunks(columns)
            .flat_map(|row| {
                let max = row.iter().map(|x| x.to_f64()).fold(f64::MIN, f64::max);
                let e: Vec<f64> = row.iter().map(|x| (x.to_f64() - max).exp()).collect();
                let sum: f64 = e.iter().sum();
                e.into_iter().map(move |e| e / sum)
            })
            .collect();
        let single: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        for kind in [Cpu, Discrete] {
            let w = softmax(Fp32, rows as i32, columns as i32);
            let Some(y) = run_tuned(kind, "", &w, &[&bytes!(single)]) else { return };
            for (y, expected) in numbers!(f32, y[0]).iter().zip(&expected) {
                let error = (f64::from(*y) - expected).abs();
                assert!(error <= expected * 4e-6 + 1e-37, "{rows}x{columns}: {y} not {expected}");
            }
            let w = softmax(Fp16, rows as i32, columns as i32);
            let y = run_tuned(kind, "", &w, &[&bytes!(x)]).unwrap();
            for (y, expected) in numbers!(f16, y[0]).iter().zip(&expected) {
                let error = (y.to_f64() - expected).abs();
                assert!(error <= expected * 6e-4 + 4e-8, "{rows}x{columns}: {y} not {expected}");
            }
        }
    }
}

#[test]
fn a_nan_spoils_its_row_alone() {
    let mut x = vec![1.0_f32; 4 * 16];
    x[16 + 3] = f32::NAN;
    x[2 * 16 + 5] = f32::INFINITY;
    x[3 * 16..].fill(f32::NEG_INFINITY);
    for kind in [Cpu, Discrete] {
        let Some(y) = run_tuned(kind, "", &softmax(Fp32, 4, 16), &[&bytes!(x)]) else { return };
        let y = numbers!(f32, y[0]);
        assert!(y[..16].iter().all(|&y| y == 0.0625));
        assert!(y[16..32].iter().all(|y| y.is_nan()) && y[48..].iter().all(|y| y.is_nan()));
        assert!(y[32 + 5].is_nan());
        let x: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
        let y = numbers!(f16, run_tuned(kind, "", &softmax(Fp16, 4, 16), &[&bytes!(x)]).unwrap()[0]);
        assert!(y[..16].iter().all(|&y| y.to_f32() == 0.0625));
        assert!(y[16..32].iter().chain(&y[48..]).all(|y| y.is_nan()) && y[32 + 5].is_nan());
    }
}

#[test]
fn a_normalisation_with_weights_and_a_residual() {
    let (rows, columns) = (7_usize, 45_usize);
    let (full, one, row) = ([7, 45], [7, 1], [1, 45]);
    let mut w = Writer::new();
    w.input("x", Fp32, &full);
    w.input("gamma", Fp32, &row);
    w.input("residual", Fp32, &full);
    w.constant("n", Fp32, &[1, 1], &(1.0 / columns as f32).to_le_bytes());
    w.constant("epsilon", Fp32, &[1, 1], &1e-5_f32.to_le_bytes());
    w.constant("shift", Int8, &[1], &[0]);
    w.op("REDUCE_SUM", axis(), &["x"], "sum", Fp32, &one);
    w.op("MUL", Attribute::None, &["sum", "n", "shift"], "mean", Fp32, &one);
    w.op("SUB", Attribute::None, &["x", "mean"], "d", Fp32, &full);
    w.op("MUL", Attribute::None, &["d", "d", "shift"], "squares", Fp32, &full);
    w.op("REDUCE_SUM", axis(), &["squares"], "power", Fp32, &one);
    w.op("MUL", Attribute::None, &["power", "n", "shift"], "variance", Fp32, &one);
    w.op("ADD", Attribute::None, &["variance", "epsilon"], "above", Fp32, &one);
    w.op("RSQRT", Attribute::None, &["above"], "scale", Fp32, &one);
    w.op("MUL", Attribute::None, &["d", "scale", "shift"], "normal", Fp32, &full);
    w.op("MUL", Attribute::None, &["normal", "gamma", "shift"], "weighted", Fp32, &full);
    w.op("ADD", Attribute::None, &["weighted", "residual"], "y", Fp32, &full);
    w.output("y");
    let values = |seed, count| noise(seed, count).iter().map(|&x| (x as i32 >> 16) as f32 / 8192.0).collect();
    let (x, gamma, residual): (Vec<f32>, Vec<f32>, Vec<f32>) =
        (values(1, rows * columns), values(2, columns), values(3, rows * columns));
    for kind in [Cpu, Discrete] {
        let inputs = [&bytes!(x)[..], &bytes!(gamma), &bytes!(residual)];
        let Some(y) = run_tuned(kind, "", &w, &inputs) else { return };
        for (r, y) in numbers!(f32, y[0]).chunks(columns).enumerate() {
            let row: Vec<f64> = x[r * columns..][..columns].iter().map(|&x| f64::from(x)).collect();
            let mean = row.iter().sum::<f64>() / columns as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
            for (c, y) in y.iter().enumerate() {
                let normal = (row[c] - mean) / (variance + 1e-5).sqrt();
                let expected = normal * f64::from(gamma[c]) + f64::from(residual[r * columns + c]);
                assert!((f64::from(*y) - expected).abs() <= 1e-4, "{kind:?} {r} {c}: {y} not {expected}");
            }
        }
    }
}
