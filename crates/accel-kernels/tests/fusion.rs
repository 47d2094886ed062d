//! Which operators become one launch, told from the plan.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use accel_kernels::{DeviceCaps, Plan, lower};
use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};

fn plan(w: Writer) -> Plan {
    let graph = accel_tosa::read(w.finish()).unwrap();
    lower(&graph, &DeviceCaps::baseline()).unwrap()
}

fn labels(plan: &Plan) -> Vec<&str> {
    plan.dispatches.iter().map(|d| d.label.as_str()).collect()
}

fn clamp() -> Attribute {
    Attribute::Clamp { min: 0_f32.to_le_bytes().into(), max: 6_f32.to_le_bytes().into(), nan_mode: 1 }
}

/// Inputs `x` and `y` of `[3, 5]` and `row` of `[1, 5]`.
fn inputs(dtype: DType) -> Writer {
    let mut w = Writer::new();
    w.input("x", dtype, &[3, 5]);
    w.input("y", dtype, &[3, 5]);
    w.input("row", dtype, &[1, 5]);
    w
}

#[test]
fn a_chain_is_one_launch_whatever_its_other_operands() {
    let mut w = inputs(Fp32);
    w.op("ADD", Attribute::None, &["x", "row"], "a", Fp32, &[3, 5]);
    w.op("SUB", Attribute::None, &["y", "a"], "b", Fp32, &[3, 5]);
    w.op("CLAMP", clamp(), &["b"], "c", Fp32, &[3, 5]);
    w.op("CAST", Attribute::None, &["c"], "d", Fp16, &[3, 5]);
    w.output("d");
    let plan = plan(w);
    assert_eq!(labels(&plan), ["3 CAST pointwise.long ADD+SUB+CLAMP+CAST"]);
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn a_result_that_others_need_is_kept() {
    let mut w = inputs(Fp32);
    w.op("ADD", Attribute::None, &["x", "y"], "a", Fp32, &[3, 5]);
    w.op("EXP", Attribute::None, &["a"], "b", Fp32, &[3, 5]);
    w.op("SUB", Attribute::None, &["b", "a"], "c", Fp32, &[3, 5]);
    w.output("c");
    assert_eq!(labels(&plan(w)), ["0 ADD pointwise.short", "2 SUB pointwise.short EXP+SUB"]);

    let mut w = inputs(Fp32);
    w.op("ADD", Attribute::None, &["x", "y"], "a", Fp32, &[3, 5]);
    w.op("EXP", Attribute::None, &["a"], "b", Fp32, &[3, 5]);
    w.output("a");
    w.output("b");
    assert_eq!(plan(w).dispatches.len(), 2);
}

#[test]
fn a_square_is_one_launch_but_not_beside_its_own_reshape() {
    let mut w = inputs(Fp32);
    w.op("EXP", Attribute::None, &["x"], "a", Fp32, &[3, 5]);
    w.constant("shift", Int8, &[1], &[0]);
    w.op("MUL", Attribute::None, &["a", "a", "shift"], "b", Fp32, &[3, 5]);
    w.output("b");
    assert_eq!(plan(w).dispatches.len(), 1);

    let mut w = inputs(Fp32);
    w.op("EXP", Attribute::None, &["x"], "a", Fp32, &[3, 5]);
    w.op("IDENTITY", Attribute::None, &["a"], "same", Fp32, &[3, 5]);
    w.op("ADD", Attribute::None, &["a", "same"], "b", Fp32, &[3, 5]);
    w.output("b");
    assert_eq!(plan(w).dispatches.len(), 2);
}

#[test]
fn a_result_that_is_broadcast_or_an_unsigned_one_ends_the_chain() {
    let mut w = inputs(Fp32);
    w.op("EXP", Attribute::None, &["row"], "a", Fp32, &[1, 5]);
    w.op("ADD", Attribute::None, &["x", "a"], "b", Fp32, &[3, 5]);
    w.output("b");
    assert_eq!(plan(w).dispatches.len(), 2);

    let mut w = inputs(Int8);
    w.constant("multiplier", Int32, &[1], &(1_i32 << 30).to_le_bytes());
    w.constant("shift", Int8, &[1], &[30]);
    w.constant("zero", Int8, &[1], &[0]);
    let rescale = Attribute::Rescale {
        scale32: true,
        rounding: 1,
        per_channel: false,
        input_unsigned: false,
        output_unsigned: true,
    };
    w.op("RESCALE", rescale, &["x", "multiplier", "shift", "zero", "zero"], "a", Int8, &[3, 5]);
    w.op("BITWISE_NOT", Attribute::None, &["a"], "b", Int8, &[3, 5]);
    w.output("b");
    assert_eq!(plan(w).dispatches.len(), 2);
}

#[test]
fn long_chains_are_cut_where_the_kernel_ends() {
    let mut w = inputs(Fp32);
    let mut last = "x".to_owned();
    for i in 0..20 {
        let next = format!("t{i}");
        w.op("EXP", Attribute::None, &[&last], &next, Fp32, &[3, 5]);
        last = next;
    }
    w.output(&last);
    assert_eq!(plan(w).dispatches.len(), 3);
}

#[test]
fn casts_of_constants_leave_no_launch() {
    let mut w = inputs(Fp32);
    w.constant("weights", Fp16, &[1, 5], &[0, 0x3c].repeat(5));
    w.op("CAST", Attribute::None, &["weights"], "wide", Fp32, &[1, 5]);
    w.op("IDENTITY", Attribute::None, &["wide"], "alias", Fp32, &[1, 5]);
    w.op("ADD", Attribute::None, &["x", "alias"], "sum", Fp32, &[3, 5]);
    w.output("sum");
    let plan = plan(w);
    assert_eq!(labels(&plan), ["3 ADD pointwise.short"]);
    assert_eq!(plan.constants[..20], 1_f32.to_le_bytes().repeat(5));
}

/// CONV2D of INT8 with RESCALE and CLAMP, as quantized networks have it, with this many channels.
fn convolution(channels: i32) -> Writer {
    let shape = [1, 8, 8, channels];
    let count = channels as usize;
    let mut w = Writer::new();
    w.input("x", Int8, &[1, 8, 8, 3]);
    w.input("weight", Int8, &[channels, 3, 3, 3]);
    w.constant("bias", Int32, &[channels], &vec![0; 4 * count]);
    w.constant("zero", Int8, &[1], &[0]);
    w.constant("zero32", Int32, &[1], &[0; 4]);
    w.constant("multiplier", Int32, &[channels], &(1_i32 << 30).to_le_bytes().repeat(count));
    w.constant("shift", Int8, &[channels], &vec![38; count]);
    let conv = Attribute::Conv { pad: vec![1; 4], stride: vec![1; 2], dilation: vec![1; 2], acc_type: Int32 };
    w.op("CONV2D", conv, &["x", "weight", "bias", "zero", "zero"], "sums", Int32, &shape);
    let rescale = Attribute::Rescale {
        scale32: true,
        rounding: 1,
        per_channel: true,
        input_unsigned: false,
        output_unsigned: false,
    };
    w.op("RESCALE", rescale, &["sums", "multiplier", "shift", "zero32", "zero"], "narrow", Int8, &shape);
    let clamp = Attribute::Clamp { min: vec![0], max: vec![100], nan_mode: 1 };
    w.op("CLAMP", clamp, &["narrow"], "y", Int8, &shape);
    w.output("y");
    w
}

#[test]
fn a_quantized_convolution_is_one_launch() {
    let plan = plan(convolution(16));
    let [label] = labels(&plan)[..] else { panic!("{:?}", labels(&plan)) };
    assert!(label.starts_with("5 CONV2D gemm_direct.image_i8_fused CONV2D+RESCALE+CLAMP "), "{label}");
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn a_product_stays_alone_where_its_sums_are_needed_or_rows_are_no_whole_words() {
    let mut w = convolution(16);
    w.output("sums");
    assert_eq!(plan(w).dispatches.len(), 2);
    // The rescaled sums would be less than a word each, in rows of seven.
    assert_eq!(plan(convolution(7)).dispatches.len(), 2);
}

#[test]
fn a_product_takes_as_much_of_a_chain_as_its_kernel_runs() {
    let mut w = convolution(16);
    let mut last = "y".to_owned();
    for i in 0..4 {
        let next = format!("t{i}");
        w.op("BITWISE_NOT", Attribute::None, &[&last], &next, Int8, &[1, 8, 8, 16]);
        last = next;
    }
    let mut plan = plan({
        w.output(&last);
        w
    });
    // The first output is in the middle of the chain and ends it.
    assert_eq!(plan.dispatches.len(), 2);
    let label = plan.dispatches.remove(0).label;
    assert!(label.contains("CONV2D+RESCALE+CLAMP "), "{label}");
}

#[test]
fn a_product_that_only_changes_type_is_stored_in_the_new_one() {
    let mut w = Writer::new();
    w.input("a", Fp16, &[1, 3, 5]);
    w.input("b", Fp16, &[1, 5, 6]);
    w.constant("zero", Fp16, &[1], &[0; 2]);
    w.op("MATMUL", Attribute::None, &["a", "b", "zero", "zero"], "c", Fp16, &[1, 3, 6]);
    w.op("CAST", Attribute::None, &["c"], "y", Fp32, &[1, 3, 6]);
    w.output("y");
    let plan = plan(w);
    assert_eq!(plan.dispatches.len(), 1);
    assert_eq!(plan.arena_bytes, 0);
}
