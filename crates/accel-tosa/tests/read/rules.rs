//! ERROR_IFs and level limits, operator by operator: a graph that is accepted, then one change that is not.

use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{
    BinaryOp, ConvAttrs, DType, NanMode, Op, PoolAttrs, ReduceOp, RescaleAttrs, ResizeAttrs, ResizeMode,
    Rounding, Rule,
};

use crate::common::{One, accepted, broken, last, refused, shape, tensor};

use DType::{Bool, Fp32, Int8, Int16, Int32, Int48, Int64};

const ZP: &[u8] = &[0];

fn op(w: &Writer) -> Op {
    accepted(w).nodes.pop().expect("the graph has a node").op
}

fn conv_attribute(pad: [i32; 4], stride: [i32; 2], dilation: [i32; 2]) -> Attribute {
    Attribute::Conv { pad: pad.into(), stride: stride.into(), dilation: dilation.into(), acc_type: Int32 }
}

fn conv2d() -> Writer {
    One {
        name: "CONV2D",
        attribute: conv_attribute([1, 0, 0, 1], [2, 1], [1, 2]),
        inputs: &[("x", Int8, &[2, 6, 8, 3]), ("w", Int8, &[5, 3, 2, 3]), ("b", Int32, &[5])],
        constants: &[("xz", Int8, &[1], &[0xfe]), ("wz", Int8, &[1], &[7])],
        operands: &["x", "w", "b", "xz", "wz"],
        output: (Int32, &[2, 3, 7, 5]),
        ..One::default()
    }
    .build()
}

#[test]
fn conv2d_is_read() {
    let attributes = ConvAttrs {
        pad: [1, 0, 0, 1],
        stride: [2, 1],
        dilation: [1, 2],
        acc_type: Int32,
        input_zp: -2,
        weight_zp: 7,
    };
    assert_eq!(op(&conv2d()), Op::Conv2d(attributes));
    assert_eq!(accepted(&conv2d()).nodes[0].inputs.len(), 3);
}

#[test]
fn conv2d_is_checked() {
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&conv2d, Rule::ErrorIf, part, change);
    let level = |part: &str, change: &dyn Fn(&mut Writer)| broken(&conv2d, Rule::Level, part, change);
    let attribute = |pad, stride, dilation| {
        move |w: &mut Writer| last(w).attribute = conv_attribute(pad, stride, dilation)
    };
    error("padding is -1", &attribute([-1, 2, 0, 1], [2, 1], [1, 2]));
    error("stride is 0", &attribute([1, 0, 0, 1], [0, 1], [1, 2]));
    error("dilation is 0", &attribute([1, 0, 0, 1], [2, 1], [0, 2]));
    error("multiple of 3", &attribute([1, 0, 0, 1], [3, 1], [1, 2]));
    error("6 - 1 + padding 2 + 0 - (kernel 3 - 1) x 1", &attribute([2, 0, 0, 1], [2, 1], [1, 2]));
    error("output's width is 7", &attribute([1, 0, 0, 2], [2, 1], [1, 2]));
    level("padding is 8193, above the 8192 of MAX_KERNEL", &attribute([8193, 0, 0, 1], [2, 1], [1, 2]));
    level("stride is 8193, above the 8192 of MAX_STRIDE", &attribute([1, 0, 0, 1], [8193, 1], [1, 2]));
    level("dilated kernel height is 12288", &attribute([1, 0, 0, 1], [2, 1], [4096, 2]));
    error("stride has 1 numbers", &|w| {
        last(w).attribute =
            Attribute::Conv { pad: vec![0; 4], stride: vec![1], dilation: vec![1, 1], acc_type: Int32 };
    });
    error("accumulator INT48", &|w| {
        last(w).attribute =
            Attribute::Conv { pad: vec![0; 4], stride: vec![1, 1], dilation: vec![1, 1], acc_type: Int48 };
    });
    error("batch size is 2 in its input and 1", &|w| tensor(w, "y").shape[0] = 1);
    error("input channels is 4 in its input and 3", &|w| tensor(w, "x").shape[3] = 4);
    error("output channels is 5 in its weight and 6", &|w| tensor(w, "y").shape[3] = 6);
    error("bias has the shape [2]", &|w| tensor(w, "b").shape[0] = 2);
    error("rank 3 where 4", &|w| tensor(w, "x").shape.truncate(3));
    error("rank 5 where 4", &|w| tensor(w, "w").shape.push(1));
    error("rank 3 where 4", &|w| tensor(w, "y").shape.truncate(3));
    error("no such combination", &|w| tensor(w, "b").dtype = Int16.code());
    error("xz\" has the shape [2]", &|w| {
        tensor(w, "xz").shape = vec![2];
        tensor(w, "xz").data = vec![0, 0];
    });
}

#[test]
fn zero_points_are_zero_but_for_int8() {
    let conv = |xz: &[u8]| {
        One {
            name: "CONV2D",
            attribute: Attribute::Conv {
                pad: vec![0; 4],
                stride: vec![1, 1],
                dilation: vec![1, 1],
                acc_type: Fp32,
            },
            inputs: &[("x", Fp32, &[1, 2, 2, 1]), ("w", Fp32, &[1, 1, 1, 1]), ("b", Fp32, &[1])],
            constants: &[("xz", Fp32, &[1], xz), ("wz", Fp32, &[1], &[0, 0, 0, 0x80])],
            operands: &["x", "w", "b", "xz", "wz"],
            output: (Fp32, &[1, 2, 2, 1]),
            ..One::default()
        }
        .build()
    };
    assert!(matches!(op(&conv(&[0; 4])), Op::Conv2d(ConvAttrs { input_zp: 0, weight_zp: 0, .. })));
    refused(&conv(&1f32.to_le_bytes()), Rule::ErrorIf, "input_zp is not 0, and only INT8");
}

