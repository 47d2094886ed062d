//! The operator table: every row of types is accepted, and rows are what decides.

use accel_tosa::operators::{OperandKind, OperandType, OperatorInfo, ProfileNeed, TypeRow};
use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, operators, read};

use crate::common::accepted;
use crate::control;

/// The smallest graph around an operator: its attribute, the shapes of its tensors, of its result, and its shape
/// operands.
type Smallest = (Attribute, Vec<Vec<i32>>, Vec<i32>, Vec<Vec<i64>>);

fn smallest(info: &OperatorInfo, row: &TypeRow) -> Smallest {
    let accumulator = info.column("accumulator").map_or(DType::Fp32, |column| row.types[column]);
    let axis = Attribute::Axis { axis: 0, nan_mode: 1 };
    // What has scales has at least a block of elements.
    let scaled = |dtype: &DType| dtype.values().is_some() || dtype.block_scaled().is_some();
    let by_name = info.name.ends_with("_BLOCK_SCALED") && info.rows[0].types.iter().any(scaled);
    let block = by_name || row.types.iter().any(|dtype| dtype.values().is_some());
    let channels = if block { 32 } else { 1 };
    let image = vec![1, 2, 2, channels];
    let one = vec![1];
    let kernel = vec![1, 1, 1, channels];
    let pool = |last| Attribute::Pool { kernel: vec![1, 1], stride: vec![1, 1], pad: vec![0; 4], last };
    let conv = || Attribute::Conv {
        pad: vec![0; 4],
        stride: vec![1, 1],
        dilation: vec![1, 1],
        acc_type: accumulator,
    };
    let rows = vec![1, if block { 32 } else { 2 }];
    let size = Attribute::Mode(if info.scales || by_name { 32 } else { 1 });
    match info.name {
        "CONV2D" | "DEPTHWISE_CONV2D" => {
            let operands = vec![image, kernel, one.clone(), one.clone(), one];
            (conv(), operands, vec![1, 2, 2, 1], vec![])
        }
        "CONV2D_BLOCK_SCALED" => {
            let operands = vec![image, vec![1, 2, 2, 1], kernel, vec![1; 4], one];
            (size, operands, vec![1, 2, 2, 1], vec![vec![0; 4], vec![1; 2], vec![1; 2]])
        }
        "MATMUL_T_BLOCK_SCALED" => {
            let (values, scales) = (vec![1, 2, 32], vec![1, 2, 1]);
            (size, vec![values.clone(), scales.clone(), values, scales], vec![1, 2, 2], vec![])
        }
        "MATMUL_T" if block => {
            let matrix = vec![1, 2, 32];
            (Attribute::None, vec![matrix.clone(), matrix, one.clone(), one], vec![1, 2, 2], vec![])
        }
        "CAST_FROM_BLOCK_SCALED" => (size, vec![rows.clone(), vec![1, 1]], rows, vec![]),
        "CAST_TO_BLOCK_SCALED" => (size, vec![rows.clone()], rows, vec![]),
        "RESHAPE_BLOCK_SCALED" if info.scales => {
            (size, vec![rows.clone(), vec![1, 1]], rows, vec![vec![1, 32]])
        }
        "RESHAPE_BLOCK_SCALED" => (size, vec![rows.clone()], rows, vec![vec![1, 2]]),
        "ROW_GATHER_BLOCK_SCALED" if info.scales => {
            (size, vec![vec![1, 2, 32], vec![1, 2, 1], vec![1, 2], one], vec![1, 2, 32], vec![])
        }
        "ROW_GATHER_BLOCK_SCALED" => (size, vec![vec![1, 2, 3], vec![1, 2], one], vec![1, 2, 3], vec![]),
        "ROW_GATHER" if block => {
            (Attribute::None, vec![vec![1, 2, 32], vec![1, 2], one], vec![1, 2, 32], vec![])
        }
        "CONV3D" => {
            let conv = Attribute::Conv {
                pad: vec![0; 6],
                stride: vec![1; 3],
                dilation: vec![1; 3],
                acc_type: accumulator,
            };
            let volume = vec![1, 2, 2, 2, 1];
            (conv, vec![volume.clone(), vec![1; 5], one.clone(), one.clone(), one], volume, vec![])
        }
        "TRANSPOSE_CONV2D" => {
            let conv =
                Attribute::TransposeConv { out_pad: vec![0; 4], stride: vec![1, 1], acc_type: accumulator };
            (conv, vec![image.clone(), vec![1; 4], one.clone(), one.clone(), one], image, vec![])
        }
        "MATMUL" | "MATMUL_T" => {
            let matrix = vec![1, 2, 2];
            (Attribute::None, vec![matrix.clone(), matrix.clone(), one.clone(), one], matrix, vec![])
        }
        "FFT2D" => {
            let field = vec![1, 2, 4];
            (Attribute::Fft(true), vec![field.clone(), field.clone()], field, vec![])
        }
        "RFFT2D" => (Attribute::None, vec![vec![1, 2, 4]], vec![1, 2, 3], vec![]),
        "AVG_POOL2D" => (pool(accumulator.code()), vec![image.clone(), one.clone(), one], image, vec![]),
        "MAX_POOL2D" => (pool(1), vec![image.clone()], image, vec![]),
        "MAX_POOL2D_ADAPTIVE" => {
            (Attribute::Mode(1), vec![image.clone()], image, vec![vec![1, 1], vec![1, 1], vec![0; 4]])
        }
        "AVG_POOL2D_ADAPTIVE" => {
            let window = vec![vec![1, 1], vec![1, 1], vec![0; 4]];
            (Attribute::Mode(accumulator.code()), vec![image.clone(), one.clone(), one], image, window)
        }
        "RESIZE" => {
            let mode = if row.types[0] == row.types[1] { 1 } else { 2 };
            let operands = vec![vec![1; 4], vec![0; 2], vec![0; 2]];
            (Attribute::Mode(mode), vec![image.clone()], image, operands)
        }
        "ARGMAX" => (axis, vec![rows], vec![2], vec![]),
        "CONCAT" | "REVERSE" => (axis, vec![rows.clone()], rows, vec![]),
        name if name.starts_with("REDUCE_") => (axis, vec![rows.clone()], rows, vec![]),
        "GATHER" => (Attribute::None, vec![vec![1, 2, 3], vec![1, 2]], vec![1, 2, 3], vec![]),
        "ROW_GATHER" => (Attribute::None, vec![vec![1, 2, 3], vec![1, 2], vec![1]], vec![1, 2, 3], vec![]),
        "SCATTER" => (Attribute::None, vec![vec![1, 2, 3], vec![1, 2], vec![1, 2, 3]], vec![1, 2, 3], vec![]),
        "TABLE" => {
            let entries = if row.types[0] == DType::Int8 { 256 } else { 513 };
            (Attribute::None, vec![rows.clone(), vec![entries]], rows, vec![])
        }
        "CLAMP" => {
            let bound = vec![0; row.types[0].bytes().unwrap_or(1)];
            let clamp = Attribute::Clamp { min: bound.clone(), max: bound, nan_mode: 1 };
            (clamp, vec![rows.clone()], rows, vec![])
        }
        "RESCALE" => {
            let attribute = Attribute::Rescale {
                scale32: false,
                rounding: 1,
                per_channel: false,
                input_unsigned: false,
                output_unsigned: false,
            };
            (attribute, vec![rows.clone(), one.clone(), one.clone(), one.clone(), one], rows, vec![])
        }
        "PAD" => (Attribute::None, vec![rows.clone(), one], rows, vec![vec![0; 4]]),
        "RESHAPE" => {
            let shape = rows.iter().map(|&extent| extent.into()).collect();
            (Attribute::None, vec![rows.clone()], rows, vec![shape])
        }
        "SLICE" => (Attribute::None, vec![rows.clone()], rows, vec![vec![0, 0], vec![1, 2]]),
        "TILE" => (Attribute::None, vec![rows.clone()], rows, vec![vec![1, 1]]),
        "TRANSPOSE" => (Attribute::Transpose(vec![0, 1]), vec![rows.clone()], rows, vec![]),
        "MAXIMUM" | "MINIMUM" => (Attribute::Mode(1), vec![rows.clone(), rows.clone()], rows, vec![]),
        "ARITHMETIC_RIGHT_SHIFT" => (Attribute::Round(false), vec![rows.clone(), rows.clone()], rows, vec![]),
        "MUL" => (Attribute::None, vec![rows.clone(), rows.clone(), one], rows, vec![]),
        "NEGATE" => (Attribute::None, vec![rows.clone(), one.clone(), one], rows, vec![]),
        _ => (Attribute::None, vec![rows.clone(); info.inputs.len()], rows, vec![]),
    }
}

