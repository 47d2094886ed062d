//! CONV3D, TRANSPOSE_CONV2D, INT4 weights and INT48 results against oracles in 64-bit integers, and FP8 against its definition.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_tosa::DType::{self, Fp8E4M3, Fp8E5M2, Fp16, Fp32, Int4, Int8, Int16, Int32, Int48};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run, run_both};
use half::f16;

fn int48(bytes: &[u8]) -> Vec<i64> {
    let extend = |b: &[u8]| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0]) << 16 >> 16;
    bytes.chunks_exact(6).map(extend).collect()
}

fn to_int48(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()[..6].to_vec()).collect()
}

/// Two elements a byte, the low nibble first.
fn nibbles(values: &[i64]) -> Vec<u8> {
    values.chunks(2).map(|pair| (pair[0] & 15 | (pair.get(1).unwrap_or(&0) & 15) << 4) as u8).collect()
}

fn small(seed: u32, count: usize, bits: u32) -> Vec<i64> {
    noise(seed, count).iter().map(|&n| i64::from(n as i32 >> (32 - bits))).collect()
}

fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |sum, (&extent, &i)| sum * extent + i)
}

fn shape(extents: &[usize]) -> Vec<i32> {
    extents.iter().map(|&extent| extent as i32).collect()
}

fn pack(dtype: DType, values: &[i64]) -> Vec<u8> {
    match dtype {
        Int4 => nibbles(values),
        Int8 => values.iter().map(|&v| v as u8).collect(),
        Int16 => values.iter().flat_map(|&v| (v as i16).to_le_bytes()).collect(),
        Int32 => values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect(),
        _ => to_int48(values),
    }
}

fn unpack(dtype: DType, bytes: &[u8]) -> Vec<i64> {
    match dtype {
        Int32 => numbers!(i32, bytes).into_iter().map(i64::from).collect(),
        _ => int48(bytes),
    }
}

/// A convolution of integers, with its weight as a constant, and as a block input, so that nothing is known of it in advance.
fn convolve(
    name: &str,
    attribute: Attribute,
    types: [DType; 3],
    shapes: [&[usize]; 3],
    values: [&[i64]; 3],
    zero_points: [i8; 2],
) -> Option<Vec<i64>> {
    let [input, weight, output] = types;
    let inputs = [pack(input, values[0]), pack(weight, values[1]), pack(output, values[2])];
    let result = |known: bool| {
        let mut w = Writer::new();
        w.input("x", input, &shape(shapes[0]));
        if known {
            w.constant("w", weight, &shape(shapes[1]), &inputs[1]);
        } else {
            w.input("w", weight, &shape(shapes[1]));
        }
        w.input("b", output, &[values[2].len() as i32]);
        w.constant("xz", input, &[1], &[zero_points[0] as u8, 0][..input.bytes().unwrap_or(1)]);
        w.constant("wz", weight, &[1], &[zero_points[1] as u8]);
        w.op(name, attribute.clone(), &["x", "w", "b", "xz", "wz"], "y", output, &shape(shapes[2]));
        w.output("y");
        let [x, weights, bias] = inputs.each_ref().map(Vec::as_slice);
        let given = if known { vec![x, bias] } else { vec![x, weights, bias] };
        Some(unpack(output, &run_both(&w, &given)?[0]))
    };
    let found = result(false)?;
    assert_eq!(result(true)?, found, "{name} of {types:?} with a constant weight");
    Some(found)
}