fn depthwise() -> Writer {
    One {
        name: "DEPTHWISE_CONV2D",
        attribute: conv_attribute([0; 4], [1, 1], [1, 1]),
        inputs: &[("x", Int8, &[1, 4, 4, 3]), ("w", Int8, &[2, 2, 3, 2]), ("b", Int32, &[1])],
        constants: &[("z", Int8, &[1], ZP)],
        operands: &["x", "w", "b", "z", "z"],
        output: (Int32, &[1, 3, 3, 6]),
        ..One::default()
    }
    .build()
}

#[test]
fn depthwise_conv2d_is_checked() {
    assert!(matches!(op(&depthwise()), Op::DepthwiseConv2d(_)));
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&depthwise, Rule::ErrorIf, part, change);
    error("input channels is 3 in its input and 4", &|w| tensor(w, "w").shape[2] = 4);
    error("output channels is 6 in its weight and 3", &|w| tensor(w, "y").shape[3] = 3);
    error("[1] or [6] is needed", &|w| tensor(w, "b").shape[0] = 3);
}

fn conv3d() -> Writer {
    let attribute = Attribute::Conv {
        pad: vec![0, 1, 0, 0, 1, 0],
        stride: vec![1, 2, 1],
        dilation: vec![1, 1, 2],
        acc_type: Int32,
    };
    One {
        name: "CONV3D",
        attribute,
        inputs: &[("x", Int8, &[2, 4, 5, 6, 3]), ("w", Int8, &[5, 2, 1, 3, 3]), ("b", Int32, &[5])],
        constants: &[("z", Int8, &[1], ZP)],
        operands: &["x", "w", "b", "z", "z"],
        output: (Int32, &[2, 4, 3, 3, 5]),
        ..One::default()
    }
    .build()
}

#[test]
fn conv3d_is_checked() {
    assert!(matches!(op(&conv3d()), Op::Conv3d(_)));
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&conv3d, Rule::ErrorIf, part, change);
    let conv = |pad: [i32; 6], stride: [i32; 3], dilation: [i32; 3]| {
        move |w: &mut Writer| {
            let (pad, stride, dilation) = (pad.into(), stride.into(), dilation.into());
            last(w).attribute = Attribute::Conv { pad, stride, dilation, acc_type: Int32 };
        }
    };
    error("padding is -1", &conv([-1, 1, 0, 0, 1, 0], [1, 2, 1], [1, 1, 2]));
    error("stride is 0", &conv([0, 1, 0, 0, 1, 0], [0, 2, 1], [1, 1, 2]));
    error("dilation is 0", &conv([0, 1, 0, 0, 1, 0], [1, 2, 1], [1, 0, 2]));
    error("output's depth is 4", &conv([1, 1, 0, 0, 1, 0], [1, 2, 1], [1, 1, 2]));
    error("height does not come out even", &conv([0, 1, 0, 0, 1, 0], [1, 3, 1], [1, 1, 2]));
    error("where 5 is needed", &|w| tensor(w, "x").shape = vec![2, 4, 5, 6]);
    error("where 5 is needed", &|w| tensor(w, "w").shape = vec![5, 2, 1, 3]);
    error("input channels is 3 in its input and 4", &|w| tensor(w, "w").shape[4] = 4);
    error("[1] or [5] is needed", &|w| tensor(w, "b").shape[0] = 3);
    error("batch size is 2 in its input and 1", &|w| tensor(w, "y").shape[0] = 1);
}

fn transpose_conv2d() -> Writer {
    One {
        name: "TRANSPOSE_CONV2D",
        attribute: Attribute::TransposeConv {
            out_pad: vec![-1, 2, 0, -1],
            stride: vec![2, 1],
            acc_type: Int32,
        },
        inputs: &[("x", Int8, &[1, 3, 4, 3]), ("w", Int8, &[5, 2, 3, 3]), ("b", Int32, &[5])],
        constants: &[("z", Int8, &[1], ZP)],
        operands: &["x", "w", "b", "z", "z"],
        output: (Int32, &[1, 7, 5, 5]),
        ..One::default()
    }
    .build()
}

#[test]
fn transpose_conv2d_is_checked() {
    assert!(matches!(op(&transpose_conv2d()), Op::TransposeConv2d(_)));
    let error =
        |part: &str, change: &dyn Fn(&mut Writer)| broken(&transpose_conv2d, Rule::ErrorIf, part, change);
    let level =
        |part: &str, change: &dyn Fn(&mut Writer)| broken(&transpose_conv2d, Rule::Level, part, change);
    let conv = |out_pad: [i32; 4], stride: [i32; 2]| {
        move |w: &mut Writer| {
            let (out_pad, stride) = (out_pad.into(), stride.into());
            last(w).attribute = Attribute::TransposeConv { out_pad, stride, acc_type: Int32 };
        }
    };
    error("output padding of -2 cuts off its whole kernel height of 2", &conv([-2, 2, 0, -1], [2, 1]));
    error("output padding of -3 cuts off its whole kernel width of 3", &conv([-1, 2, 0, -3], [2, 1]));
    error("stride is 0", &conv([-1, 2, 0, -1], [0, 1]));
    error("output's height is 7 where", &conv([-1, 1, 0, -1], [2, 1]));
    error("input channels is 3 in its input and 4", &|w| tensor(w, "w").shape[3] = 4);
    error("[1] or [5] is needed", &|w| tensor(w, "b").shape[0] = 3);
    level("output padding is 8193", &conv([8193, 2, 0, -1], [2, 1]));
    level("stride is 8193", &conv([-1, 2, 0, -1], [8193, 1]));
}

