//! Pointwise operators that run in the store of a product give what they give as launches of their own, bit for bit, with the
//! kernels of CPUs and of GPUs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::{Cpu, Discrete};
use accel_kernels::{DeviceCaps, lower};
use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run_as};
use half::f16;

/// What makes the sums: an image's extents and channels, or rows, columns and depth.
#[derive(Clone, Copy, Debug)]
enum Product {
    Conv { input: [i32; 4], kernel: i32, channels: i32 },
    Depthwise { input: [i32; 4], multiplier: i32 },
    MatMul { m: i32, n: i32, k: i32 },
}

use Product::{Conv, Depthwise, MatMul};

/// Appends the product, whose result is `sums`, and gives its inputs and its shape.
fn product(w: &mut Writer, product: Product, from: DType, to: DType) -> (Vec<Vec<u8>>, Vec<i32>) {
    let zero: &[u8] = if from == Int8 { &[3] } else { &[0; 4] };
    let zero = &zero[..zero.len().min(from.bytes().unwrap())];
    w.constant("a_zp", from, &[1], zero);
    w.constant("b_zp", from, &[1], &vec![0; zero.len()]);
    let (input, weight, output) = match product {
        Conv { input: input @ [n, h, wide, c], kernel, channels } => (
            input.to_vec(),
            vec![channels, kernel, kernel, c],
            vec![n, h + 3 - kernel, wide + 3 - kernel, channels],
        ),
        Depthwise { input: input @ [n, h, wide, c], multiplier } => {
            (input.to_vec(), vec![3, 3, c, multiplier], vec![n, h, wide, c * multiplier])
        }
        MatMul { m, n, k } => (vec![2, m, k], vec![2, k, n], vec![2, m, n]),
    };
    w.input("a", from, &input);
    w.input("b", from, &weight);
    let conv = Attribute::Conv {
        pad: vec![1; 4],
        stride: vec![1, 1],
        dilation: vec![1, 1],
        acc_type: if from == Int8 { Int32 } else { Fp32 },
    };
    let channels = *output.last().unwrap();
    let bias = values(to, 3, channels as usize);
    match product {
        MatMul { .. } => {
            w.op("MATMUL", Attribute::None, &["a", "b", "a_zp", "b_zp"], "sums", to, &output);
        }
        _ => {
            w.constant("bias", to, &[channels], &bias);
            let name = if matches!(product, Conv { .. }) { "CONV2D" } else { "DEPTHWISE_CONV2D" };
            w.op(name, conv, &["a", "b", "bias", "a_zp", "b_zp"], "sums", to, &output);
        }
    }
    let count = |shape: &[i32]| shape.iter().product::<i32>() as usize;
    (vec![values(from, 1, count(&input)), values(from, 2, count(&weight))], output)
}

fn values(dtype: DType, seed: u32, count: usize) -> Vec<u8> {
    let small = noise(seed, count).into_iter().map(|v| (v % 2001) as f32 / 1000.0 - 1.0);
    match dtype {
        Int8 => noise(seed, count).into_iter().map(|v| v as u8).collect(),
        Int32 => noise(seed, count).into_iter().flat_map(|v| (v as i32 >> 16).to_le_bytes()).collect(),
        Fp16 => small.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect(),
        _ => small.flat_map(f32::to_le_bytes).collect(),
    }
}

fn rescale(
    w: &mut Writer,
    input: &str,
    output: &str,
    to: DType,
    shape: &[i32],
    per_channel: bool,
    shift: u8,
) {
    let channels = if per_channel { *shape.last().unwrap() } else { 1 };
    let multipliers: Vec<u8> =
        (0..channels).flat_map(|c| ((1 << 30) + c * 12_345_678 % (1 << 29)).to_le_bytes()).collect();
    let name = |part: &str| format!("{output}_{part}");
    w.constant(&name("m"), Int32, &[channels], &multipliers);
    w.constant(
        &name("s"),
        Int8,
        &[channels],
        &(0..channels).map(|c| shift + (c % 2) as u8).collect::<Vec<_>>(),
    );
    let from = if input == "narrow" { Int8 } else { Int32 };
    w.constant(&name("iz"), from, &[1], &vec![0; from.bytes().unwrap()]);
    let zero: &[u8] = if to == Int8 { &[0xfb] } else { &[0; 4] };
    w.constant(&name("oz"), to, &[1], zero);
    let attribute = Attribute::Rescale {
        scale32: true,
        rounding: 1,
        per_channel,
        input_unsigned: false,
        output_unsigned: false,
    };
    let names = [input.to_owned(), name("m"), name("s"), name("iz"), name("oz")];
    w.op("RESCALE", attribute, &names.each_ref().map(String::as_str), output, to, shape);
}

