//! CONV2D, DEPTHWISE_CONV2D and the pools against an oracle in double precision, with the kernels of CPUs and of GPUs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run, run_tuned};
use half::f16;

/// The kernels of few rows also where B is small. CPUs have none of them.
const STREAM: &str = "skinny=2";

/// A convolution: NHWC input, kernel, channels out (or the multiplier of a depthwise one).
#[derive(Clone, Copy, Debug)]
struct Case {
    input: [usize; 4],
    kernel: [usize; 2],
    channels: usize,
    pad: [usize; 4],
    stride: [usize; 2],
    dilation: [usize; 2],
    depthwise: bool,
    bias: usize,
}

const PLAIN: Case = Case {
    input: [1, 7, 9, 5],
    kernel: [3, 3],
    channels: 11,
    pad: [0; 4],
    stride: [1, 1],
    dilation: [1, 1],
    depthwise: false,
    bias: 11,
};

/// Extents divide exactly, as TOSA demands.
const CASES: [Case; 17] = [
    PLAIN,
    Case { kernel: [1, 1], input: [2, 3, 5, 17], channels: 9, bias: 9, ..PLAIN },
    // As dense layers have them, with one row and a few.
    Case { kernel: [1, 1], input: [1, 1, 1, 640], channels: 37, bias: 37, ..PLAIN },
    Case { kernel: [1, 1], input: [1, 3, 5, 96], channels: 70, bias: 1, ..PLAIN },
    Case { pad: [1, 1, 1, 1], ..PLAIN },
    Case { kernel: [2, 3], pad: [1, 0, 2, 1], stride: [1, 2], input: [2, 6, 8, 3], bias: 1, ..PLAIN },
    Case { kernel: [3, 2], dilation: [2, 3], input: [1, 8, 10, 1], channels: 70, bias: 70, ..PLAIN },
    Case { input: [1, 5, 5, 131], channels: 8, pad: [1, 1, 1, 1], bias: 8, ..PLAIN },
    Case { depthwise: true, channels: 1, bias: 5, pad: [1, 1, 1, 1], ..PLAIN },
    Case { depthwise: true, channels: 3, bias: 15, stride: [2, 2], pad: [0, 0, 1, 1], ..PLAIN },
    Case { depthwise: true, channels: 2, bias: 1, dilation: [2, 1], input: [2, 8, 6, 4], ..PLAIN },
    // Channels in whole vectors of every type; windows that the registers hold, and two that they do not; one pixel.
    Case { input: [2, 9, 11, 16], bias: 16, ..DEPTHWISE },
    Case { input: [1, 11, 13, 48], stride: [2, 2], bias: 1, ..DEPTHWISE },
    Case {
        input: [1, 17, 23, 32],
        kernel: [5, 3],
        dilation: [1, 4],
        pad: [2, 2, 4, 4],
        bias: 32,
        ..DEPTHWISE
    },
    Case { input: [1, 5, 40, 16], kernel: [2, 20], pad: [0, 0, 30, 21], bias: 16, ..DEPTHWISE },
    Case { input: [1, 3, 50, 16], kernel: [1, 2], stride: [1, 24], pad: [0, 0, 0, 0], bias: 16, ..DEPTHWISE },
    Case { input: [1, 1, 1, 144], bias: 144, ..DEPTHWISE },
];

const DEPTHWISE: Case = Case { depthwise: true, channels: 1, pad: [1, 1, 1, 1], ..PLAIN };

impl Case {
    fn channels_out(&self) -> usize {
        if self.depthwise { self.input[3] * self.channels } else { self.channels }
    }

    fn output(&self) -> [usize; 4] {
        let extent = |axis: usize| {
            let pads = self.pad[2 * axis] + self.pad[2 * axis + 1];
            (self.input[1 + axis] - 1 + pads - (self.kernel[axis] - 1) * self.dilation[axis])
                / self.stride[axis]
                + 1
        };
        [self.input[0], extent(0), extent(1), self.channels_out()]
    }

    fn weight(&self) -> [usize; 4] {
        let ([h, w], c, m) = (self.kernel, self.input[3], self.channels);
        if self.depthwise { [h, w, c, m] } else { [m, h, w, c] }
    }