/// As the official tests have it where a broken rule leaves no output to be computed.
#[test]
fn rules_come_before_an_unknown_output() {
    let mut w = transpose_conv2d();
    let output = last(&mut w).outputs[0].clone();
    tensor(&mut w, &output).shape = vec![1, -1, -1, 5];
    let out_pad = vec![-1, 2, 0, -3];
    last(&mut w).attribute = Attribute::TransposeConv { out_pad, stride: vec![2, 1], acc_type: Int32 };
    refused(&w, Rule::ErrorIf, "output padding of -3 cuts off its whole kernel width");
}

fn fft2d() -> Writer {
    let mut w = Writer::new();
    for name in ["re", "im"] {
        w.input(name, Fp32, &[2, 4, 8]);
    }
    for name in ["x", "y"] {
        w.tensor(name, Fp32, &[2, 4, 8]);
        w.output(name);
    }
    w.raw("FFT2D", Attribute::Fft(true), &["re", "im"], &["x", "y"]);
    w
}

#[test]
fn fft2d_is_checked() {
    assert_eq!(op(&fft2d()), Op::Fft2d { inverse: true });
    assert_eq!(accepted(&fft2d()).nodes[0].outputs.len(), 2);
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&fft2d, Rule::ErrorIf, part, change);
    let resize = |shape: [i32; 3]| {
        move |w: &mut Writer| w.tensors.iter_mut().for_each(|tensor| tensor.shape = shape.into())
    };
    error("height is 3; it must be a power of two", &resize([2, 3, 8]));
    error("width is 12; it must be a power of two", &resize([2, 4, 12]));
    error("\"im\" has the shape [1, 4, 8] where [2, 4, 8] is needed", &|w| tensor(w, "im").shape[0] = 1);
    error("\"y\" has the shape [2, 4, 4] where [2, 4, 8] is needed", &|w| tensor(w, "y").shape[2] = 4);
    error("rank 2 where 3 is needed", &|w| tensor(w, "y").shape = vec![4, 8]);
    error("number of outputs is 1 where 2 is needed", &|w| drop(last(w).outputs.pop()));
    error("output INT32", &|w| tensor(w, "y").dtype = Int32.code());
    let level = |part: &str, change: &dyn Fn(&mut Writer)| broken(&fft2d, Rule::Level, part, change);
    level("width is 16384, above the 8192", &resize([2, 4, 16_384]));
}

fn pool_attribute(kernel: [i32; 2], stride: [i32; 2], pad: [i32; 4], last: u32) -> Attribute {
    Attribute::Pool { kernel: kernel.into(), stride: stride.into(), pad: pad.into(), last }
}

fn max_pool2d() -> Writer {
    One {
        name: "MAX_POOL2D",
        attribute: pool_attribute([3, 2], [2, 1], [1, 0, 0, 1], 2),
        inputs: &[("x", Fp32, &[1, 6, 5, 2])],
        operands: &["x"],
        output: (Fp32, &[1, 3, 5, 2]),
        ..One::default()
    }
    .build()
}

fn avg_pool2d() -> Writer {
    One {
        name: "AVG_POOL2D",
        attribute: pool_attribute([3, 2], [2, 1], [1, 0, 0, 1], Int32.code()),
        inputs: &[("x", Int8, &[1, 6, 5, 2])],
        constants: &[("i", Int8, &[1], &[1]), ("o", Int8, &[1], &[0x80])],
        operands: &["x", "i", "o"],
        output: (Int8, &[1, 3, 5, 2]),
        ..One::default()
    }
    .build()
}

#[test]
fn pools_are_checked() {
    let pool = PoolAttrs { kernel: [3, 2], stride: [2, 1], pad: [1, 0, 0, 1] };
    assert_eq!(op(&max_pool2d()), Op::MaxPool2d { pool, nan_mode: NanMode::Ignore });
    assert_eq!(op(&avg_pool2d()), Op::AvgPool2d { pool, acc_type: Int32, input_zp: 1, output_zp: -128 });
    for (graph, final_field) in [(&max_pool2d as &dyn Fn() -> Writer, 1), (&avg_pool2d, Int32.code())] {
        let case = |rule, part: &str, kernel, stride, pad| {
            broken(graph, rule, part, |w| {
                last(w).attribute = pool_attribute(kernel, stride, pad, final_field)
            });
        };
        case(Rule::ErrorIf, "kernel is 0", [0, 2], [2, 1], [1, 0, 0, 1]);
        case(Rule::ErrorIf, "stride is 0", [3, 2], [2, 0], [1, 0, 0, 1]);
        case(Rule::ErrorIf, "padding is -1", [3, 2], [2, 1], [-1, 0, 0, 1]);
        case(Rule::ErrorIf, "padding of 3 is not below its kernel height of 3", [3, 2], [2, 1], [3, 0, 0, 1]);
        case(Rule::ErrorIf, "6 + padding 0 + 0 - kernel 3 = 3", [3, 2], [2, 1], [0, 0, 0, 1]);
        case(Rule::ErrorIf, "output's width is 5", [3, 2], [2, 1], [1, 0, 0, 0]);
        case(Rule::Level, "MAX_KERNEL", [8193, 2], [2, 1], [1, 0, 0, 1]);
        case(Rule::Level, "MAX_STRIDE", [3, 2], [8193, 1], [1, 0, 0, 1]);
        broken(graph, Rule::ErrorIf, "batch size", |w| tensor(w, "y").shape[0] = 2);
        broken(graph, Rule::ErrorIf, "number of channels", |w| tensor(w, "y").shape[3] = 1);
        broken(graph, Rule::ErrorIf, "rank 5 where 4", |w| tensor(w, "x").shape.push(1));
    }
    broken(&max_pool2d, Rule::ErrorIf, "NaN mode is 0", |w| {
        last(w).attribute = pool_attribute([3, 2], [2, 1], [1, 0, 0, 1], 0);
    });
    broken(&avg_pool2d, Rule::ErrorIf, "type number 99", |w| {
        last(w).attribute = pool_attribute([3, 2], [2, 1], [1, 0, 0, 1], 99);
    });
}

