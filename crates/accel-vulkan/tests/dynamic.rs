//! Operands that are computed at run time (EXT-DYNAMIC): an operator gives the same bytes whether its numbers are constants or
//! inputs of the graph.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_tosa::DType::{self, Int8, Int16, Int32};
use accel_tosa::writer::{Attribute, Writer};

use common::{noise, run};

type Tensor<'a> = (DType, &'a [i32], &'a [u8]);

/// Runs `name` on inputs and then numbers, which are constants or inputs.
fn output(
    name: &str,
    attribute: &Attribute,
    inputs: &[Tensor<'_>],
    numbers: &[Tensor<'_>],
    output: (DType, &[i32]),
    computed: bool,
) -> Option<Vec<u8>> {
    let mut w = Writer::new();
    let names: Vec<String> = (0..inputs.len() + numbers.len()).map(|index| format!("t{index}")).collect();
    let mut bound = Vec::new();
    for (index, &(dtype, shape, data)) in inputs.iter().chain(numbers).enumerate() {
        if index < inputs.len() || computed {
            w.input(&names[index], dtype, shape);
            bound.push(data);
        } else {
            w.constant(&names[index], dtype, shape, data);
        }
    }
    let mut operands: Vec<&str> = names.iter().map(String::as_str).collect();
    if name == "PAD" {
        w.shape("padding", &[1, 0, 0, 2]);
        operands.insert(1, "padding");
    }
    w.op(name, attribute.clone(), &operands, "y", output.0, output.1);
    w.output("y");
    Some(run(&w, &bound)?.remove(0))
}

fn check(
    name: &str,
    attribute: Attribute,
    inputs: &[Tensor<'_>],
    numbers: &[Tensor<'_>],
    result: (DType, &[i32]),
) {
    let Some(known) = output(name, &attribute, inputs, numbers, result, false) else { return };
    let computed = output(name, &attribute, inputs, numbers, result, true).unwrap();
    assert_eq!(computed, known, "{name}");
    // Numbers that are 0 would hide that they were not read.
    assert!(known.iter().any(|&byte| byte != known[0]), "{name}");
}

fn random(seed: u32, bytes: usize) -> Vec<u8> {
    noise(seed, bytes).iter().map(|&x| (x >> 13) as u8).collect()
}

#[test]
fn element_wise_operators_read_their_numbers() {
    let x = random(1, 7 * 9 * 4);
    let words: Tensor<'_> = (Int32, &[7, 9], &x);
    check("MUL", Attribute::None, &[words, words], &[(Int8, &[1], &[21])], (Int32, &[7, 9]));
    let narrow: Tensor<'_> = (Int8, &[7, 9], &x[..63]);
    let zero_points: [Tensor<'_>; 2] = [(Int8, &[1], &[100]), (Int8, &[1], &[0xf1])];
    check("NEGATE", Attribute::None, &[narrow], &zero_points, (Int8, &[7, 9]));
    check("TABLE", Attribute::None, &[narrow], &[(Int8, &[256], &random(2, 256))], (Int8, &[7, 9]));
    check("PAD", Attribute::None, &[narrow], &[(Int8, &[1], &[0x5a])], (Int8, &[8, 11]));
    check("PAD", Attribute::None, &[words], &[(Int32, &[1], &[1, 2, 3, 4])], (Int32, &[8, 11]));
}

#[test]
fn rescale_reads_scales_and_zero_points() {
    let x = random(3, 7 * 9 * 2);
    let narrow: Tensor<'_> = (Int8, &[7, 9], &x[..63]);
    let scales: [Tensor<'_>; 2] = [(Int32, &[1], &(1_i32 << 30).to_le_bytes()), (Int8, &[1], &[29])];
    let rescale = |unsigned: [bool; 2]| Attribute::Rescale {
        scale32: true,
        rounding: 1,
        per_channel: false,
        input_unsigned: unsigned[0],
        output_unsigned: unsigned[1],
    };
    for unsigned in [[false, false], [true, false], [false, true]] {
        let numbers = [scales[0], scales[1], (Int8, &[1], &[200]), (Int8, &[1], &[7])];
        check("RESCALE", rescale(unsigned), &[narrow], &numbers, (Int8, &[7, 9]));
    }
    let numbers = [scales[0], scales[1], (Int16, &[1], &[0, 128]), (Int8, &[1], &[7])];
    check("RESCALE", rescale([true, false]), &[(Int16, &[7, 9], &x)], &numbers, (Int8, &[7, 9]));
}

#[test]
fn sums_read_their_zero_points() {
    let x = random(4, 2 * 5 * 6 * 3);
    let weight = random(5, 4 * 3 * 2 * 3);
    let bias = random(6, 4 * 4);
    let zero_points: [Tensor<'_>; 2] = [(Int8, &[1], &[100]), (Int8, &[1], &[0xf1])];
    let (image, sums): (Tensor<'_>, &[i32]) = ((Int8, &[2, 5, 6, 3], &x), &[2, 4, 6, 4]);
    let conv = |pad: &[i32]| Attribute::Conv {
        pad: pad.to_vec(),
        stride: vec![1, 1],
        dilation: vec![1, 1],
        acc_type: Int32,
    };
    let operands = [image, (Int8, &[4, 3, 2, 3], &weight), (Int32, &[4], &bias)];
    check("CONV2D", conv(&[0, 1, 1, 0]), &operands, &zero_points, (Int32, sums));
    let operands = [image, (Int8, &[3, 2, 3, 1], &weight[..18]), (Int32, &[3], &bias[..12])];
    check("DEPTHWISE_CONV2D", conv(&[0, 1, 1, 0]), &operands, &zero_points, (Int32, &[2, 4, 6, 3]));
    let pool =
        Attribute::Pool { kernel: vec![2, 2], stride: vec![1, 1], pad: vec![0, 1, 1, 0], last: Int32.code() };
    check("AVG_POOL2D", pool, &[image], &zero_points, (Int8, &[2, 5, 6, 3]));
    let factors = [(Int8, &[2, 5, 18][..], &x[..]), (Int8, &[2, 18, 2], &weight)];
    check("MATMUL", Attribute::None, &factors, &zero_points, (Int32, &[2, 5, 2]));
}
