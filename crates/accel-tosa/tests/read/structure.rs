//! Rules about the file, its version, its names and its constants.

use crate::common::{One, accepted, last, refused, tensor};
use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, Op, Rule, TensorId, read};

fn add() -> Writer {
    One {
        name: "ADD",
        inputs: &[("x", DType::Fp32, &[2, 3])],
        constants: &[("c", DType::Fp32, &[1, 3], &[0; 12])],
        operands: &["x", "c"],
        output: (DType::Fp32, &[2, 3]),
        ..One::default()
    }
    .build()
}

#[test]
fn a_graph_is_read() {
    let graph = accepted(&add());
    assert_eq!(graph.inputs, [TensorId(0)]);
    assert_eq!(graph.outputs, [TensorId(2)]);
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(graph.nodes[0].position, 1);
    assert_eq!(graph.nodes[0].op.name(), "ADD");
    assert_eq!(graph.nodes[0].inputs, [TensorId(0), TensorId(1)]);
    assert_eq!(graph.constant(TensorId(1)), Some(&[0; 12][..]));
    assert_eq!(graph.constant(TensorId(0)), None);
    assert!(graph.profile.float && !graph.profile.integer);
}

#[test]
fn padded_constants_are_cut_to_their_shape() {
    let mut w = add();
    tensor(&mut w, "c").data = (0..16).collect();
    let graph = accepted(&w);
    assert_eq!(graph.constant(TensorId(1)), Some(&(0..12).collect::<Vec<u8>>()[..]));
}

#[test]
fn constants_shorter_than_their_shape_are_refused() {
    let mut w = add();
    tensor(&mut w, "c").data.pop();
    let refusal = refused(&w, Rule::Malformed, "has 11 bytes where 12 are needed");
    assert_eq!(refusal.at, Some((0, "CONST")));
    assert!(refusal.to_string().starts_with("operator 0 (CONST): the constant \"c\" of shape [1, 3]"));
}

#[test]
fn bool_constants_hold_zero_and_one() {
    let mut w = Writer::new();
    w.constant("c", DType::Bool, &[3], &[0, 1, 2]);
    w.output("c");
    refused(&w, Rule::Malformed, "a byte of 2");
    tensor(&mut w, "c").data = vec![0, 1, 1];
    assert_eq!(accepted(&w).outputs.len(), 1);
}

#[test]
fn data_outside_the_file_is_refused() {
    let mut w = add();
    tensor(&mut w, "c").external_size = 12;
    refused(&w, Rule::Unsupported, "outside the FlatBuffer");
}

#[test]
fn versions() {
    for (version, accept) in [
        ([1, 0, 0], true),
        ([1, 0, 7], true),
        ([1, 1, 0], true),
        ([1, 2, 0], false),
        ([0, 80, 0], false),
        ([2, 0, 0], false),
        ([-1, -1, -1], false),
    ] {
        for draft in [false, true] {
            let mut w = add();
            (w.version, w.draft) = (version, draft);
            if accept {
                assert_eq!(accepted(&w).version.draft, draft);
            } else {
                refused(&w, Rule::Unsupported, "versions 1.0 and 1.1 are read");
            }
        }
    }
}

#[test]
fn regions_that_no_operator_names_are_ignored() {
    let mut w = add();
    w.regions = vec![(String::new(), Writer::new()), (String::new(), Writer::new())];
    accepted(&w);
}

#[test]
fn operators_that_are_not_run_are_refused_by_name() {
    let mut w = add();
    w.raw("CUSTOM", Attribute::None, &["y"], &["z"]);
    let refusal = refused(&w, Rule::Unsupported, "never run");
    assert_eq!(refusal.at, Some((2, "CUSTOM")));
}

/// Reads a variable and writes its sum with itself back.
fn doubling() -> Writer {
    let mut w = Writer::new();
    w.variable("v", DType::Fp32, &[2], &[0; 8]);
    w.op("VARIABLE_READ", Attribute::None, &["v"], "x", DType::Fp32, &[2]);
    w.op("ADD", Attribute::None, &["x", "x"], "y", DType::Fp32, &[2]);
    w.raw("VARIABLE_WRITE", Attribute::None, &["y"], &["v"]);
    w.output("y");
    w
}