    fn graph(&self, dtype: DType, to: DType, bias: &[u8], weight: &[u8], zero_points: [&[u8]; 2]) -> Writer {
        let shape = |s: [usize; 4]| s.map(|extent| extent as i32);
        let mut w = Writer::new();
        w.input("x", dtype, &shape(self.input));
        // One weight is a constant and the other an operand, as both are allowed.
        if self.pad == [0; 4] {
            w.input("w", dtype, &shape(self.weight()));
        } else {
            w.constant("w", dtype, &shape(self.weight()), weight);
        }
        w.constant("bias", to, &[self.bias as i32], bias);
        w.constant("x_zp", dtype, &[1], zero_points[0]);
        w.constant("w_zp", dtype, &[1], zero_points[1]);
        let ints = |list: &[usize]| list.iter().map(|&x| x as i32).collect::<Vec<_>>();
        let attribute = Attribute::Conv {
            pad: ints(&self.pad),
            stride: ints(&self.stride),
            dilation: ints(&self.dilation),
            acc_type: if dtype == Int8 { Int32 } else { Fp32 },
        };
        let name = if self.depthwise { "DEPTHWISE_CONV2D" } else { "CONV2D" };
        w.op(name, attribute, &["x", "w", "bias", "x_zp", "w_zp"], "y", to, &shape(self.output()));
        w.output("y");
        w
    }

    /// Sum and sum of magnitudes of each output; padding adds nothing.
    fn oracle(&self, x: &[f64], w: &[f64], bias: &[f64]) -> Vec<(f64, f64)> {
        let [images, out_h, out_w, out_c] = self.output();
        let [_, in_h, in_w, in_c] = self.input;
        let mut sums = Vec::new();
        for at in 0..images * out_h * out_w * out_c {
            let (oc, ox, oy) = (at % out_c, at / out_c % out_w, at / out_c / out_w % out_h);
            let image = at / out_c / out_w / out_h;
            let start = bias[oc % bias.len()];
            let (mut sum, mut size) = (start, start.abs());
            for (ky, kx) in (0..self.kernel[0]).flat_map(|y| (0..self.kernel[1]).map(move |x| (y, x))) {
                let y = (oy * self.stride[0] + ky * self.dilation[0]).wrapping_sub(self.pad[0]);
                let xx = (ox * self.stride[1] + kx * self.dilation[1]).wrapping_sub(self.pad[2]);
                if y >= in_h || xx >= in_w {
                    continue;
                }
                let pixel = ((image * in_h + y) * in_w + xx) * in_c;
                let tap = ky * self.kernel[1] + kx;
                let mut add = |x: f64, w: f64| {
                    sum += x * w;
                    size += (x * w).abs();
                };
                if self.depthwise {
                    add(x[pixel + oc / self.channels], w[tap * out_c + oc]);
                } else {
                    let row = (oc * self.kernel[0] * self.kernel[1] + tap) * in_c;
                    (0..in_c).for_each(|c| add(x[pixel + c], w[row + c]));
                }
            }
            sums.push((sum, size));
        }
        sums
    }

    fn inputs<'a>(&self, x: &'a [u8], w: &'a [u8]) -> Vec<&'a [u8]> {
        if self.pad == [0; 4] { vec![x, w] } else { vec![x] }
    }
}

fn values(seed: u32, count: usize) -> Vec<f16> {
    noise(seed, count).iter().map(|&x| f16::from_f32((x as i32 >> 20) as f32 / 1024.0)).collect()
}

