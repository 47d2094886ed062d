//! Operators that make shapes.

use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, Rule};

use crate::common::{accepted, refused};

fn writer() -> Writer {
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.input("x", DType::Fp32, &[7, 3]);
    w.output("x");
    w
}

/// A graph that computes a shape of some others and compares it with one.
fn compared(name: &str, operands: &[&[i64]], rank: usize, expected: &[i64]) -> Writer {
    let mut w = writer();
    let names: Vec<String> = (0..operands.len()).map(|index| format!("s{index}")).collect();
    for (name, operand) in names.iter().zip(operands) {
        w.shape(name, operand);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    w.shapes.push(("made".to_owned(), vec![0; rank]));
    w.raw(name, Attribute::None, &names, &["made"]);
    w.shape("expected", expected);
    w.raw("ASSERT_EQUAL_SHAPE", Attribute::Round(false), &["made", "expected"], &[]);
    w
}

#[test]
fn shapes_are_computed() {
    let (a, b): (&[i64], &[i64]) = (&[7, 8, 1], &[2, 4, 3]);
    for (name, operands, expected) in [
        ("ADD_SHAPE", vec![a, b], vec![9, 12, 4]),
        ("SUB_SHAPE", vec![a, b], vec![5, 4, -2]),
        ("MUL_SHAPE", vec![a, b], vec![14, 32, 3]),
        ("MAX_SHAPE", vec![a, b], vec![7, 8, 3]),
        ("MIN_SHAPE", vec![a, b], vec![2, 4, 1]),
        ("MOD_SHAPE", vec![a, b], vec![1, 0, 1]),
        ("DIV_CEIL_SHAPE", vec![a, b], vec![4, 2, 1]),
        ("DIV_FLOOR_SHAPE", vec![a, b], vec![3, 2, 0]),
        ("EXP2_SHAPE", vec![a], vec![128, 256, 2]),
        ("LOG2_CEIL_SHAPE", vec![a], vec![3, 3, 0]),
        ("LOG2_FLOOR_SHAPE", vec![a], vec![2, 3, 0]),
        ("CONCAT_SHAPE", vec![a, &[5], b], vec![7, 8, 1, 5, 2, 4, 3]),
    ] {
        let graph = accepted(&compared(name, &operands, expected.len(), &expected));
        assert!(graph.nodes.is_empty(), "{name}");
        let mut wrong = expected.clone();
        wrong[1] += 1;
        refused(&compared(name, &operands, expected.len(), &wrong), Rule::ErrorIf, "they must be equal");
        refused(&compared(name, &operands, expected.len() + 1, &expected), Rule::ErrorIf, "has the rank");
    }
}

#[test]
fn shapes_without_a_value_are_refused() {
    let undefined = "is not defined, or does not fit 64 bits";
    for (name, operands) in [
        ("ADD_SHAPE", vec![&[i64::MAX][..], &[1]]),
        ("SUB_SHAPE", vec![&[i64::MIN], &[1]]),
        ("MUL_SHAPE", vec![&[i64::MAX], &[2]]),
        ("MOD_SHAPE", vec![&[1], &[0]]),
        ("DIV_CEIL_SHAPE", vec![&[1], &[0]]),
        ("DIV_FLOOR_SHAPE", vec![&[-1], &[2]]),
        ("EXP2_SHAPE", vec![&[63]]),
        ("EXP2_SHAPE", vec![&[-1]]),
        ("LOG2_CEIL_SHAPE", vec![&[0]]),
        ("LOG2_FLOOR_SHAPE", vec![&[-1]]),
    ] {
        refused(&compared(name, &operands, 1, &[1]), Rule::ErrorIf, undefined);
    }
    refused(&compared("ADD_SHAPE", &[&[1], &[1, 2]], 1, &[1]), Rule::ErrorIf, "have the ranks 1 and 2");
    refused(&compared("CONCAT_SHAPE", &[&[1], &[]], 1, &[1]), Rule::ErrorIf, "operand 1 has the rank 0");
    let long = [1; 16];
    accepted(&compared("CONCAT_SHAPE", &[&long[..9], &long[..7]], 16, &long));
    refused(&compared("CONCAT_SHAPE", &[&long, &[1]], 17, &long), Rule::Level, "MAX_SHAPE_LEN");
    let mut old = compared("MAX_SHAPE", &[&[1], &[1]], 1, &[1]);
    old.version = [1, 0, 0];
    refused(&old, Rule::ErrorIf, "it came with TOSA 1.1");
}

#[test]
fn a_dimension_becomes_a_shape_that_other_operators_take() {
    let with_axis = |axis: i32| {
        let mut w = writer();
        w.shapes.push(("dim".to_owned(), vec![0]));
        w.raw("DIM", Attribute::Axis { axis, nan_mode: 0 }, &["x"], &["dim"]);
        w.shape("rest", &[1]);
        w.shapes.push(("both".to_owned(), vec![0; 2]));
        w.raw("CONCAT_SHAPE", Attribute::None, &["dim", "rest"], &["both"]);
        w.op("TILE", Attribute::None, &["x", "both"], "y", DType::Fp32, &[21, 3]);
        w.output("y");
        w
    };
    assert_eq!(accepted(&with_axis(1)).nodes.len(), 1);
    refused(&with_axis(0), Rule::ErrorIf, "the output \"y\" has the shape [21, 3] where [49, 3]");
    refused(&with_axis(2), Rule::ErrorIf, "its axis is 2");
    refused(&with_axis(-1), Rule::ErrorIf, "its axis is -1");
}

#[test]
fn slices_of_shapes_lie_inside() {
    let sliced = |start: i32, size: i32| {
        let mut w = writer();
        w.shape("s", &[5, 6, 7]);
        w.constant("start", DType::Int32, &[1], &start.to_le_bytes());
        w.constant("size", DType::Int32, &[1], &size.to_le_bytes());
        w.shapes.push(("part".to_owned(), vec![0; 2]));
        w.raw("SLICE_SHAPE", Attribute::None, &["s", "start", "size"], &["part"]);
        w.shape("expected", &[6, 7]);
        w.raw("ASSERT_EQUAL_SHAPE", Attribute::Round(false), &["part", "expected"], &[]);
        w
    };
    accepted(&sliced(1, 2));
    refused(&sliced(0, 2), Rule::ErrorIf, "they must be equal");
    refused(&sliced(-1, 2), Rule::ErrorIf, "its start is -1");
    refused(&sliced(1, 0), Rule::ErrorIf, "its size is 0");
    refused(&sliced(2, 2), Rule::ErrorIf, "it takes 2 elements from 2 on of a shape of rank 3");
    refused(&sliced(i32::MAX, i32::MAX), Rule::ErrorIf, "of a shape of rank 3");
    let mut w = sliced(1, 2);
    w.operators.remove(1);
    w.inputs.push("start".to_owned());
    refused(&w, Rule::Unsupported, "its start is computed at run time");
}

#[test]
fn asserted_shapes_may_broadcast_where_they_say_so() {
    let asserted = |broadcast: bool, b: &[i64]| {
        let mut w = writer();
        w.shape("a", &[1, 6]);
        w.shape("b", b);
        w.raw("ASSERT_EQUAL_SHAPE", Attribute::Round(broadcast), &["a", "b"], &[]);
        w
    };
    accepted(&asserted(true, &[9, 1]));
    refused(&asserted(true, &[9, 2]), Rule::ErrorIf, "or 1 where they are not");
    refused(&asserted(false, &[9, 6]), Rule::ErrorIf, "they must be equal.");
    refused(&asserted(true, &[9, 6, 1]), Rule::ErrorIf, "have the ranks 2 and 3");
}
