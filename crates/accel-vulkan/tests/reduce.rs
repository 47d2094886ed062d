//! Reductions and ARGMAX against scalar oracles: every axis, short and long, tails, NaN.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{self, Cpu, Discrete};
use accel_tosa::DType::{self, Bool, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run_as};
use half::f16;

fn reduce(
    kind: DeviceKind,
    op: &str,
    dtype: DType,
    shape: &[i32],
    axis: usize,
    nan_mode: u32,
    input: &[u8],
) -> Option<Vec<u8>> {
    let mut w = Writer::new();
    w.input("x", dtype, shape);
    let mut output = shape.to_vec();
    let argmax = op == "ARGMAX";
    if argmax {
        output.remove(axis);
    } else {
        output[axis] = 1;
    }
    let result = if argmax { Int32 } else { dtype };
    w.op(op, Attribute::Axis { axis: axis as i32, nan_mode }, &["x"], "y", result, &output);
    w.output("y");
    Some(run_as(kind, &w, &[input])?.remove(0))
}

/// The elements that each output sees.
fn lines<T: Copy>(values: &[T], shape: &[i32], axis: usize) -> Vec<Vec<T>> {
    let size = |dims: &[i32]| dims.iter().product::<i32>() as usize;
    let (outer, extent, inner) = (size(&shape[..axis]), shape[axis] as usize, size(&shape[axis + 1..]));
    let at = |o: usize, a: usize, i: usize| values[(o * extent + a) * inner + i];
    let line = |o, i| (0..extent).map(|a| at(o, a, i)).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))).map(|(o, i)| line(o, i)).collect()
}

/// Short axes, whole subgroups, the two-pass length, ragged rows; and columns of whole vectors of every type, short and cut
/// into parts.
const SHAPES: [(&[i32], usize); 12] = [
    (&[3, 5, 7], 0),
    (&[3, 5, 7], 1),
    (&[3, 5, 7], 2),
    (&[5, 64], 1),
    (&[6, 300], 1),
    (&[2, 3001], 1),
    (&[50_001], 0),
    (&[20_001, 3], 0),
    (&[2, 37, 48], 1),
    (&[3001, 32], 0),
    (&[300, 512], 1),
    (&[4, 65], 1),
];

/// Every shape with the kernels of CPUs and of GPUs.
fn cases() -> impl Iterator<Item = (DeviceKind, &'static [i32], usize)> {
    [Cpu, Discrete].into_iter().flat_map(|kind| SHAPES.map(|(shape, axis)| (kind, shape, axis)))
}

#[test]
fn sums_of_floats_are_close_and_of_integers_exact() {
    for (kind, shape, axis) in cases() {
        let count = shape.iter().product::<i32>() as usize;
        let ints: Vec<i32> = noise(1, count).iter().map(|&x| x as i32).collect();
        let Some(sums) = reduce(kind, "REDUCE_SUM", Int32, shape, axis, 0, &bytes!(ints)) else { return };
        let expected: Vec<i32> = lines(&ints, shape, axis)
            .iter()
            .map(|l| l.iter().fold(0, |a: i32, &x| a.wrapping_add(x)))
            .collect();
        assert_eq!(numbers!(i32, sums), expected, "{shape:?} {axis}");

        let floats: Vec<f32> = ints.iter().map(|&x| x as f32 * 1e-9).collect();
        let sums = numbers!(f32, reduce(kind, "REDUCE_SUM", Fp32, shape, axis, 0, &bytes!(floats)).unwrap());
        for (sum, line) in sums.iter().zip(lines(&floats, shape, axis)) {
            let exact: f64 = line.iter().map(|&x| f64::from(x)).sum();
            let magnitude: f64 = line.iter().map(|&x| f64::from(x).abs()).sum();
            assert!(
                (f64::from(*sum) - exact).abs() <= magnitude * 1e-6,
                "{shape:?} {axis}: {sum} not {exact}"
            );
        }
        let again = numbers!(f32, reduce(kind, "REDUCE_SUM", Fp32, shape, axis, 0, &bytes!(floats)).unwrap());
        assert_eq!(sums, again);

        let halves: Vec<f16> = floats.iter().map(|&x| f16::from_f32(x)).collect();
        let sums = numbers!(u16, reduce(kind, "REDUCE_SUM", Fp16, shape, axis, 0, &bytes!(halves)).unwrap());
        for (sum, line) in sums.iter().zip(lines(&halves, shape, axis)) {
            let exact: f64 = line.iter().map(|&x| x.to_f64()).sum();
            let sum = f16::from_bits(*sum).to_f64();
            assert!((sum - exact).abs() <= exact.abs() * 1e-3 + 1e-3, "{shape:?} {axis}: {sum} not {exact}");
        }
    }
}