/// Compares the last output of the graph with the sums kept by themselves, which keeps the chain out of the product,
/// and of the graph where they are not.
fn compare(make: &dyn Fn() -> (Writer, Vec<Vec<u8>>), launches: usize, text: &str) {
    let (mut together, inputs) = make();
    let (mut apart, _) = make();
    together.output("y");
    apart.output("sums");
    apart.output("y");
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    for kind in [Cpu, Discrete] {
        let caps = DeviceCaps { kind, ..DeviceCaps::baseline() };
        let count =
            |w: &Writer| lower(&accel_tosa::read(w.finish()).unwrap(), &caps).unwrap().dispatches.len();
        assert_eq!(count(&apart) - count(&together), launches, "{text} {kind:?}");
        let Some(expected) = run_as(kind, &apart, &inputs) else { return };
        let found = run_as(kind, &together, &inputs).unwrap();
        let at = found[0].iter().zip(&expected[1]).position(|(a, b)| a != b);
        assert_eq!(at, None, "first byte that differs; {text} {kind:?}");
    }
}

const INTEGER: [Product; 6] = [
    Conv { input: [1, 5, 7, 3], kernel: 3, channels: 20 },
    Conv { input: [2, 3, 5, 17], kernel: 1, channels: 4 },
    Depthwise { input: [1, 5, 6, 12], multiplier: 1 },
    Depthwise { input: [2, 3, 5, 4], multiplier: 3 },
    MatMul { m: 5, n: 36, k: 33 },
    // Split along k.
    MatMul { m: 3, n: 12, k: 700 },
];

#[test]
fn quantized_products_are_rescaled_clamped_and_looked_up_in_their_store() {
    for case in INTEGER {
        let make = || {
            let mut w = Writer::new();
            let (inputs, shape) = product(&mut w, case, Int8, Int32);
            rescale(&mut w, "sums", "narrow", Int8, &shape, true, 38);
            let clamp = Attribute::Clamp { min: vec![0xe0], max: vec![60], nan_mode: 1 };
            w.op("CLAMP", clamp, &["narrow"], "clamped", Int8, &shape);
            w.constant("table", Int8, &[256], &values(Int8, 4, 256));
            w.op("TABLE", Attribute::None, &["clamped", "table"], "y", Int8, &shape);
            (w, inputs)
        };
        compare(&make, 1, &format!("{case:?}"));
    }
}

#[test]
fn a_residual_is_added_in_the_store() {
    for case in [INTEGER[0], INTEGER[2], INTEGER[5]] {
        let make = || {
            let mut w = Writer::new();
            let (mut inputs, shape) = product(&mut w, case, Int8, Int32);
            w.input("residual", Int32, &shape);
            inputs.push(values(Int32, 9, shape.iter().product::<i32>() as usize));
            rescale(&mut w, "sums", "narrow", Int8, &shape, false, 38);
            rescale(&mut w, "narrow", "wide", Int32, &shape, false, 20);
            w.op("ADD", Attribute::None, &["residual", "wide"], "total", Int32, &shape);
            rescale(&mut w, "total", "y", Int8, &shape, false, 40);
            (w, inputs)
        };
        // Apart, the chain has more operands than one launch takes.
        compare(&make, 2, &format!("{case:?}"));
    }
}

#[test]
fn rows_of_any_length_take_whole_words_results() {
    let odd = [
        Conv { input: [1, 5, 7, 3], kernel: 3, channels: 7 },
        Depthwise { input: [1, 5, 6, 5], multiplier: 1 },
        MatMul { m: 5, n: 9, k: 33 },
        MatMul { m: 3, n: 13, k: 700 },
    ];
    for case in odd {
        for (from, to) in [(Int8, Int32), (Fp32, Fp32)] {
            let make = || {
                let mut w = Writer::new();
                let (mut inputs, shape) = product(&mut w, case, from, to);
                w.input("residual", to, &shape);
                inputs.push(values(to, 9, shape.iter().product::<i32>() as usize));
                let mut row = vec![1; shape.len()];
                *row.last_mut().unwrap() = *shape.last().unwrap();
                w.constant("row", to, &row, &values(to, 8, *row.last().unwrap() as usize));
                w.op("ADD", Attribute::None, &["sums", "residual"], "t", to, &shape);
                w.op("SUB", Attribute::None, &["row", "t"], "y", to, &shape);
                (w, inputs)
            };
            compare(&make, 1, &format!("{case:?} {from}"));
        }
    }
}

#[test]
fn halves_are_clamped_in_the_store() {
    let cases = [
        Conv { input: [1, 5, 7, 3], kernel: 3, channels: 6 },
        Depthwise { input: [1, 5, 6, 6], multiplier: 1 },
        MatMul { m: 5, n: 10, k: 33 },
    ];
    for case in cases {
        let make = || {
            let mut w = Writer::new();
            let (inputs, shape) = product(&mut w, case, Fp16, Fp16);
            let bound = |v: f32| f16::from_f32(v).to_le_bytes().to_vec();
            let clamp = Attribute::Clamp { min: bound(-0.5), max: bound(1.5), nan_mode: 1 };
            w.op("CLAMP", clamp, &["sums"], "y", Fp16, &shape);
            (w, inputs)
        };
        compare(&make, 1, &format!("{case:?}"));
    }
}

#[test]
fn narrow_results_whose_rows_are_no_whole_words_are_launched_apart() {
    let make = || {
        let mut w = Writer::new();
        let (inputs, shape) =
            product(&mut w, Conv { input: [1, 5, 7, 3], kernel: 3, channels: 7 }, Int8, Int32);
        rescale(&mut w, "sums", "y", Int8, &shape, true, 38);
        (w, inputs)
    };
    compare(&make, 0, "seven columns of INT8");
}
