//! FFT2D and RFFT2D against a sum in double precision.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::f64::consts::TAU;

use accel_tosa::DType::Fp32;
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run};

const SHAPE: [usize; 3] = [2, 8, 16];

fn values(seed: u32) -> Vec<f32> {
    noise(seed, SHAPE.iter().product()).iter().map(|&n| n as i32 as f32 / 2_f32.powi(31)).collect()
}

/// Real and imaginary part of one result.
fn sum(real: &[f32], imaginary: &[f32], at: [usize; 3], inverse: bool) -> [f64; 2] {
    let [_, h, w] = SHAPE;
    let mut sum = [0.0; 2];
    for i in 0..h * w {
        let (y, x) = (i / w, i % w);
        let turn = (y * at[1]) as f64 / h as f64 + (x * at[2]) as f64 / w as f64;
        let (sin, cos) = (TAU * if inverse { turn } else { -turn }).sin_cos();
        let [re, im] = [real, imaginary].map(|part| f64::from(part[at[0] * h * w + i]));
        sum[0] += re * cos - im * sin;
        sum[1] += re * sin + im * cos;
    }
    sum
}

fn check(found: &[Vec<u8>], width: usize, wanted: impl Fn([usize; 3]) -> [f64; 2]) {
    let [real, imaginary] = [0, 1].map(|part| numbers!(f32, found[part]));
    assert_eq!([real.len(), imaginary.len()], [SHAPE[0] * SHAPE[1] * width; 2]);
    for (i, found) in real.into_iter().zip(imaginary).map(|(re, im)| [re, im]).enumerate() {
        let at = [i / width / SHAPE[1], i / width % SHAPE[1], i % width];
        for (part, (found, wanted)) in found.into_iter().zip(wanted(at)).enumerate() {
            let error = (f64::from(found) - wanted).abs();
            assert!(error < 128.0 * 2_f64.powi(-23), "part {part} of {at:?} is off by {error}");
        }
    }
}

#[test]
fn complex_transforms_go_both_ways() {
    let shape = SHAPE.map(|extent| extent as i32);
    let (real, imaginary) = (values(1), values(2));
    for inverse in [false, true] {
        let mut w = Writer::new();
        for name in ["re", "im"] {
            w.input(name, Fp32, &shape);
        }
        for name in ["out re", "out im"] {
            w.tensor(name, Fp32, &shape);
            w.output(name);
        }
        w.raw("FFT2D", Attribute::Fft(inverse), &["re", "im"], &["out re", "out im"]);
        let Some(found) = run(&w, &[&bytes!(real), &bytes!(imaginary)]) else { return };
        check(&found, SHAPE[2], |at| sum(&real, &imaginary, at, inverse));
    }
}

#[test]
fn real_transforms_make_half_the_columns() {
    let (real, zero) = (values(3), vec![0.0; SHAPE.iter().product()]);
    let width = SHAPE[2] / 2 + 1;
    let mut w = Writer::new();
    w.input("re", Fp32, &SHAPE.map(|extent| extent as i32));
    for name in ["out re", "out im"] {
        w.tensor(name, Fp32, &[SHAPE[0] as i32, SHAPE[1] as i32, width as i32]);
        w.output(name);
    }
    w.raw("RFFT2D", Attribute::None, &["re"], &["out re", "out im"]);
    let Some(found) = run(&w, &[&bytes!(real)]) else { return };
    check(&found, width, |at| sum(&real, &zero, at, false));
    assert_eq!(numbers!(f32, found[1])[0], 0.0, "the sum of real numbers is real");
}
