//! Products on matrix units give what the other kernels give, bit for bit, where sums are exact. On devices without
//! cooperative matrices of a type the test says so and ends.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::{DeviceCaps, DeviceKind, MatrixGeometry, lower};
use accel_tosa::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{caps, noise, run_on, wrong_matrices};
use half::{bf16, f16};

/// Geometries from small to large; a device runs those that fit it.
const GEOMETRIES: [MatrixGeometry; 6] = [
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 32, band: 8, packed: false },
    MatrixGeometry { subgroups: [1, 2], part: [16, 16], slab: 64, band: 3, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [64, 64], slab: 64, band: 8, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 32, band: 8, packed: true },
    MatrixGeometry { subgroups: [1, 2], part: [32, 16], slab: 96, band: 3, packed: true },
    MatrixGeometry { subgroups: [2, 2], part: [64, 64], slab: 64, band: 16, packed: true },
];

/// Batches, rows, columns, depth: one element, whole tiles, a little more and less, rows of 16 bytes and not, a deep k.
const SIZES: [[i32; 4]; 8] = [
    [1, 1, 1, 1],
    [1, 32, 32, 32],
    [2, 33, 35, 37],
    [1, 127, 129, 100],
    [1, 64, 136, 64],
    [3, 31, 72, 48],
    [1, 17, 24, 1000],
    [1, 40, 33, 2048],
];

/// Sizes that are so large that operands are laid out anew: ragged rows, and whole ones.
const LARGE: [[i32; 4]; 2] = [[2, 513, 261, 515], [1, 640, 272, 784]];

/// Whole numbers of at most two bits and a sign, so that sums are exact in every type of result.
fn numbers(dtype: DType, seed: u32, count: i32) -> Vec<u8> {
    let small = noise(seed, count as usize).into_iter().map(|x| (x >> 24) as i32 % 5 - 2);
    match dtype {
        Int8 => noise(seed, count as usize).into_iter().map(|x| (x >> 24) as u8).collect(),
        Int32 => small.flat_map(i32::to_le_bytes).collect(),
        Fp16 => small.flat_map(|x| f16::from_f32(x as f32).to_le_bytes()).collect(),
        Bf16 => small.flat_map(|x| bf16::from_f32(x as f32).to_le_bytes()).collect(),
        Fp32 => small.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        // E5M2 is the upper half of FP16; the others' bits are -2 to 2.
        Fp8E5M2 => small.map(|x| (f16::from_f32(x as f32).to_bits() >> 8) as u8).collect(),
        _ => small.map(|x| [0xc0, 0xb8, 0x00, 0x38, 0x40][(x + 2) as usize]).collect(),
    }
}

fn on_matrices(label: &str) -> bool {
    label.contains("gemm_matrix") || label.contains("gemm_packed")
}

/// Compares all geometries with the kernels without matrices. `writer` makes the graph.
fn compare(name: &str, writer: &Writer, inputs: &[&[u8]]) {
    compare_tuned("", name, writer, inputs);
}

/// [`compare`] with figures that take the place of the tables'.
fn compare_tuned(tuning: &str, name: &str, writer: &Writer, inputs: &[&[u8]]) {
    let Some(caps) = caps() else { return };
    let caps = DeviceCaps { tuning: tuning.parse().unwrap(), ..caps };
    let graph = accel_tosa::read(writer.finish()).unwrap();
    let plain = DeviceCaps { matrices: Vec::new(), ..caps.clone() };
    let mut expected = None;
    for geometry in GEOMETRIES {
        let forced = DeviceCaps { matrix_geometry: Some(geometry), ..caps.clone() };
        let plan = lower(&graph, &forced).unwrap();
        if !plan.dispatches.iter().any(|d| on_matrices(&d.label)) {
            continue;
        }
        let expected = expected.get_or_insert_with(|| run_on(&plain, writer, inputs).unwrap());
        let result = run_on(&forced, writer, inputs).unwrap();
        for (at, (result, expected)) in result.iter().zip(expected.iter()).enumerate() {
            let first = result.iter().zip(expected).position(|(a, b)| a != b);
            assert_eq!(first, None, "{name}: output {at} differs from this byte on with {geometry:?}");
        }
    }
    if expected.is_none() {
        eprintln!("skipped {name}: {} has no matrices for it", caps.name);
    }
}