#[test]
fn transposed_convolutions_scatter_their_input() {
    // A negative padding cuts the output, a positive one adds rows that hold the bias alone.
    let (input, kernel, out_pad, stride) = ([2, 3, 4, 5], [3, 2, 3, 5], [-1, 2, 1, -2], [2, 3]);
    let output = [2, (3 - 1) * 2 - 1 + 2 + 2, (4 - 1) * 3 + 1 - 2 + 3, 3];
    for types in [[Int8, Int8, Int32], [Int8, Int4, Int32], [Int16, Int8, Int48]] {
        let bits = |dtype| match dtype {
            Int4 => 4,
            Int8 => 8,
            _ => 16,
        };
        let x = small(1, input.iter().product(), bits(types[0]));
        let weight = small(2, kernel.iter().product(), bits(types[1]));
        let bias = [1000, -7, 12];
        let zero_points = [if types[0] == Int8 { -3 } else { 0 }, if types[1] == Int8 { 5 } else { 0 }];
        let attribute = Attribute::TransposeConv {
            out_pad: out_pad.map(|p: i64| p as i32).to_vec(),
            stride: stride.map(|s: usize| s as i32).to_vec(),
            acc_type: types[2],
        };
        let shapes: [&[usize]; 3] = [&input, &kernel, &output];
        let values: [&[i64]; 3] = [&x, &weight, &bias];
        let Some(found) = convolve("TRANSPOSE_CONV2D", attribute, types, shapes, values, zero_points) else {
            return;
        };
        let mut wanted: Vec<i64> = (0..output.iter().product()).map(|i: usize| bias[i % 3]).collect();
        for (i, &v) in x.iter().enumerate() {
            let [c, ix, iy, n] = [i % 5, i / 5 % 4, i / 20 % 3, i / 60];
            for (j, &k) in weight.iter().enumerate().filter(|(j, _)| j % 5 == c) {
                let [kx, ky, oc] = [j / 5 % 3, j / 15 % 2, j / 30];
                let oy = (iy * stride[0] + ky) as i64 + out_pad[0];
                let ox = (ix * stride[1] + kx) as i64 + out_pad[2];
                if (0..output[1] as i64).contains(&oy) && (0..output[2] as i64).contains(&ox) {
                    let at = flat(&output, &[n, oy as usize, ox as usize, oc]);
                    wanted[at] += (v - i64::from(zero_points[0])) * (k - i64::from(zero_points[1]));
                }
            }
        }
        assert_eq!(found, wanted, "{types:?}");
    }
}

#[test]
fn volumes_are_convolved() {
    let (input, kernel) = ([1, 4, 5, 6, 3], [2, 2, 3, 2, 3]);
    let (pad, stride, dilation) = ([1, 0, 1, 1, 0, 1], [1, 2, 1], [2, 1, 3]);
    let output = [1, 3, 3, 4, 2];
    let x = small(3, input.iter().product(), 8);
    let weight = small(4, kernel.iter().product(), 8);
    let list = |values: &[usize]| values.iter().map(|&v| v as i32).collect::<Vec<_>>();
    let attribute = Attribute::Conv {
        pad: list(&pad),
        stride: list(&stride),
        dilation: list(&dilation),
        acc_type: Int32,
    };
    let shapes: [&[usize]; 3] = [&input, &kernel, &output];
    let types = [Int8, Int8, Int32];
    let Some(found) = convolve("CONV3D", attribute, types, shapes, [&x, &weight, &[9]], [2, -1]) else {
        return;
    };
    let wanted = (0..output.iter().product()).map(|i: usize| {
        let [oc, ox, oy, oz] = [i % 2, i / 2 % 4, i / 8 % 3, i / 24];
        let mut sum = 9;
        for (j, &k) in weight.iter().enumerate().filter(|(j, _)| j / 36 == oc) {
            let taps = [j / 18 % 2, j / 6 % 3, j / 3 % 2];
            let at: Option<Vec<usize>> = [oz, oy, ox]
                .iter()
                .enumerate()
                .map(|(a, o)| (o * stride[a] + taps[a] * dilation[a]).checked_sub(pad[2 * a]))
                .collect();
            if let Some(at) = at.filter(|at| at.iter().zip(&input[1..]).all(|(a, extent)| a < extent)) {
                let v = x[flat(&input, &[0, at[0], at[1], at[2], j % 3])];
                sum += (v - 2) * (k + 1);
            }
        }
        sum
    });
    assert_eq!(found, wanted.collect::<Vec<i64>>());
}