#[test]
fn extremes_and_truths_are_exact() {
    for (kind, shape, axis) in cases() {
        let count = shape.iter().product::<i32>() as usize;
        let bytes: Vec<i8> = noise(2, count).iter().map(|&x| x as i8).collect();
        let Some(max) = reduce(kind, "REDUCE_MAX", Int8, shape, axis, 1, &bytes!(bytes)) else { return };
        let min = reduce(kind, "REDUCE_MIN", Int8, shape, axis, 1, &bytes!(bytes)).unwrap();
        let expected = lines(&bytes, shape, axis);
        assert_eq!(numbers!(i8, max), expected.iter().map(|l| *l.iter().max().unwrap()).collect::<Vec<_>>());
        assert_eq!(numbers!(i8, min), expected.iter().map(|l| *l.iter().min().unwrap()).collect::<Vec<_>>());

        let halves: Vec<f16> =
            noise(7, count).iter().map(|&x| f16::from_f32((x as i32 >> 8) as f32 * 2f32.powi(-34))).collect();
        for (op, nan_mode) in [("REDUCE_MAX", 1), ("REDUCE_MIN", 2)] {
            let found = reduce(kind, op, Fp16, shape, axis, nan_mode, &bytes!(halves)).unwrap();
            let best = |line: &Vec<f16>| {
                let order = |a: &&f16, b: &&f16| a.total_cmp(b);
                if op == "REDUCE_MAX" { line.iter().max_by(order) } else { line.iter().min_by(order) }
                    .copied()
            };
            let expected: Vec<f16> = lines(&halves, shape, axis).iter().filter_map(best).collect();
            assert!(numbers!(f16, found) == expected, "{op} of halves, {shape:?} {axis}");
        }

        let truths: Vec<u8> = noise(3, count).iter().map(|&x| u8::from(x % 16 != 0)).collect();
        let all = reduce(kind, "REDUCE_ALL", Bool, shape, axis, 0, &truths).unwrap();
        let any = reduce(kind, "REDUCE_ANY", Bool, shape, axis, 0, &truths).unwrap();
        let expected = lines(&truths, shape, axis);
        assert_eq!(all, expected.iter().map(|l| *l.iter().min().unwrap()).collect::<Vec<_>>());
        assert_eq!(any, expected.iter().map(|l| *l.iter().max().unwrap()).collect::<Vec<_>>());
    }
}

#[test]
fn argmax_takes_the_first_of_equals() {
    for (kind, shape, axis) in cases() {
        if shape.len() == 1 {
            continue;
        }
        let count = shape.iter().product::<i32>() as usize;
        // Few distinct values, so that every line has ties.
        let bytes: Vec<i8> = noise(4, count).iter().map(|&x| (x % 7) as i8 - 3).collect();
        let Some(places) = reduce(kind, "ARGMAX", Int8, shape, axis, 1, &bytes!(bytes)) else { return };
        let first = |line: &Vec<i8>| {
            let max = line.iter().max().unwrap();
            line.iter().position(|x| x == max).unwrap() as i32
        };
        let expected: Vec<i32> = lines(&bytes, shape, axis).iter().map(first).collect();
        assert_eq!(numbers!(i32, places), expected, "{shape:?} {axis}");
    }
}

#[test]
fn nan_wins_or_is_passed_over() {
    // Rows of 3, and of 40 with the rest below all others.
    for (kind, extent) in [(Cpu, 3), (Discrete, 3), (Discrete, 40)] {
        let row = |head: [f32; 3], rest: f32| {
            let mut row = vec![rest; extent];
            row[..3].copy_from_slice(&head);
            row
        };
        let nan = f32::NAN;
        let of = |op, mode, rest: f32| {
            let x = [row([1.0, nan, 3.0], rest), row([-0.0, 0.0, -5.0], rest), row([nan; 3], nan)].concat();
            reduce(kind, op, Fp32, &[3, extent as i32], 1, mode, &bytes!(x))
        };
        let Some(propagated) = of("REDUCE_MAX", 1, -9.0) else { return };
        let propagated = numbers!(f32, propagated);
        assert!(propagated[0].is_nan() && propagated[1] == 0.0 && propagated[2].is_nan());
        assert_eq!(numbers!(f32, of("REDUCE_MIN", 2, 9.0).unwrap())[..2], [1.0, -5.0]);
        assert_eq!(numbers!(i32, of("ARGMAX", 1, -9.0).unwrap()), [1, 0, 0]);
        assert_eq!(numbers!(i32, of("ARGMAX", 2, -9.0).unwrap()), [2, 0, 0]);
        let halves = |op, mode, rest: f32| {
            let x = [row([1.0, nan, 3.0], rest), row([-0.0, 0.0, -5.0], rest), row([nan; 3], nan)].concat();
            let x: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
            numbers!(f16, reduce(kind, op, Fp16, &[3, extent as i32], 1, mode, &bytes!(x)).unwrap())
        };
        let propagated = halves("REDUCE_MAX", 1, -9.0);
        assert!(propagated[0].is_nan() && propagated[1] == f16::ZERO && propagated[2].is_nan());
        assert_eq!(halves("REDUCE_MIN", 2, 9.0)[..2], [f16::ONE, f16::from_f32(-5.0)]);
    }
}
