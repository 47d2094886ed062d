//! Block-scaled tensors, and operators on values with their scales.

use accel_tosa::DType::{self, Bf16, Bs32Fp4E2M1, Bs32MxInt8, Fp4E2M1, Fp6E2M3, Fp8UE8M0, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{ConvAttrs, Op, Rule};

use crate::common::{accepted, broken, last, refused, shape, tensor};

type Named<'a> = (&'a str, DType, &'a [i32]);

/// An operator on block-scaled data: inputs, then shapes, and results.
fn graph(
    name: &str,
    attribute: Attribute,
    inputs: &[Named<'_>],
    shapes: &[(&str, &[i64])],
    results: &[Named<'_>],
) -> Writer {
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    let mut operands = Vec::new();
    for &(name, dtype, shape) in inputs {
        w.input(name, dtype, shape);
        operands.push(name);
    }
    for &(name, elements) in shapes {
        w.shape(name, elements);
        operands.push(name);
    }
    for &(name, dtype, shape) in results {
        w.tensor(name, dtype, shape);
        w.output(name);
    }
    let results: Vec<&str> = results.iter().map(|result| result.0).collect();
    w.raw(name, attribute, &operands, &results);
    w
}

const SIZE: Attribute = Attribute::Mode(32);

fn op(w: &Writer) -> Op {
    accepted(w).nodes[0].op.clone()
}

fn cast_from() -> Writer {
    let inputs: [Named<'_>; 2] = [("x", Fp4E2M1, &[3, 64]), ("s", Fp8UE8M0, &[3, 2])];
    graph("CAST_FROM_BLOCK_SCALED", SIZE, &inputs, &[], &[("y", Bf16, &[3, 64])])
}

fn cast_to() -> Writer {
    let results: [Named<'_>; 2] = [("y", Fp6E2M3, &[3, 64]), ("s", Fp8UE8M0, &[3, 2])];
    graph("CAST_TO_BLOCK_SCALED", SIZE, &[("x", Fp32, &[3, 64])], &[], &results)
}

fn matmul_t() -> Writer {
    let inputs: [Named<'_>; 4] = [
        ("a", Fp6E2M3, &[2, 3, 64]),
        ("a_scale", Fp8UE8M0, &[2, 3, 2]),
        ("b", Fp6E2M3, &[1, 5, 64]),
        ("b_scale", Fp8UE8M0, &[1, 5, 2]),
    ];
    graph("MATMUL_T_BLOCK_SCALED", SIZE, &inputs, &[], &[("y", Fp32, &[2, 3, 5])])
}

fn conv2d() -> Writer {
    let inputs: [Named<'_>; 5] = [
        ("x", Fp4E2M1, &[1, 4, 5, 32]),
        ("x_scale", Fp8UE8M0, &[1, 4, 5, 1]),
        ("w", Fp4E2M1, &[7, 2, 2, 32]),
        ("w_scale", Fp8UE8M0, &[7, 2, 2, 1]),
        ("bias", Fp32, &[7]),
    ];
    let shapes: [(&str, &[i64]); 3] = [("pad", &[0, 0, 1, 0]), ("stride", &[1, 1]), ("dilation", &[1, 1])];
    graph("CONV2D_BLOCK_SCALED", SIZE, &inputs, &shapes, &[("y", Fp32, &[1, 3, 5, 7])])
}

fn reshape() -> Writer {
    let inputs: [Named<'_>; 2] = [("x", Fp4E2M1, &[3, 64]), ("s", Fp8UE8M0, &[3, 2])];
    let results: [Named<'_>; 2] = [("y", Fp4E2M1, &[6, 32]), ("t", Fp8UE8M0, &[6, 1])];
    graph("RESHAPE_BLOCK_SCALED", SIZE, &inputs, &[("shape", &[6, 32])], &results)
}

fn row_gather(size: u32, scales: bool) -> Writer {
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    let dtype = if scales { Fp4E2M1 } else { Int8 };
    w.input("x", dtype, &[2, 5, 32]);
    w.input("s", Fp8UE8M0, &[2, 5, 1]);
    w.input("i", Int32, &[2, 4]);
    w.constant("n", Int32, &[1], &3_i32.to_le_bytes());
    w.tensor("y", dtype, &[2, 12, 32]);
    w.tensor("t", Fp8UE8M0, &[2, 12, 1]);
    w.output("y");
    let (operands, results) = if scales {
        (&["x", "s", "i", "n"][..], &["y", "t"][..])
    } else {
        (&["x", "i", "n"][..], &["y"][..])
    };
    w.raw("ROW_GATHER_BLOCK_SCALED", Attribute::Mode(size), operands, results);
    w
}

#[test]
fn operators_on_values_with_scales_are_read() {
    assert_eq!(op(&cast_from()), Op::CastFromBlockScaled);
    assert_eq!(op(&cast_to()), Op::CastToBlockScaled);
    assert_eq!(op(&matmul_t()), Op::MatMulTBlockScaled);
    assert_eq!(
        op(&conv2d()),
        Op::Conv2dBlockScaled(ConvAttrs {
            pad: [0, 0, 1, 0],
            stride: [1, 1],
            dilation: [1, 1],
            acc_type: Fp32,
            input_zp: 0,
            weight_zp: 0
        })
    );
    assert_eq!(op(&reshape()), Op::ReshapeBlockScaled);
    assert_eq!(op(&row_gather(32, true)), Op::RowGatherBlockScaled { run: 3 });
    // Without scales these are the operators of other data.
    assert_eq!(op(&row_gather(1, false)), Op::RowGather { run: 3 });
    let plain = graph(
        "RESHAPE_BLOCK_SCALED",
        Attribute::Mode(1),
        &[("x", Int8, &[3, 4])],
        &[("shape", &[12])],
        &[("y", Int8, &[12])],
    );
    assert_eq!(op(&plain), Op::Reshape);
}

#[test]
fn block_sizes_are_checked() {
    let scaled: [&dyn Fn() -> Writer; 6] =
        [&cast_from, &cast_to, &matmul_t, &conv2d, &reshape, &|| row_gather(32, true)];
    for graph in scaled {
        for size in [0, 1, 18, 64] {
            let part = format!("its block size is {size} where 32 is needed");
            broken(graph, Rule::ErrorIf, &part, |w| last(w).attribute = Attribute::Mode(size));
        }
    }
    refused(&row_gather(32, false), Rule::ErrorIf, "its block size is 32 where 1 is needed");
}

#[test]
fn scales_fit_their_values() {
    let operands: [(&dyn Fn() -> Writer, &[&str]); 6] = [
        (&cast_from, &["s"]),
        (&cast_to, &["s"]),
        (&matmul_t, &["a_scale", "b_scale"]),
        (&conv2d, &["x_scale", "w_scale"]),
        (&reshape, &["s", "t"]),
        (&|| row_gather(32, true), &["s", "t"]),
    ];
    for (graph, names) in operands {
        for name in names {
            broken(graph, Rule::ErrorIf, "one for each 32 values", |w| {
                *tensor(w, name).shape.last_mut().unwrap() += 1;
            });
            broken(graph, Rule::ErrorIf, "one for each 32 values", |w| tensor(w, name).shape.insert(0, 1));
        }
    }
    broken(&cast_from, Rule::ErrorIf, "must be a multiple of 32", |w| {
        tensor(w, "x").shape[1] = 63;
        tensor(w, "y").shape[1] = 63;
    });
}

#[test]
fn shapes_of_products_are_checked() {
    broken(&matmul_t, Rule::ErrorIf, "batch size of B is 3", |w| tensor(w, "b").shape[0] = 3);
    broken(&matmul_t, Rule::ErrorIf, "inner dimension C", |w| tensor(w, "b").shape[2] = 32);
    broken(&matmul_t, Rule::ErrorIf, "[2, 3, 5] is needed", |w| tensor(w, "y").shape[2] = 4);
    broken(&conv2d, Rule::ErrorIf, "number of input channels", |w| tensor(w, "w").shape[3] = 64);
    broken(&conv2d, Rule::ErrorIf, "its bias has the shape", |w| tensor(w, "bias").shape[0] = 2);
    broken(&conv2d, Rule::ErrorIf, "its padding is -1", |w| shape(w, "pad")[0] = -1);
    broken(&conv2d, Rule::ErrorIf, "its stride is 0", |w| shape(w, "stride")[1] = 0);
    broken(&conv2d, Rule::ErrorIf, "its dilation is 0", |w| shape(w, "dilation")[0] = 0);
    broken(&conv2d, Rule::ErrorIf, "pad has 3 elements where 4 are needed", |w| {
        shape(w, "pad").pop();
    });
    broken(&conv2d, Rule::ErrorIf, "the output's height", |w| tensor(w, "y").shape[1] = 4);
    broken(&reshape, Rule::ErrorIf, "they must be equal", |w| shape(w, "shape")[0] = 3);
}

#[test]
fn types_and_numbers_of_operands_are_checked() {
    broken(&cast_from, Rule::Unsupported, "no such combination", |w| tensor(w, "s").dtype = Int8.code());
    broken(&cast_from, Rule::Unsupported, "no such combination", |w| tensor(w, "y").dtype = Int8.code());
    broken(&cast_from, Rule::ErrorIf, "operands is 1 where 2 is needed", |w| {
        last(w).inputs.pop();
    });
    broken(&cast_to, Rule::ErrorIf, "outputs is 1 where 2 is needed", |w| {
        last(w).outputs.pop();
    });
    broken(&matmul_t, Rule::Unsupported, "no such combination", |w| tensor(w, "b").dtype = Fp4E2M1.code());
}

/// A block-scaled input cast to FP32.
fn scaled() -> Writer {
    graph("CAST", Attribute::None, &[("x", Bs32Fp4E2M1, &[3, 64])], &[], &[("y", Fp32, &[3, 64])])
}

#[test]
fn block_scaled_tensors_are_read() {
    let graph = accepted(&scaled());
    assert_eq!(graph.tensor(graph.inputs[0]).dtype, Bs32Fp4E2M1);
    assert_eq!(graph.tensor(graph.inputs[0]).bytes(), 96);
    assert_eq!(graph.tensor(graph.inputs[0]).scales_shape(), Some(vec![3, 2]));
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.scaled_constant("x", Bs32MxInt8, &[2, 32], &[1; 64], &[127, 128]);
    w.op("CAST", Attribute::None, &["x"], "y", Fp32, &[2, 32]);
    w.output("y");
    let graph = accepted(&w);
    let constant = graph.tensors[0].constant.clone().unwrap();
    assert_eq!(graph.artifact[constant.range], [1; 64]);
    assert_eq!(graph.artifact[constant.scales], [127, 128]);
    tensor(&mut w, "x").scale_data.pop();
    refused(&w, Rule::Malformed, "has 1 bytes of scales where 2 are needed");
}

#[test]
fn malformed_block_scaled_tensors_are_refused() {
    broken(&scaled, Rule::ErrorIf, "last dimension must be a multiple of 32", |w| {
        tensor(w, "x").shape[1] = 60
    });
    broken(&scaled, Rule::ErrorIf, "last dimension must be a multiple of 32", |w| {
        tensor(w, "x").shape.clear()
    });
    broken(&scaled, Rule::ErrorIf, "has the block shape 16", |w| tensor(w, "x").block_shape = 16);
    broken(&scaled, Rule::ErrorIf, "scales of the type number 3", |w| tensor(w, "x").scale_type = 3);
    broken(&scaled, Rule::ErrorIf, "values of type INT8, which are never scaled", |w| {
        tensor(w, "x").dtype = Int8.code();
    });
    broken(&scaled, Rule::ErrorIf, "came with TOSA 1.1, and the file is of 1.0", |w| w.version = [1, 0, 0]);
}

#[test]
fn what_no_official_test_covers_is_refused() {
    let identity = |dtype: DType| {
        graph("IDENTITY", Attribute::None, &[("x", dtype, &[2, 32])], &[], &[("y", dtype, &[2, 32])])
    };
    refused(&identity(Bs32Fp4E2M1), Rule::Unsupported, "no such combination");
    refused(&identity(Fp4E2M1), Rule::Unsupported, "no such combination");
    let scaled: [(&str, DType, &[i32]); 1] = [("x", Bs32MxInt8, &[1, 2, 2, 32])];
    let shapes: [(&str, &[i64]); 3] = [("scale", &[1; 4]), ("offset", &[0; 2]), ("border", &[0; 2])];
    let resize =
        |mode| graph("RESIZE", Attribute::Mode(mode), &scaled, &shapes, &[("y", Bs32MxInt8, &[1, 2, 2, 32])]);
    accepted(&resize(1));
    refused(&resize(2), Rule::ErrorIf, "block-scaled types have no BILINEAR mode");
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.input("c", DType::Bool, &[1]);
    w.input("x", Bs32MxInt8, &[32]);
    let branch = || {
        let mut inner = Writer::new();
        inner.input("x", Bs32MxInt8, &[32]);
        inner.output("x");
        inner
    };
    w.regions = vec![("then".to_owned(), branch()), ("else".to_owned(), branch())];
    let graphs = Attribute::Graphs { first: "then".to_owned(), second: "else".to_owned() };
    w.op("COND_IF", graphs, &["c", "x"], "y", Bs32MxInt8, &[32]);
    w.output("y");
    refused(&w, Rule::Unsupported, "it hands on \"x\" of type BS32_FP8UE8M0_MXINT8");
}

#[test]
fn open_dimensions_of_blocks_are_inferred() {
    let mut w = cast_to();
    for name in ["y", "s"] {
        tensor(&mut w, name).shape = vec![-1, -1];
    }
    let read = accepted(&w);
    let shapes: Vec<&[u32]> = read.outputs.iter().map(|id| &read.tensor(*id).shape[..]).collect();
    assert_eq!(shapes, [[3, 64], [3, 2]]);
    let cast = |columns| {
        let results: [Named<'_>; 1] = [("y", Bs32Fp4E2M1, &[3, -1])];
        graph("CAST", Attribute::None, &[("x", Fp32, &[3, columns])], &[], &results)
    };
    accepted(&cast(64));
    refused(&cast(60), Rule::ErrorIf, "last dimension must be a multiple of 32");
}