#[test]
fn variables_are_read_and_written_by_their_own_operators() {
    // Some writers leave VARIABLE out, and call the others IDENTITY.
    let mut implicit = doubling();
    implicit.operators.remove(0);
    implicit.operators[0].code = 68;
    implicit.operators[2].code = 68;
    for w in [doubling(), implicit] {
        let graph = accepted(&w);
        assert_eq!(graph.variables.len(), 1);
        assert!(graph.variables[0].initial.is_some());
        assert_eq!(graph.nodes[0].op, Op::VariableRead { variable: 0 });
        assert_eq!(graph.nodes[2].op, Op::VariableWrite { variable: 0 });
        assert_eq!((graph.nodes[0].inputs.len(), graph.nodes[2].outputs.len()), (0, 0));
    }
    let mut w = doubling();
    w.tensors[0].data.clear();
    assert_eq!(accepted(&w).variables[0].initial, None);
}

#[test]
fn wrong_variables_are_refused() {
    let error = |part: &str, change: &dyn Fn(&mut Writer)| {
        let mut w = doubling();
        change(&mut w);
        refused(&w, Rule::ErrorIf, part);
    };
    error("\"v\" is not a variable", &|w| w.tensors[0].variable = false);
    error("\"y\" is not a variable", &|w| w.operators[3].outputs[0] = "y".into());
    error("no such combination of types", &|w| w.tensors[1].dtype = DType::Fp16.code());
    error("has the shape [2] where [3] is needed", &|w| w.tensors[0].shape[0] = 3);
    error("0 operands and 1 outputs where 1 and 1", &|w| w.operators[3].inputs.clear());
    error("which only VARIABLE_WRITE may change", &|w| w.operators[2].outputs[0] = "v".into());
    let mut w = doubling();
    w.tensors[0].data.truncate(4);
    refused(&w, Rule::Malformed, "has 4 bytes where 8 are needed");
    let mut w = doubling();
    w.operators[2].inputs[1] = "v".into();
    refused(&w, Rule::Malformed, "\"v\" has no value yet");
}

#[test]
fn unknown_operators_and_wrong_attributes_are_malformed() {
    for code in [0, 101, u32::MAX] {
        let mut w = add();
        last(&mut w).code = code;
        refused(&w, Rule::Malformed, "unknown code");
    }
    let mut w = add();
    last(&mut w).attribute_type = 30;
    refused(&w, Rule::Malformed, "attribute is number 30 where its own, 15, is needed");
    let mut w = add();
    last(&mut w).attribute_type = 0;
    accepted(&w);
    let mut w = add();
    w.op("MAXIMUM", Attribute::Mode(1), &["x", "y"], "z", DType::Fp32, &[2, 3]);
    accepted(&w);
    last(&mut w).attribute_type = 0;
    refused(&w, Rule::Malformed, "attribute is number 0");
}

#[test]
fn names_have_one_producer_before_their_use() {
    let mut w = add();
    last(&mut w).inputs[0] = "nobody".into();
    refused(&w, Rule::Malformed, "\"nobody\" is not among the block's tensors");

    let mut w = add();
    w.operators.swap(0, 1);
    refused(&w, Rule::Malformed, "\"c\" has no value yet");

    let mut w = add();
    last(&mut w).inputs[0] = "y".into();
    refused(&w, Rule::Malformed, "\"y\" has no value yet");

    let mut w = add();
    last(&mut w).outputs[0] = "x".into();
    refused(&w, Rule::Malformed, "\"x\" already has a value");

    let mut w = add();
    last(&mut w).outputs[0] = "nobody".into();
    refused(&w, Rule::Malformed, "\"nobody\" is not among the block's tensors");

    let mut w = add();
    w.tensor("x", DType::Fp32, &[2, 3]);
    refused(&w, Rule::Malformed, "\"x\" is given to two");
}