/// The test at the start passed for every shape that the driver lists and that kernels use.
#[test]
fn the_drivers_matrices_are_right() {
    let Some(wrong) = wrong_matrices() else { return };
    assert_eq!(wrong, []);
}

/// Whether the device is a CPU, whose compiler takes many seconds for each kernel that widens FP8 or reads images, so that
/// none is chosen there.
fn only_gpus() -> bool {
    let cpu = caps().is_none_or(|caps| caps.kind == DeviceKind::Cpu);
    if cpu {
        eprintln!("skipped: FP8 and images run on matrices of GPUs alone");
    }
    cpu
}

fn products(from: DType, to: DType) {
    for size in SIZES.into_iter().chain(LARGE) {
        product(from, to, size, [0, 0]);
    }
}

fn product(from: DType, to: DType, size @ [batches, m, n, k]: [i32; 4], zero_points: [u8; 2]) {
    let mut w = Writer::new();
    w.input("a", from, &[batches, m, k]);
    w.input("b", from, &[batches, k, n]);
    for (name, zero_point) in ["a_zp", "b_zp"].into_iter().zip(zero_points) {
        w.constant(name, from, &[1], &[zero_point, 0, 0, 0][..from.bytes().unwrap()]);
    }
    w.op("MATMUL", Attribute::None, &["a", "b", "a_zp", "b_zp"], "c", to, &[batches, m, n]);
    w.output("c");
    let (a, b) = (numbers(from, 1, batches * m * k), numbers(from, 2, batches * k * n));
    // Small products with zero points run on other kernels unless they are told not to.
    let tuning = if zero_points == [0, 0] { "" } else { "matrix.prepare=1" };
    compare_tuned(tuning, &format!("MATMUL of {from} {size:?} {zero_points:?}"), &w, &[&a, &b]);
}

#[test]
fn half_precision() {
    products(Fp16, Fp16);
    products(Fp16, Fp32);
}

#[test]
fn bfloat16() {
    products(Bf16, Fp32);
}

#[test]
fn bytes() {
    products(Int8, Int32);
}

/// Products lose the zero points of both operands.
#[test]
fn bytes_with_zero_points() {
    for size in SIZES.into_iter().chain(LARGE) {
        for zero_points in [[3, 0], [0, 0x80], [0x80, 0x7f], [0x80, 0x80]] {
            product(Int8, Int32, size, zero_points);
        }
    }
}

#[test]
fn eight_bit_floats() {
    if only_gpus() {
        return;
    }
    products(Fp8E4M3, Fp16);
    products(Fp8E5M2, Fp16);
}

/// Every finite E4M3 is widened exactly, and NaN stays NaN.
#[test]
fn all_eight_bit_floats_are_widened_right() {
    if only_gpus() {
        return;
    }
    for from in [Fp8E4M3, Fp8E5M2] {
        let mut w = Writer::new();
        w.input("a", from, &[1, 256, 32]);
        w.input("b", from, &[1, 32, 32]);
        w.constant("zp", from, &[1], &[0]);
        w.op("MATMUL", Attribute::None, &["a", "b", "zp", "zp"], "c", Fp16, &[1, 256, 32]);
        w.output("c");
        // Row i of A has number i alone, and B has ones on its diagonal.
        let mut a = vec![0; 256 * 32];
        let mut b = vec![0; 32 * 32];
        for code in 0..=255_u8 {
            a[usize::from(code) * 32 + usize::from(code) % 32] = code;
        }
        (0..32).for_each(|i| b[i * 33] = if from == Fp8E4M3 { 0x38 } else { 0x3c });
        let Some(caps) = caps() else { return };
        let graph = accel_tosa::read(w.finish()).unwrap();
        for geometry in GEOMETRIES {
            let forced = DeviceCaps { matrix_geometry: Some(geometry), ..caps.clone() };
            let labels = lower(&graph, &forced).unwrap().dispatches;
            if !labels.iter().any(|d| on_matrices(&d.label)) {
                continue;
            }
            let result = run_on(&forced, &w, &[&a, &b]).unwrap().remove(0);
            for code in 0..=255_usize {
                let expected = match from {
                    Fp8E4M3 => e4m3(code as u8),
                    _ => f16::from_bits((code as u16) << 8).to_f32(),
                };
                let at = 2 * (code * 32 + code % 32);
                let value = f16::from_le_bytes([result[at], result[at + 1]]).to_f32();
                // Infinity and NaN meet zeros of B.
                let same = if expected.is_finite() { value == expected } else { !value.is_finite() };
                assert!(same, "{from} {code:#x} became {value} instead of {expected}");
            }
        }
    }
}

fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7) / 8.0);
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => fraction * 2f32.powi(-6),
        _ => (1.0 + fraction) * 2f32.powi(exponent - 7),
    };
    if code > 0x7f { -magnitude } else { magnitude }
}

/// Input, kernel, channels, padding on each side, stride, dilation.
type Convolution = ([i32; 4], [i32; 2], i32, i32, i32, i32);

const CONVOLUTIONS: [Convolution; 8] = [
    // Windows that are laid out as rows, since the product is large and channels are no whole vectors.
    ([2, 63, 65, 3], [5, 5], 32, 2, 1, 1),
    // One pixel, almost all of whose window is padding.
    ([1, 1, 1, 16], [3, 3], 40, 1, 1, 1),
    ([1, 9, 11, 5], [3, 3], 19, 1, 1, 1),
    ([2, 8, 8, 16], [3, 3], 40, 1, 1, 1),
    ([1, 15, 15, 32], [3, 3], 33, 1, 2, 1),
    ([1, 12, 10, 8], [3, 2], 24, 2, 1, 2),
    ([2, 7, 6, 24], [1, 1], 48, 0, 1, 1),
    ([1, 21, 21, 3], [7, 7], 64, 3, 2, 1),
];

/// A convolution and the operators after it.
fn convolution(from: DType, to: DType, zero: u8, case: Convolution, fused: bool) -> (Writer, Vec<u8>) {
    let ([images, h, wide, c], [kh, kw], channels, pad, stride, dilation) = case;
    let extent = |size: i32, kernel: i32| (size - 1 + 2 * pad - (kernel - 1) * dilation) / stride + 1;
    // TOSA wants strides to divide exactly.
    let over = |size: i32, kernel: i32| (size - 1 + 2 * pad - (kernel - 1) * dilation) % stride;
    let output = [images, extent(h, kh), extent(wide, kw), channels];
    let mut w = Writer::new();
    w.input("x", from, &[images, h, wide, c]);
    w.constant("w", from, &[channels, kh, kw, c], &numbers(from, 4, channels * kh * kw * c));
    w.constant("bias", to, &[channels], &numbers(to, 5, channels));
    let mut input_zero = vec![0; from.bytes().unwrap()];
    let weight_zero = input_zero.clone();
    input_zero[0] = zero;
    w.constant("x_zp", from, &[1], &input_zero);
    w.constant("w_zp", from, &[1], &weight_zero);
    let conv = Attribute::Conv {
        pad: vec![pad, pad - over(h, kh), pad, pad - over(wide, kw)],
        stride: vec![stride; 2],
        dilation: vec![dilation; 2],
        acc_type: match from {
            Int8 => Int32,
            Fp8E4M3 => Fp16,
            _ => Fp32,
        },
    };
    w.op("CONV2D", conv, &["x", "w", "bias", "x_zp", "w_zp"], "y", to, &output);
    if fused {
        // Something for each channel that runs in the store.
        w.constant("r", to, &[1, 1, 1, channels], &numbers(to, 6, channels));
        w.op("ADD", Attribute::None, &["y", "r"], "z", to, &output);
        w.output("z");
    } else {
        w.output("y");
    }
    (w, numbers(from, 3, images * h * wide * c))
}

fn convolutions(from: DType, to: DType, zero: u8) {
    if only_gpus() {
        return;
    }
    for case in CONVOLUTIONS {
        for fused in [false, true] {
            let (w, x) = convolution(from, to, zero, case, fused);
            compare(&format!("CONV2D of {from} {case:?}, fused: {fused}"), &w, &[&x]);
        }
    }
}

#[test]
fn convolutions_of_half_precision() {
    convolutions(Fp16, Fp16, 0);
}

#[test]
fn convolutions_of_bfloat16() {
    convolutions(Bf16, Bf16, 0);
}

#[test]
fn convolutions_of_bytes_with_a_zero_point() {
    convolutions(Int8, Int32, 0);
    convolutions(Int8, Int32, 5);
    convolutions(Int8, Int32, 0x80);
}

#[test]
fn convolutions_of_eight_bit_floats() {
    convolutions(Fp8E4M3, Fp16, 0);
}