fn matmul() -> Writer {
    One {
        name: "MATMUL",
        inputs: &[("a", Int8, &[2, 3, 4]), ("b", Int8, &[2, 4, 5])],
        constants: &[("az", Int8, &[1], &[1]), ("bz", Int8, &[1], &[0xff])],
        operands: &["a", "b", "az", "bz"],
        output: (Int32, &[2, 3, 5]),
        ..One::default()
    }
    .build()
}

#[test]
fn matmul_is_checked() {
    assert_eq!(op(&matmul()), Op::MatMul { a_zp: 1, b_zp: -1 });
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&matmul, Rule::ErrorIf, part, change);
    error("A \"a\" has rank 4 where 3 is needed", &|w| tensor(w, "a").shape.push(1));
    error("batch size N is 2 in its A and 1 in its B", &|w| tensor(w, "b").shape[0] = 1);
    error("inner dimension C is 5 in its A and 4", &|w| tensor(w, "a").shape[2] = 5);
    error("[2, 3, 5] is needed", &|w| tensor(w, "y").shape[2] = 4);
    error("output INT16", &|w| tensor(w, "y").dtype = Int16.code());
}

fn binary(name: &'static str, attribute: Attribute, dtype: DType) -> Writer {
    One {
        name,
        attribute,
        inputs: &[("a", dtype, &[2, 1, 3]), ("b", dtype, &[1, 4, 3])],
        operands: &["a", "b"],
        output: (dtype, &[2, 4, 3]),
        ..One::default()
    }
    .build()
}

#[test]
fn broadcasts_are_checked() {
    let graph = || binary("SUB", Attribute::None, Fp32);
    assert_eq!(op(&graph()), Op::Binary(BinaryOp::Sub));
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&graph, Rule::ErrorIf, part, change);
    error("ranks 3 and 2", &|w| tensor(w, "b").shape.truncate(2));
    error("dimension 2 is 3 in one and 2 in another", &|w| tensor(w, "b").shape[2] = 2);
    error("[2, 4, 3] is needed", &|w| tensor(w, "y").shape[1] = 1);
    let nan = |mode| binary("MAXIMUM", Attribute::Mode(mode), Fp32);
    assert_eq!(op(&nan(2)), Op::Binary(BinaryOp::Maximum { nan_mode: NanMode::Ignore }));
    refused(&nan(3), Rule::ErrorIf, "NaN mode is 3");
    refused(&binary("MINIMUM", Attribute::Mode(0), Int32), Rule::ErrorIf, "NaN mode is 0");
    let shift = binary("ARITHMETIC_RIGHT_SHIFT", Attribute::Round(true), Int16);
    assert_eq!(op(&shift), Op::Binary(BinaryOp::ArithmeticRightShift { round: true }));
    refused(&binary("INTDIV", Attribute::None, Int8), Rule::ErrorIf, "It has (type): INT32.");
    refused(&binary("LOGICAL_AND", Attribute::None, Int8), Rule::ErrorIf, "It has (type): BOOL.");
}