#[test]
fn operand_counts() {
    let mut w = add();
    last(&mut w).inputs.pop();
    refused(&w, Rule::ErrorIf, "operands is 1 where 2 is needed");
    let mut w = add();
    last(&mut w).outputs.clear();
    refused(&w, Rule::ErrorIf, "outputs is 0 where 1 is needed");
}

#[test]
fn the_interface_names_tensors_that_exist() {
    let mut w = add();
    w.inputs.push("nobody".into());
    refused(&w, Rule::Malformed, "block input \"nobody\" is not among");
    let mut w = add();
    w.inputs.push("x".into());
    refused(&w, Rule::Malformed, "block input \"x\" is listed twice");
    let mut w = add();
    w.outputs[0] = "nobody".into();
    refused(&w, Rule::Malformed, "block output \"nobody\" is not among");
    let mut w = add();
    w.tensor("idle", DType::Fp32, &[1]);
    w.outputs[0] = "idle".into();
    refused(&w, Rule::Malformed, "no operator makes the block output \"idle\"");
    let mut w = add();
    w.output("y");
    refused(&w, Rule::Unsupported, "block output \"y\" is listed twice");
    let mut w = add();
    w.outputs.clear();
    refused(&w, Rule::Malformed, "no output");
    let mut w = add();
    w.shape("s", &[1]);
    w.output("s");
    refused(&w, Rule::Unsupported, "\"s\" is a shape");
    w.outputs.pop();
    w.inputs.push("s".into());
    refused(&w, Rule::Unsupported, "\"s\" is a shape");
}

#[test]
fn outputs_may_be_inputs_or_constants() {
    let mut w = add();
    w.output("x");
    w.output("c");
    assert_eq!(accepted(&w).outputs, [TensorId(2), TensorId(0), TensorId(1)]);
}

#[test]
fn shapes_must_be_known_and_positive() {
    let mut w = add();
    tensor(&mut w, "x").shape[0] = -1;
    let refusal = refused(&w, Rule::Unsupported, "unknown dimension (-1)");
    assert_eq!(refusal.at, Some((1, "ADD")));
    for dim in [0, -2, i32::MIN] {
        let mut w = add();
        tensor(&mut w, "x").shape[0] = dim;
        refused(&w, Rule::ErrorIf, &format!("a dimension of {dim}"));
    }
    let mut w = add();
    tensor(&mut w, "x").unranked = true;
    refused(&w, Rule::Unsupported, "has no rank");
}

#[test]
fn level_limits_of_tensors() {
    let mut w = add();
    tensor(&mut w, "x").shape = vec![1; 7];
    let refusal = refused(&w, Rule::Level, "rank 7, above the 6 of MAX_RANK");
    assert_eq!(refusal.at, Some((1, "ADD")));
    for shape in [vec![1 << 16, 1 << 15], vec![i32::MAX; 6], vec![i32::MAX, 2]] {
        let mut w = add();
        tensor(&mut w, "x").shape = shape;
        refused(&w, Rule::Level, "2^31 elements or more");
    }
    let mut w = Writer::new();
    w.input("x", DType::Int8, &[i32::MAX]);
    w.op("IDENTITY", Attribute::None, &["x"], "y", DType::Int8, &[i32::MAX]);
    w.output("y");
    accepted(&w);
}

#[test]
fn types_of_later_versions_are_refused() {
    for code in [13, 16, 18] {
        let mut w = add();
        tensor(&mut w, "x").dtype = code;
        refused(&w, Rule::ErrorIf, "came with TOSA 1.1, and the file is of 1.0");
    }
    for code in [0, 19, u32::MAX] {
        let mut w = add();
        tensor(&mut w, "x").dtype = code;
        refused(&w, Rule::Malformed, "unknown type number");
    }
    let mut w = add();
    tensor(&mut w, "x").dtype = DType::Shape.code();
    refused(&w, Rule::ErrorIf, "has the type SHAPE");
}