/// A CONV3D, or else a TRANSPOSE_CONV2D with a bias a channel.
fn other_convolution(
    (from, to, zero): (DType, DType, u8),
    name: &str,
    shapes: [&[i32]; 3],
    attribute: Attribute,
) {
    if only_gpus() {
        return;
    }
    let [input, weight, output] = shapes;
    let count = |shape: &[i32]| shape.iter().product::<i32>();
    let channels = output[output.len() - 1];
    let mut w = Writer::new();
    w.input("x", from, input);
    w.constant("w", from, weight, &numbers(from, 4, count(weight)));
    w.constant("bias", to, &[channels], &numbers(to, 5, channels));
    let width = from.bytes().unwrap();
    w.constant("x_zp", from, &[1], &[zero, 0][..width]);
    w.constant("w_zp", from, &[1], &[0, 0][..width]);
    w.op(name, attribute, &["x", "w", "bias", "x_zp", "w_zp"], "y", to, output);
    w.output("y");
    // As it comes, and with FP8 widened beforehand wherever that can be.
    for tuning in ["", "matrix.prepare=1,matrix.turns=1"] {
        let what = format!("{name} of {from} {input:?} with {tuning:?}");
        compare_tuned(tuning, &what, &w, &[&numbers(from, 3, count(input))]);
    }
}

const CONVOLVED: [(DType, DType, u8); 5] =
    [(Fp16, Fp16, 0), (Bf16, Bf16, 0), (Int8, Int32, 5), (Int8, Int32, 0x80), (Fp8E4M3, Fp16, 0)];

fn accumulator(from: DType) -> DType {
    match from {
        Int8 => Int32,
        Fp8E4M3 => Fp16,
        _ => Fp32,
    }
}

#[test]
fn volumes() {
    for types in CONVOLVED {
        // Channels in whole vectors, and not.
        for c in [16, 5] {
            let attribute = Attribute::Conv {
                pad: vec![1, 0, 1, 1, 2, 1],
                stride: vec![1, 2, 1],
                dilation: vec![2, 1, 3],
                acc_type: accumulator(types.0),
            };
            let shapes: [&[i32]; 3] = [&[2, 5, 6, 7, c], &[24, 2, 2, 3, c], &[2, 4, 4, 4, 24]];
            other_convolution(types, "CONV3D", shapes, attribute);
        }
    }
}

#[test]
fn transposed_convolutions() {
    for types in CONVOLVED {
        for c in [16, 5] {
            for ([kernel_h, kernel_w], [stride_y, stride_x], [top, bottom, left, right]) in [
                ([4, 4], [2, 2], [-1, -1, -1, -1]),
                ([3, 5], [2, 3], [-1, 2, 1, -2]),
                ([2, 2], [2, 2], [0, 0, 0, 0]),
                ([3, 3], [1, 1], [-2, -2, -1, 0]),
                ([1, 3], [2, 3], [0, 0, 0, 0]),
            ] {
                let attribute = Attribute::TransposeConv {
                    out_pad: vec![top, bottom, left, right],
                    stride: vec![stride_y, stride_x],
                    acc_type: accumulator(types.0),
                };
                let output =
                    [2, 5 * stride_y + top + bottom + kernel_h, 6 * stride_x + left + right + kernel_w, 24];
                let shapes: [&[i32]; 3] = [&[2, 6, 7, c], &[24, kernel_h, kernel_w, c], &output];
                other_convolution(types, "TRANSPOSE_CONV2D", shapes, attribute);
            }
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let mut w = Writer::new();
    w.input("a", Fp16, &[1, 70, 3000]);
    w.input("b", Fp16, &[1, 3000, 90]);
    w.constant("zp", Fp16, &[1], &[0; 2]);
    w.op("MATMUL", Attribute::None, &["a", "b", "zp", "zp"], "c", Fp32, &[1, 70, 90]);
    w.output("c");
    let operand = |seed, count| -> Vec<u8> {
        let values =
            noise(seed, count).into_iter().map(|x| f16::from_f32(x as i32 as f32 / (1u32 << 31) as f32));
        values.flat_map(|x| x.to_le_bytes()).collect()
    };
    let (a, b) = (operand(7, 70 * 3000), operand(8, 3000 * 90));
    let Some(caps) = caps() else { return };
    let first = run_on(&caps, &w, &[&a, &b]).unwrap();
    for _ in 0..3 {
        assert_eq!(run_on(&caps, &w, &[&a, &b]).unwrap(), first);
    }
}