/// A graph around a variable of the row's type, which the operator reads or writes.
fn variable(info: &OperatorInfo, row: &TypeRow) -> Writer {
    let mut w = Writer::new();
    w.variable("v", row.types[0], &[2], &[]);
    if info.name == "VARIABLE_WRITE" {
        w.input("y", row.types[0], &[2]);
        w.raw(info.name, Attribute::None, &["y"], &["v"]);
    } else {
        w.op("VARIABLE_READ", Attribute::None, &["v"], "y", row.types[0], &[2]);
    }
    w.output("y");
    w
}

/// A graph of one operator whose types are those of the row.
fn graph(info: &OperatorInfo, row: &TypeRow) -> Writer {
    if info.name.starts_with("VARIABLE") {
        return variable(info, row);
    }
    if info.makes_shapes() {
        let mut w = Writer::new();
        w.version = [1, 1, 0];
        w.input("x", row.types[0], &[2]);
        w.shapes.push(("dim".to_owned(), vec![0]));
        w.raw(info.name, Attribute::Axis { axis: 0, nan_mode: 0 }, &["x"], &["dim"]);
        w.output("x");
        return w;
    }
    match info.name {
        "COND_IF" => return control::cond_if(),
        "WHILE_LOOP" => return control::while_loop(),
        _ => {}
    }
    let mut w = Writer::new();
    let (major, minor) = row.version.max(info.version());
    w.version = [major, minor, 0];
    let (attribute, shapes, output, dims) = smallest(info, row);
    let (mut shapes, mut dims) = (shapes.into_iter(), dims.into_iter());
    let mut names = Vec::new();
    // The operators' own checks decide about RESCALE's multiplier, without scale32, and about indices.
    let checked = if info.name == "RESCALE" { DType::Int16 } else { DType::Int32 };
    let dtype = |of: OperandType| of.of(row.types).unwrap_or(checked);
    for operand in info.inputs {
        let name = operand.name;
        names.push(name);
        if operand.kind == OperandKind::Shape {
            w.shape(name, &dims.next().expect("a shape operand for each"));
            continue;
        }
        let (dtype, shape) = (dtype(operand.dtype), shapes.next().expect("a shape for each tensor"));
        if operand.kind == OperandKind::Data {
            w.input(name, dtype, &shape);
            continue;
        }
        let elements = shape.iter().product::<i32>() as usize;
        // 2 is a zero for nobody but a right shift for RESCALE.
        let byte = if (info.name, name) == ("RESCALE", "shift") { 2 } else { 0 };
        let mut data = vec![byte; elements * dtype.bytes().unwrap_or(1)];
        if name == "row_count" {
            data[0] = 1;
        }
        w.constant(name, dtype, &shape, &data);
    }
    if info.name == "CONST" {
        w.scaled_constant("y", dtype(info.output), &output, &[0; 32], &[0]);
    } else {
        let results = &["y", "second"][..info.results];
        for (index, result) in results.iter().enumerate() {
            let mut shape = output.clone();
            if info.scales && index == 1 {
                shape.last_mut().into_iter().for_each(|last| *last /= 32);
            }
            w.tensor(result, dtype(info.result(index)), &shape);
        }
        w.raw(info.name, attribute, &names, results);
    }
    w.output("y");
    w
}

