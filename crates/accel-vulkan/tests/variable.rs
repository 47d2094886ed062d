//! Variables live with the program: from one submission to the next, and no longer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::Cpu;
use accel_tosa::DType::{Fp32, Int8};
use accel_tosa::writer::{Attribute, Writer};
use common::submissions;

/// Gives the variable as it was, adds the input to it, and gives what it is then.
fn accumulate(initial: &[f32]) -> Writer {
    let mut w = Writer::new();
    w.input("x", Fp32, &[3]);
    w.variable("sum", Fp32, &[3], &bytes!(initial));
    w.op("VARIABLE_READ", Attribute::None, &["sum"], "before", Fp32, &[3]);
    w.op("ADD", Attribute::None, &["before", "x"], "next", Fp32, &[3]);
    w.raw("VARIABLE_WRITE", Attribute::None, &["next"], &["sum"]);
    w.op("VARIABLE_READ", Attribute::None, &["sum"], "after", Fp32, &[3]);
    w.output("before");
    w.output("after");
    w
}

#[test]
fn a_variable_keeps_its_value_until_the_program_goes() {
    let steps = [[1.0_f32, 2.0, 3.0], [10.0, 20.0, 30.0], [0.5, 0.25, 0.125]].map(|x| bytes!(x));
    let inputs = steps.each_ref().map(|x| [x.as_slice()]);
    let inputs = inputs.each_ref().map(|x| x.as_slice());
    for initial in [&[][..], &[7.0, 0.0, -1.0]] {
        // Each time the program is loaded anew, and begins anew.
        for _ in 0..2 {
            let Some(found) = submissions(Cpu, &accumulate(initial), &inputs) else { return };
            let mut sum = [0, 1, 2].map(|i| initial.get(i).copied().unwrap_or(0.0));
            for (outputs, step) in found.iter().zip(&steps) {
                assert_eq!(numbers!(f32, outputs[0]), sum);
                sum.iter_mut().zip(numbers!(f32, step)).for_each(|(sum, x)| *sum += x);
                assert_eq!(numbers!(f32, outputs[1]), sum);
            }
        }
    }
}

/// As a stream's window: what was read before a write is the old value though it is used after, and variables of odd
/// sizes do not touch.
#[test]
fn windows_shift() {
    let mut w = Writer::new();
    w.input("x", Int8, &[2]);
    w.variable("first", Int8, &[5], &[1, 2, 3, 4, 5]);
    w.variable("second", Int8, &[7], &[]);
    w.op("VARIABLE_READ", Attribute::None, &["first"], "old", Int8, &[5]);
    w.op("CONCAT", Attribute::Axis { axis: 0, nan_mode: 0 }, &["old", "x"], "all", Int8, &[7]);
    w.raw("VARIABLE_WRITE", Attribute::None, &["all"], &["second"]);
    w.shape("start", &[2]);
    w.shape("size", &[5]);
    w.op("SLICE", Attribute::None, &["all", "start", "size"], "new", Int8, &[5]);
    w.raw("VARIABLE_WRITE", Attribute::None, &["new"], &["first"]);
    w.op("VARIABLE_READ", Attribute::None, &["second"], "y", Int8, &[7]);
    w.output("y");
    w.output("old");
    let Some(found) = submissions(Cpu, &w, &[&[&[6, 7]], &[&[8, 9]]]) else { return };
    assert_eq!(found[0], [vec![1, 2, 3, 4, 5, 6, 7], vec![1, 2, 3, 4, 5]]);
    assert_eq!(found[1], [vec![3, 4, 5, 6, 7, 8, 9], vec![3, 4, 5, 6, 7]]);
}
