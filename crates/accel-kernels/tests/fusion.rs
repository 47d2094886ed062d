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