#[test]
fn every_row_of_types_is_accepted_and_gives_its_profile() {
    let mut rows = 0;
    for info in operators() {
        for row in info.rows {
            let graph = accepted(&graph(info, row));
            // CONSTs of operands may be of a type that either profile has, so only the row decides.
            assert_eq!(graph.profile.float, row.profile == ProfileNeed::Float, "{} {row:?}", info.name);
            if row.profile == ProfileNeed::Int {
                assert!(graph.profile.integer, "{} {row:?}", info.name);
            }
            rows += 1;
        }
    }
    assert!(rows > 300, "only {rows} rows");
}

#[test]
fn types_outside_the_rows_are_refused() {
    for info in operators().iter().filter(|info| !info.rows.is_empty() && !info.inputs.is_empty()) {
        for code in 1..=12 {
            let first = DType::from_code(code).expect("the codes of TOSA 1.0");
            if first == DType::Shape || info.name == "SELECT" {
                continue;
            }
            let mut w = graph(info, &info.rows[0]);
            w.version = [1, 0, 0];
            w.tensors[0].dtype = code;
            let column = |dtype: OperandType, row: &TypeRow| dtype.of(row.types);
            // Every other tensor keeps its type, so some row must have the new one beside the old ones.
            let fits = info.rows.iter().any(|row| {
                row.version == (1, 0)
                    && row.types[0] == first
                    && info
                        .inputs
                        .iter()
                        .skip(1)
                        .filter(|o| o.kind != OperandKind::Shape)
                        .all(|operand| column(operand.dtype, row) == column(operand.dtype, &info.rows[0]))
                    && column(info.output, row) == column(info.output, &info.rows[0])
            });
            let result = read(w.finish());
            assert!(fits || result.is_err(), "{} takes {first}", info.name);
        }
    }
}