fn count(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

#[test]
fn floats_convolve_within_the_rounding_of_their_sums() {
    for case in CASES {
        let (x, w, bias) =
            (values(1, count(case.input)), values(2, count(case.weight())), values(3, case.bias));
        let wide = |x: &[f16]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
        let narrow = |x: &[f16]| x.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let expected = case.oracle(&wide(&x), &wide(&w), &wide(&bias));
        let check = |name: &str, result: Vec<f64>, spacing: f64| {
            for (at, (value, (sum, size))) in result.iter().zip(&expected).enumerate() {
                let bound = 1300.0 * size * 2f64.powi(-24) + sum.abs() * spacing + 1e-7;
                assert!(
                    (value - sum).abs() <= bound,
                    "{name} {case:?} element {at}: {value} instead of {sum}"
                );
            }
        };
        for kind in [Cpu, Discrete] {
            let (x32, w32) = (bytes!(narrow(&x)), bytes!(narrow(&w)));
            let graph = case.graph(Fp32, Fp32, &bytes!(narrow(&bias)), &w32, [&[0; 4]; 2]);
            let Some(y) = run_tuned(kind, STREAM, &graph, &case.inputs(&x32, &w32)) else { return };
            check("f32", numbers!(f32, y[0]).iter().map(|&y| f64::from(y)).collect(), 0.0);
            let (x16, w16) = (bytes!(x), bytes!(w));
            let graph = case.graph(Fp16, Fp16, &bytes!(bias), &w16, [&[0; 2]; 2]);
            let y = run_tuned(kind, STREAM, &graph, &case.inputs(&x16, &w16)).unwrap();
            check("f16", wide(&numbers!(f16, y[0])), 2f64.powi(-11));
        }
    }
}

#[test]
fn bytes_convolve_exactly_and_padding_counts_as_the_zero_point() {
    for case in CASES {
        let bytes = |seed, count| noise(seed, count).iter().map(|&x| x as i8).collect::<Vec<i8>>();
        let (x, w) = (bytes(4, count(case.input)), bytes(5, count(case.weight())));
        let bias: Vec<i32> = noise(6, case.bias).iter().map(|&x| x as i32 >> 8).collect();
        let less = |x: &[i8], zero: f64| x.iter().map(|&x| f64::from(x) - zero).collect::<Vec<_>>();
        let wide: Vec<f64> = bias.iter().map(|&x| f64::from(x)).collect();
        let expected: Vec<i32> =
            case.oracle(&less(&x, -128.0), &less(&w, 3.0), &wide).iter().map(|s| s.0 as i32).collect();
        let (x, w) = (bytes!(x), bytes!(w));
        let graph = case.graph(Int8, Int32, &bytes!(bias), &w, [&[128], &[3]]);
        for kind in [Cpu, Discrete] {
            let Some(y) = run_tuned(kind, STREAM, &graph, &case.inputs(&x, &w)) else { return };
            assert_eq!(numbers!(i32, y[0]), expected, "{case:?}");
        }
    }
}

/// The window of each output of a 2 x 3 pool with stride 1 x 2, padded by a row and two columns.
fn windows(input: &[f64]) -> Vec<Vec<f64>> {
    let mut windows = Vec::new();
    for (oy, ox, c) in (0..6).flat_map(|y| (0..5).flat_map(move |x| (0..3).map(move |c| (y, x, c)))) {
        let mut window = Vec::new();
        for (y, x) in (oy..oy + 2).flat_map(|y| (2 * ox..2 * ox + 3).map(move |x| (y, x))) {
            // One row above, two columns at the left.
            if (1..7).contains(&y) && (2..11).contains(&x) {
                window.push(input[((y - 1) * 9 + x - 2) * 3 + c]);
            }
        }
        windows.push(window);
    }
    windows
}

fn pool(name: &str, dtype: DType, last: u32, zero_points: Option<[&[u8]; 2]>) -> Writer {
    let mut w = Writer::new();
    w.input("x", dtype, &[1, 6, 9, 3]);
    let mut operands = vec!["x"];
    if let Some([input, output]) = zero_points {
        w.constant("x_zp", dtype, &[1], input);
        w.constant("y_zp", dtype, &[1], output);
        operands.extend(["x_zp", "y_zp"]);
    }
    let attribute = Attribute::Pool { kernel: vec![2, 3], stride: vec![1, 2], pad: vec![1, 0, 2, 0], last };
    w.op(name, attribute, &operands, "y", dtype, &[1, 6, 5, 3]);
    w.output("y");
    w
}

#[test]
fn pools_leave_padding_out() {
    let x = values(7, 6 * 9 * 3);
    let wide: Vec<f64> = x.iter().map(|x| x.to_f64()).collect();
    let Some(y) = run(&pool("MAX_POOL2D", Fp16, 1, None), &[&bytes!(x)]) else { return };
    for (y, window) in numbers!(f16, y[0]).iter().zip(windows(&wide)) {
        assert_eq!(y.to_f64(), window.into_iter().fold(f64::NEG_INFINITY, f64::max));
    }
    let single: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
    let y = run(&pool("AVG_POOL2D", Fp32, Fp32.code(), Some([&[0; 4]; 2])), &[&bytes!(single)]).unwrap();
    for (y, window) in numbers!(f32, y[0]).iter().zip(windows(&wide)) {
        let mean = window.iter().sum::<f64>() / window.len() as f64;
        assert!((f64::from(*y) - mean).abs() <= mean.abs() * 2f64.powi(-22) + 1e-6, "{y} instead of {mean}");
    }
    let bytes: Vec<i8> = noise(8, 6 * 9 * 3).iter().map(|&x| x as i8).collect();
    let wide: Vec<f64> = bytes.iter().map(|&x| f64::from(x)).collect();
    let y = run(&pool("AVG_POOL2D", Int8, Int32.code(), Some([&[10], &[250]])), &[&bytes!(bytes)]).unwrap();
    for (y, window) in numbers!(i8, y[0]).iter().zip(windows(&wide)) {
        // TOSA's reciprocal is a little too large, so ties go away from zero.
        let mean = window.iter().map(|x| x - 10.0).sum::<f64>() / window.len() as f64;
        assert_eq!(f64::from(*y), (mean.round() - 6.0).clamp(-128.0, 127.0), "{window:?}");
    }
}