#[test]
fn types_that_an_operator_does_not_take() {
    let mut w = add();
    tensor(&mut w, "y").dtype = DType::Fp16.code();
    refused(&w, Rule::ErrorIf, "input1 FP32, input2 FP32, output FP16");
    w.version = [1, 1, 0];
    refused(&w, Rule::Unsupported, "TOSA 1.1 has no such combination");
    // BOOL from FP32 came with 1.1.
    let mut w = One {
        name: "CAST",
        inputs: &[("x", DType::Fp32, &[2])],
        operands: &["x"],
        output: (DType::Bool, &[2]),
        ..One::default()
    }
    .build();
    refused(&w, Rule::ErrorIf, "input FP32, output BOOL");
    w.version = [1, 1, 0];
    assert_eq!(accepted(&w).nodes[0].op, Op::Cast);
}

#[test]
fn operators_of_later_versions_need_files_of_them() {
    let mut w = One {
        name: "MATMUL_T",
        inputs: &[("a", DType::Fp32, &[2, 3, 4]), ("b", DType::Fp32, &[1, 5, 4])],
        constants: &[("zero", DType::Fp32, &[1], &[0; 4])],
        operands: &["a", "b", "zero", "zero"],
        output: (DType::Fp32, &[2, 3, 5]),
        ..One::default()
    }
    .build();
    refused(&w, Rule::ErrorIf, "it came with TOSA 1.1, and the file is of 1.0");
    w.version = [1, 1, 0];
    assert_eq!(accepted(&w).nodes[0].op, Op::MatMulT { a_zp: 0, b_zp: 0 });
    for (shape, rule) in
        [(&[3, 5, 4][..], "batch size of B is 3"), (&[1, 5, 3], "inner dimension C"), (&[5, 4], "rank 2")]
    {
        tensor(&mut w, "b").shape = shape.to_vec();
        refused(&w, Rule::ErrorIf, rule);
    }
}

#[test]
fn tensors_and_shapes_are_not_mixed_up() {
    let mut w = add();
    w.shape("s", &[3, 2]);
    w.op("RESHAPE", Attribute::None, &["y", "s"], "z", DType::Fp32, &[3, 2]);
    accepted(&w);
    last(&mut w).inputs[1] = "c".into();
    refused(&w, Rule::ErrorIf, "shape is the tensor \"c\" where a shape is needed");
    last(&mut w).inputs = vec!["s".into(), "s".into()];
    refused(&w, Rule::ErrorIf, "input1 is the shape \"s\" where a tensor is needed");

    let mut w = add();
    w.shapes.push(("s".into(), vec![1]));
    last(&mut w).outputs[0] = "s".into();
    refused(&w, Rule::ErrorIf, "\"s\" is a shape where a tensor is needed");
    let mut w = add();
    w.raw("CONST_SHAPE", Attribute::None, &[], &["z"]);
    w.tensor("z", DType::Int32, &[1]);
    refused(&w, Rule::ErrorIf, "\"z\" is a tensor where a shape is needed");
}

#[test]
fn numbers_that_are_computed_stay_operands() {
    let mul = |dtype, shape| {
        One {
            name: "MUL",
            inputs: &[("x", dtype, &[2]), ("s", DType::Int8, shape)],
            operands: &["x", "x", "s"],
            output: (dtype, &[2]),
            ..One::default()
        }
        .build()
    };
    let operands = |w: Writer| read(w.finish()).unwrap().nodes[0].inputs.len();
    assert_eq!(operands(mul(DType::Int32, &[1])), 3);
    // Its shift can only be 0.
    assert_eq!(operands(mul(DType::Fp32, &[1])), 2);
    refused(&mul(DType::Int32, &[2]), Rule::ErrorIf, "shift \"s\" has the shape [2] where [1] is needed");
}

#[test]
fn names_in_messages_are_escaped_and_cut() {
    let mut w = add();
    last(&mut w).inputs[0] = format!("a\n{}", "é".repeat(100_000));
    let refusal = read(w.finish()).unwrap_err();
    assert!(refusal.message.len() < 10_000);
    assert!(!refusal.message.contains('\n'));
}