#[test]
fn select_is_checked() {
    let graph = || {
        One {
            name: "SELECT",
            inputs: &[("c", Bool, &[2, 1]), ("a", Int8, &[1, 3]), ("b", Int8, &[2, 1])],
            operands: &["c", "a", "b"],
            output: (Int8, &[2, 3]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Select);
    broken(&graph, Rule::ErrorIf, "input1 INT8", |w| tensor(w, "c").dtype = Int8.code());
    broken(&graph, Rule::ErrorIf, "do not broadcast", |w| tensor(w, "b").shape[0] = 3);
}

#[test]
fn mul_is_checked() {
    let graph = |dtype, output, shift: &'static [u8]| {
        One {
            name: "MUL",
            inputs: &[("a", dtype, &[2])],
            constants: &[("s", Int8, &[1], shift)],
            operands: &["a", "a", "s"],
            output: (output, &[2]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph(Int32, Int32, &[63])), Op::Mul { shift: 63 });
    refused(&graph(Int32, Int32, &[64]), Rule::ErrorIf, "shift is 64; for INT32 it may be 0 to 63");
    refused(&graph(Int32, Int32, &[0xff]), Rule::ErrorIf, "shift is -1");
    refused(&graph(Int8, Int32, &[1]), Rule::ErrorIf, "for INT8 it may be 0 to 0");
    refused(&graph(Int8, Int8, &[0]), Rule::ErrorIf, "output INT8");
    let mut w = graph(Int32, Int32, &[0]);
    tensor(&mut w, "s").shape.clear();
    refused(&w, Rule::ErrorIf, "[] (rank 0) where [1]");
}

#[test]
fn unary_operators_keep_their_shape() {
    for (name, dtype) in
        [("ABS", Int32), ("CLZ", Int32), ("LOGICAL_NOT", Bool), ("ERF", Fp32), ("IDENTITY", Int48)]
    {
        let graph = || {
            One {
                name,
                inputs: &[("x", dtype, &[2, 3])],
                operands: &["x"],
                output: (dtype, &[2, 3]),
                ..One::default()
            }
            .build()
        };
        broken(&graph, Rule::ErrorIf, "[2, 3] is needed", |w| tensor(w, "y").shape = vec![3, 2]);
    }
}

#[test]
fn negate_is_checked() {
    let graph = |dtype, width, zp: u8| {
        let bytes = [zp, 0, 0, 0];
        One {
            name: "NEGATE",
            inputs: &[("x", dtype, &[2])],
            constants: &[("i", dtype, &[1], &bytes[..width]), ("o", dtype, &[1], &[0; 4][..width])],
            operands: &["x", "i", "o"],
            output: (dtype, &[2]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph(Int8, 1, 0xf0)), Op::Negate { input_zp: -16, output_zp: 0 });
    refused(&graph(Int32, 4, 1), Rule::ErrorIf, "input1_zp is not 0");
}

#[test]
fn clamp_is_checked() {
    let graph = |min: f32, max: f32| {
        One {
            name: "CLAMP",
            attribute: Attribute::Clamp {
                min: min.to_le_bytes().into(),
                max: max.to_le_bytes().into(),
                nan_mode: 1,
            },
            inputs: &[("x", Fp32, &[2])],
            operands: &["x"],
            output: (Fp32, &[2]),
            ..One::default()
        }
        .build()
    };
    let (min, max) = (u64::from(0f32.to_bits()), u64::from(6f32.to_bits()));
    assert_eq!(op(&graph(0.0, 6.0)), Op::Clamp { min, max, nan_mode: NanMode::Propagate });
    assert!(matches!(op(&graph(0.0, -0.0)), Op::Clamp { .. }));
    assert!(matches!(op(&graph(f32::NEG_INFINITY, f32::INFINITY)), Op::Clamp { .. }));
    refused(&graph(6.0, 0.0), Rule::ErrorIf, "lower bound 6 is above its upper bound 0");
    refused(&graph(f32::NAN, 0.0), Rule::ErrorIf, "neither may be NaN");
    refused(&graph(0.0, f32::NAN), Rule::ErrorIf, "neither may be NaN");
    let mut w = graph(0.0, 6.0);
    last(&mut w).attribute = Attribute::Clamp { min: vec![0; 3], max: vec![0; 4], nan_mode: 1 };
    refused(&w, Rule::Malformed, "lower bound has 3 bytes");
    last(&mut w).attribute = Attribute::Clamp { min: vec![], max: vec![0; 4], nan_mode: 1 };
    refused(&w, Rule::Malformed, "lower bound has 0 bytes");
}

#[test]
fn table_is_checked() {
    let graph = |input, entries: i32, entry, output| {
        let bytes = vec![0; entries as usize * 2];
        One {
            name: "TABLE",
            inputs: &[("x", input, &[2])],
            constants: &[("t", entry, &[entries], &bytes)],
            operands: &["x", "t"],
            output: (output, &[2]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph(Int8, 256, Int8, Int8)), Op::Table);
    assert_eq!(op(&graph(Int16, 513, Int16, Int32)), Op::Table);
    assert_eq!(accepted(&graph(Int16, 513, Int16, Int32)).nodes[0].inputs.len(), 2);
    refused(&graph(Int8, 513, Int8, Int8), Rule::ErrorIf, "[256] is needed for INT8");
    refused(&graph(Int16, 256, Int16, Int32), Rule::ErrorIf, "[513] is needed for INT16");
    refused(&graph(Int8, 256, Int16, Int8), Rule::ErrorIf, "table INT16");
}

#[test]
fn reductions_are_checked() {
    let graph = |axis, nan_mode| {
        One {
            name: "REDUCE_MAX",
            attribute: Attribute::Axis { axis, nan_mode },
            inputs: &[("x", Fp32, &[2, 3])],
            operands: &["x"],
            output: (Fp32, &[2, 1]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph(1, 1)), Op::Reduce { op: ReduceOp::Max { nan_mode: NanMode::Propagate }, axis: 1 });
    refused(&graph(2, 1), Rule::ErrorIf, "axis is 2, outside the dimensions 0 to 1");
    refused(&graph(-1, 1), Rule::ErrorIf, "axis is -1");
    refused(&graph(0, 1), Rule::ErrorIf, "[1, 3] is needed");
    refused(&graph(1, 0), Rule::ErrorIf, "NaN mode is 0");
    let mut w = graph(0, 1);
    tensor(&mut w, "x").shape.clear();
    refused(&w, Rule::ErrorIf, "rank 0 where at least 1");
}

#[test]
fn argmax_is_checked() {
    let graph = |axis| {
        One {
            name: "ARGMAX",
            attribute: Attribute::Axis { axis, nan_mode: 2 },
            inputs: &[("x", Fp32, &[2, 3, 4])],
            operands: &["x"],
            output: (Int32, &[2, 4]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph(1)), Op::ArgMax { axis: 1, nan_mode: NanMode::Ignore });
    refused(&graph(0), Rule::ErrorIf, "[3, 4] is needed");
    refused(&graph(3), Rule::ErrorIf, "axis is 3");
    broken(&|| graph(1), Rule::ErrorIf, "output FP32", |w| tensor(w, "y").dtype = Fp32.code());
}

#[test]
fn concat_is_checked() {
    let graph = || {
        One {
            name: "CONCAT",
            attribute: Attribute::Axis { axis: 1, nan_mode: 0 },
            inputs: &[("a", Int8, &[2, 3]), ("b", Int8, &[2, 1])],
            operands: &["a", "b", "a"],
            output: (Int8, &[2, 7]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Concat { axis: 1 });
    assert_eq!(accepted(&graph()).nodes[0].inputs.len(), 3);
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&graph, Rule::ErrorIf, part, change);
    error("at least 1 is needed", &|w| last(w).inputs.clear());
    error("axis is 2", &|w| last(w).attribute = Attribute::Axis { axis: 2, nan_mode: 0 });
    error("operand 1 has the shape [3, 1]", &|w| tensor(w, "b").shape[0] = 3);
    error("operand 1 has the shape [2, 1, 1]", &|w| tensor(w, "b").shape.push(1));
    error("[2, 7] is needed", &|w| tensor(w, "y").shape[1] = 6);
    error("no such combination", &|w| tensor(w, "b").dtype = Int32.code());
    broken(&graph, Rule::Level, "65 tensors, above the 64", |w| last(w).inputs = vec!["b".into(); 65]);
}

fn pad() -> Writer {
    One {
        name: "PAD",
        inputs: &[("x", Int8, &[2, 3])],
        constants: &[("v", Int8, &[1], &[0xff])],
        shapes: &[("p", &[1, 0, 2, 3])],
        operands: &["x", "p", "v"],
        output: (Int8, &[3, 8]),
        ..One::default()
    }
    .build()
}

#[test]
fn pad_is_checked() {
    assert_eq!(op(&pad()), Op::Pad { padding: vec![[1, 0], [2, 3]], value: 0xff });
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&pad, Rule::ErrorIf, part, change);
    error("padding has 3 elements where 4", &|w| shape(w, "p").truncate(3));
    error("amount is -1", &|w| shape(w, "p")[0] = -1);
    error("amount is 9223372036854775807", &|w| shape(w, "p")[0] = i64::MAX);
    error("[3, 8] is needed", &|w| tensor(w, "y").shape[0] = 2);
    error("pad_const INT16", &|w| {
        tensor(w, "v").dtype = Int16.code();
        tensor(w, "v").data.push(0);
    });
    error("[2] where [1] is needed", &|w| {
        tensor(w, "v").shape[0] = 2;
        tensor(w, "v").data.push(0);
    });
    error("rank 0 where at least 1", &|w| tensor(w, "x").shape.clear());
}

#[test]
fn reshape_is_checked() {
    let graph = || {
        One {
            name: "RESHAPE",
            inputs: &[("x", Int8, &[2, 3])],
            shapes: &[("s", &[3, 1, 2])],
            operands: &["x", "s"],
            output: (Int8, &[3, 1, 2]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Reshape);
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&graph, Rule::ErrorIf, part, change);
    error("shape has 2 elements where 3", &|w| shape(w, "s").truncate(2));
    error("new shape is [3, 1, -1]", &|w| shape(w, "s")[2] = -1);
    error("has 6 elements and the new shape [3, 1, 3] has another number", &|w| {
        shape(w, "s")[2] = 3;
        tensor(w, "y").shape[2] = 3;
    });
}

#[test]
fn slice_is_checked() {
    let graph = || {
        One {
            name: "SLICE",
            inputs: &[("x", Int8, &[4, 5])],
            shapes: &[("start", &[1, 0]), ("size", &[3, 2])],
            operands: &["x", "start", "size"],
            output: (Int8, &[3, 2]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Slice { start: vec![1, 0] });
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&graph, Rule::ErrorIf, part, change);
    error("start has 1 elements where 2", &|w| shape(w, "start").truncate(1));
    error("size has 3 elements where 2", &|w| shape(w, "size").push(1));
    error("starts at -1 in dimension 1", &|w| shape(w, "start")[1] = -1);
    error("size in dimension 0 is 0", &|w| shape(w, "size")[0] = 0);
    error("takes 3 elements from 2 on in dimension 0, which has only 4", &|w| shape(w, "start")[0] = 2);
    error("has only 4", &|w| shape(w, "start")[0] = i64::MAX);
    error("has only 4", &|w| shape(w, "size")[0] = i64::MAX);
    error("[3, 2] is needed", &|w| tensor(w, "y").shape[1] = 1);
}

#[test]
fn tile_is_checked() {
    let graph = || {
        One {
            name: "TILE",
            inputs: &[("x", Int8, &[4, 5])],
            shapes: &[("m", &[1, 3])],
            operands: &["x", "m"],
            output: (Int8, &[4, 15]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Tile);
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&graph, Rule::ErrorIf, part, change);
    error("multiples has 1 elements where 2", &|w| shape(w, "m").truncate(1));
    error("multiples is 0", &|w| shape(w, "m")[0] = 0);
    error("is needed", &|w| shape(w, "m")[0] = i64::MAX);
    error("[4, 15] is needed", &|w| tensor(w, "y").shape[1] = 5);
}

#[test]
fn transpose_is_checked() {
    let graph = || {
        One {
            name: "TRANSPOSE",
            attribute: Attribute::Transpose(vec![2, 0, 1]),
            inputs: &[("x", Int8, &[2, 3, 4])],
            operands: &["x"],
            output: (Int8, &[4, 2, 3]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Transpose { perms: vec![2, 0, 1] });
    let case = |part: &str, perms: &[i32]| {
        broken(&graph, Rule::ErrorIf, part, |w| last(w).attribute = Attribute::Transpose(perms.into()));
    };
    case("2 entries where 3", &[1, 0]);
    case("dimension 3, outside 0 to 2", &[3, 0, 1]);
    case("dimension -1, outside 0 to 2", &[-1, 0, 1]);
    case("dimension 0 twice", &[0, 0, 1]);
    case("[2, 4, 3] is needed", &[0, 2, 1]);
}

#[test]
fn reverse_is_checked() {
    let graph = || {
        One {
            name: "REVERSE",
            attribute: Attribute::Axis { axis: 1, nan_mode: 0 },
            inputs: &[("x", Int8, &[2, 3])],
            operands: &["x"],
            output: (Int8, &[2, 3]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&graph()), Op::Reverse { axis: 1 });
    broken(&graph, Rule::ErrorIf, "axis is 2", |w| {
        last(w).attribute = Attribute::Axis { axis: 2, nan_mode: 0 }
    });
    broken(&graph, Rule::ErrorIf, "[2, 3] is needed", |w| tensor(w, "y").shape[0] = 3);
}

#[test]
fn gather_and_scatter_are_checked() {
    let gather = || {
        One {
            name: "GATHER",
            inputs: &[("v", Int8, &[2, 5, 3]), ("i", Int32, &[2, 4])],
            operands: &["v", "i"],
            output: (Int8, &[2, 4, 3]),
            ..One::default()
        }
        .build()
    };
    let scatter = || {
        One {
            name: "SCATTER",
            inputs: &[("v", Int8, &[2, 5, 3]), ("i", Int32, &[2, 4]), ("u", Int8, &[2, 4, 3])],
            operands: &["v", "i", "u"],
            output: (Int8, &[2, 5, 3]),
            ..One::default()
        }
        .build()
    };
    assert_eq!(op(&gather()), Op::Gather);
    assert_eq!(op(&scatter()), Op::Scatter);
    for graph in [&gather as &dyn Fn() -> Writer, &scatter] {
        broken(graph, Rule::ErrorIf, "values \"v\" has rank 2 where 3", |w| tensor(w, "v").shape.truncate(2));
        broken(graph, Rule::ErrorIf, "indices \"i\" has rank 1 where 2", |w| {
            tensor(w, "i").shape.truncate(1)
        });
        broken(graph, Rule::ErrorIf, "values have N = 3 and its indices N = 2", |w| {
            tensor(w, "v").shape[0] = 3
        });
        broken(graph, Rule::ErrorIf, "3] is needed", |w| tensor(w, "y").shape[2] = 4);
        broken(graph, Rule::ErrorIf, "its indices have the type INT16", |w| {
            tensor(w, "i").dtype = Int16.code()
        });
    }
    broken(&scatter, Rule::ErrorIf, "[2, 4, 3] is needed", |w| tensor(w, "u").shape[1] = 5);
}

fn resize() -> Writer {
    One {
        name: "RESIZE",
        attribute: Attribute::Mode(2),
        inputs: &[("x", Int8, &[1, 3, 4, 2])],
        shapes: &[("scale", &[4, 2, 2, 2]), ("offset", &[0, -1]), ("border", &[2, 1])],
        operands: &["x", "scale", "offset", "border"],
        output: (Int32, &[1, 6, 5, 2]),
        ..One::default()
    }
    .build()
}

#[test]
fn resize_is_checked() {
    let attributes =
        ResizeAttrs { mode: ResizeMode::Bilinear, scale: [4, 2, 2, 2], offset: [0, -1], border: [2, 1] };
    assert_eq!(op(&resize()), Op::Resize(attributes));
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&resize, Rule::ErrorIf, part, change);
    error("mode is 3", &|w| last(w).attribute = Attribute::Mode(3));
    error("keep their type in NEAREST", &|w| last(w).attribute = Attribute::Mode(1));
    error("keep their type in NEAREST", &|w| tensor(w, "y").dtype = Int8.code());
    error("scale has 3 elements where 4", &|w| shape(w, "scale").truncate(3));
    error("height scale is 0/2", &|w| shape(w, "scale")[0] = 0);
    error("width scale is 2/-1", &|w| shape(w, "scale")[3] = -1);
    error("numerator may be at most 2048", &|w| shape(w, "scale")[0] = 2049);
    error("denominator must be below 64", &|w| shape(w, "scale")[1] = 64);
    error("height offset is -5; it must be at least -4 and below 64", &|w| shape(w, "offset")[0] = -5);
    error("width offset is 32; it must be at least -2 and below 32", &|w| shape(w, "offset")[1] = 32);
    error("height border is 4; it must be at least -64 and below 4", &|w| shape(w, "border")[0] = 4);
    error("width border is -33", &|w| shape(w, "border")[1] = -33);
    error("does not fit 32 bits", &|w| shape(w, "border")[1] = i64::MIN);
    error("(3 - 1) x 4 - 0 + 1 = 9", &|w| shape(w, "border")[0] = 1);
    error("output's width is 6", &|w| tensor(w, "y").shape[2] = 6);
    error("must be below 16384", &|w| tensor(w, "x").shape[1] = 16384);
    error("must be below 16384", &|w| tensor(w, "y").shape[2] = 16384);
    error("batch size is 1 in its input and 2 in its output", &|w| tensor(w, "y").shape[0] = 2);
    error("number of channels is 2 in its input and 3 in its output", &|w| tensor(w, "y").shape[3] = 3);
    error("rank 3 where 4", &|w| tensor(w, "x").shape.truncate(3));
    broken(&resize, Rule::Level, "above the 256 of MAX_SCALE", |w| {
        *shape(w, "scale") = vec![514, 2, 2, 2];
    });
}

fn rescale_attribute(scale32: bool, rounding: u32, per_channel: bool, unsigned: [bool; 2]) -> Attribute {
    let [input_unsigned, output_unsigned] = unsigned;
    Attribute::Rescale { scale32, rounding, per_channel, input_unsigned, output_unsigned }
}

/// RESCALE of a `[2, 3]` tensor, per channel, to `output`.
fn rescale_of(input: (DType, &[u8]), output: (DType, &[u8]), unsigned: [bool; 2]) -> Writer {
    One {
        name: "RESCALE",
        attribute: rescale_attribute(true, 1, true, unsigned),
        inputs: &[("x", input.0, &[2, 3])],
        constants: &[
            ("m", Int32, &[3], &[1; 12]),
            ("s", Int8, &[3], &[2, 30, 62]),
            ("i", input.0, &[1], input.1),
            ("o", output.0, &[1], output.1),
        ],
        operands: &["x", "m", "s", "i", "o"],
        output: (output.0, &[2, 3]),
        ..One::default()
    }
    .build()
}

fn rescale() -> Writer {
    rescale_of((Int32, &[0; 4]), (Int8, &[0x85]), [false, false])
}

#[test]
fn rescale_is_checked() {
    let attributes = RescaleAttrs {
        scale32: true,
        rounding: Rounding::Single,
        per_channel: true,
        input_unsigned: false,
        output_unsigned: false,
        input_zp: 0,
        output_zp: -123,
    };
    assert_eq!(op(&rescale()), Op::Rescale(attributes));
    assert_eq!(accepted(&rescale()).nodes[0].inputs.len(), 3);
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&rescale, Rule::ErrorIf, part, change);
    let attribute = |scale32, rounding, per_channel| {
        move |w: &mut Writer| {
            last(w).attribute = rescale_attribute(scale32, rounding, per_channel, [false; 2])
        }
    };
    error("rounding mode is 0", &attribute(true, 0, true));
    error("DOUBLE_ROUND needs 32-bit multipliers", &attribute(false, 3, true));
    error("has the type INT32 where INT16", &attribute(false, 1, true));
    error("multiplier \"m\" has the shape [3] where [1]", &attribute(true, 1, false));
    error("shift \"s\" has the shape [2] where [3]", &|w| tensor(w, "s").shape[0] = 2);
    error("one element of its multiplier is -2147417855; each must be at least 0", &|w| {
        tensor(w, "m").data[11] = 0x80
    });
    error("one element of its shift is 1; each must be 2 to 62", &|w| tensor(w, "s").data[0] = 1);
    error("shift is 63", &|w| tensor(w, "s").data[2] = 63);
    error("shift is -1", &|w| tensor(w, "s").data[2] = 0xff);
    error("[2, 3] is needed", &|w| tensor(w, "y").shape = vec![3, 2]);
    error("input_zp is 1; for signed INT32 it must be 0", &|w| tensor(w, "i").data[0] = 1);
    error("rank 0 where at least 1", &|w| {
        tensor(w, "x").shape.clear();
        tensor(w, "y").shape.clear();
    });
    for rounding in [2, 3] {
        let mut w = rescale();
        attribute(true, rounding, true)(&mut w);
        accepted(&w);
    }
}

#[test]
fn unsigned_rescales_are_checked() {
    let small = |input: &[u8], output: &[u8], unsigned| rescale_of((Int8, input), (Int16, output), unsigned);
    let Op::Rescale(attributes) = op(&small(&[200], &[0, 0], [true, false])) else { panic!("no RESCALE") };
    assert_eq!(attributes.input_zp, 200);
    let Op::Rescale(attributes) = op(&small(&[200], &[0, 0x80], [false, true])) else { panic!("no RESCALE") };
    assert_eq!((attributes.input_zp, attributes.output_zp), (-56, 32768));
    refused(&small(&[0], &[0, 0], [true, true]), Rule::ErrorIf, "both unsigned");
    refused(&small(&[0], &[5, 0], [false, true]), Rule::ErrorIf, "output_zp is 5; for unsigned 16 bits");
    refused(&small(&[0], &[5, 0], [false, false]), Rule::ErrorIf, "output_zp is 5; for signed INT16");
    for unsigned in [[true, false], [false, true]] {
        let wide = rescale_of((Int32, &[0; 4]), (Int8, &[0]), unsigned);
        refused(&wide, Rule::ErrorIf, "types are INT32 and INT8; then both must be INT8 or INT16");
        let wide = rescale_of((Int8, &[0]), (Int32, &[0; 4]), unsigned);
        refused(&wide, Rule::ErrorIf, "types are INT8 and INT32");
    }
    let wide = rescale_of((Int48, &[0; 6]), (Int8, &[0]), [false, false]);
    refused(&wide, Rule::ErrorIf, "INT48 input needs 16-bit multipliers");
}

#[test]
fn row_gather_is_checked() {
    let graph = |count: i32| {
        let mut w = One {
            name: "ROW_GATHER",
            inputs: &[("v", Int8, &[2, 5, 3]), ("i", Int32, &[2, 4])],
            constants: &[("n", Int32, &[1], &count.to_le_bytes())],
            operands: &["v", "i", "n"],
            output: (Int8, &[2, 12, 3]),
            ..One::default()
        }
        .build();
        w.version = [1, 1, 0];
        w
    };
    assert_eq!(op(&graph(3)), Op::RowGather { run: 3 });
    refused(&graph(2), Rule::ErrorIf, "[2, 8, 3] is needed");
    refused(&graph(0), Rule::ErrorIf, "its row_count is 0");
    let mut w = graph(3);
    tensor(&mut w, "i").dtype = Int64.code();
    accepted(&w);
    w.version = [1, 0, 0];
    refused(&w, Rule::ErrorIf, "it came with TOSA 1.1");
}