#[test]
fn products_of_int16_are_summed_and_rescaled_in_48_bits() {
    let (m, k, n) = (3, 70, 5);
    let a = vec![i64::from(i16::MIN); 2 * m * k];
    let b = small(5, 2 * k * n, 16);
    let mut w = Writer::new();
    w.input("a", Int16, &[2, m as i32, k as i32]);
    w.input("b", Int16, &[2, k as i32, n as i32]);
    w.constant("z", Int16, &[1], &[0, 0]);
    w.op("MATMUL", Attribute::None, &["a", "b", "z", "z"], "p", Int48, &[2, m as i32, n as i32]);
    w.constant("multiplier", Int16, &[1], &20_000_i16.to_le_bytes());
    w.constant("shift", Int8, &[1], &[31]);
    w.constant("wide", Int48, &[1], &[0; 6]);
    w.constant("zp", Int8, &[1], &[3]);
    let attribute = Attribute::Rescale {
        scale32: false,
        rounding: 1,
        per_channel: false,
        input_unsigned: false,
        output_unsigned: false,
    };
    w.op(
        "RESCALE",
        attribute,
        &["p", "multiplier", "shift", "wide", "zp"],
        "r",
        Int8,
        &[2, m as i32, n as i32],
    );
    w.output("p");
    w.output("r");
    let Some(found) = run(&w, &[&pack(Int16, &a), &pack(Int16, &b)]) else { return };
    let product = |i: usize| -> i64 {
        let (batch, row, column) = (i / (m * n), i / n, i % n);
        (0..k).map(|j| a[row * k + j] * b[(batch * k + j) * n + column]).sum()
    };
    let products: Vec<i64> = (0..2 * m * n).map(product).collect();
    assert!(products.iter().any(|p| i32::try_from(*p).is_err()));
    assert_eq!(int48(&found[0]), products);
    let rescaled =
        products.iter().map(|p| (((p * 20_000 + (1 << 30)) >> 31) + 3).clamp(-128, 127) as i8 as u8);
    assert_eq!(found[1], rescaled.collect::<Vec<u8>>());
}

/// The number that FP8 bits stand for.
fn fp8(dtype: DType, bits: u8) -> f32 {
    if dtype == Fp8E5M2 {
        return f16::from_bits(u16::from(bits) << 8).to_f32();
    }
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    match (i32::from(bits >> 3 & 15), f32::from(bits & 7)) {
        (15, 7.0) => f32::NAN,
        (0, fraction) => sign * fraction * 2_f32.powi(-9),
        (exponent, fraction) => sign * (8.0 + fraction) * 2_f32.powi(exponent - 10),
    }
}

#[test]
fn fp8_casts_are_exact_one_way_and_to_nearest_even_the_other() {
    for dtype in [Fp8E4M3, Fp8E5M2] {
        let all: Vec<u8> = (0..=255).collect();
        let mut w = Writer::new();
        w.input("x", dtype, &[256]);
        w.op("CAST", Attribute::None, &["x"], "y", Fp32, &[256]);
        w.output("y");
        let Some(wide) = run(&w, &[&all]) else { return };
        for (&bits, found) in all.iter().zip(numbers!(f32, wide[0])) {
            let wanted = fp8(dtype, bits);
            assert!(found == wanted || found.is_nan() && wanted.is_nan(), "{dtype} {bits:#x}: {found}");
        }

        // Every FP16: denser than FP8 everywhere, with all the ties.
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut w = Writer::new();
        w.input("x", Fp16, &[65_536]);
        w.op("CAST", Attribute::None, &["x"], "y", dtype, &[65_536]);
        w.output("y");
        let Some(narrow) = run(&w, &[&halves]) else { return };
        // Positive numbers in order; the first that is not finite stands where the next number would.
        let finite: Vec<u8> = (0..128).filter(|&bits| fp8(dtype, bits).is_finite()).collect();
        let step = |i: usize| fp8(dtype, finite[i]);
        let beyond = 2.0 * step(finite.len() - 1) - step(finite.len() - 2);
        for (bits, &found) in narrow[0].iter().enumerate() {
            let value = f16::from_bits(bits as u16).to_f32();
            let nearest = |magnitude: f32| {
                let places =
                    finite.iter().map(|&bits| (fp8(dtype, bits), bits)).chain([(beyond, finite.len() as u8)]);
                let distance = |place: f32| (place - magnitude).abs();
                places
                    .min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)).then((a.1 & 1).cmp(&(b.1 & 1))))
                    .unwrap()
                    .1
            };
            let sign = if value.is_sign_negative() { 0x80 } else { 0 };
            let result = fp8(dtype, found);
            if value.is_nan() {
                assert!(result.is_nan(), "{dtype} of NaN {bits:#x} is {found:#x}");
            } else {
                let wanted =
                    sign | if value.is_infinite() { finite.len() as u8 } else { nearest(value.abs()) };
                assert_eq!(found, wanted, "{dtype} of {value}");
            }
        }
    }
}
