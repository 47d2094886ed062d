//! A graph of one operator with small shapes.

use std::sync::Arc;

use accel_tosa::operators::{OperandKind, OperandType, OperatorInfo, TypeRow};
use accel_tosa::{
    BLOCK, BinaryOp, Block, CompareOp, Constant, Conv3dAttrs, ConvAttrs, DType, Graph, LogicalOp, NanMode,
    Node, Op, PoolAttrs, Profile, ReduceOp, RescaleAttrs, ResizeAttrs, ResizeMode, Rounding, Tensor,
    TensorId, TransposeConvAttrs, UnaryOp, Variable, Version,
};

/// Shape of most operands, with a block of channels.
const IMAGE: &[u32] = &[1, 2, 2, 32];
/// Shape of the scales of such an image.
const SCALES: &[u32] = &[1, 2, 2, 1];

/// The operator on operands of the row's types; `None` for an operator that is not known here.
pub(super) fn graph(info: &OperatorInfo, row: &TypeRow) -> Option<Graph> {
    if let "COND_IF" | "WHILE_LOOP" = info.name {
        return Some(decided(info.name));
    }
    if info.makes_shapes() {
        return Some(gone(row.types[0]));
    }
    let (op, shapes, output_shape) = sample(info, row)?;
    // The operators' own checks decide about RESCALE's multiplier and about indices.
    let resolve = |operand: OperandType| operand.of(row.types).unwrap_or(DType::Int32);
    let operands = info
        .inputs
        .iter()
        .filter(|operand| matches!(operand.kind, OperandKind::Data | OperandKind::ConstantData));
    let artifact: Arc<[u8]> = vec![0; 4096].into();
    let mut tensors: Vec<Tensor> = operands
        .zip(&shapes)
        .map(|(operand, shape)| {
            let mut tensor = Tensor {
                name: operand.name.to_owned(),
                dtype: resolve(operand.dtype),
                shape: shape.to_vec(),
                constant: None,
            };
            if operand.kind == OperandKind::ConstantData {
                tensor.constant = Some(constant(&tensor));
            }
            tensor
        })
        .collect();
    let node_inputs: Vec<TensorId> = (0..tensors.len() as u32).map(TensorId).collect();
    let inputs = node_inputs.iter().copied().filter(|id| tensors[id.0 as usize].constant.is_none()).collect();
    let outputs: Vec<TensorId> =
        (0..info.results).map(|result| TensorId((tensors.len() + result) as u32)).collect();
    tensors.extend(outputs.iter().enumerate().map(|(index, id)| Tensor {
        name: format!("output {}", id.0),
        dtype: resolve(info.result(index)),
        shape: output_shape.to_vec(),
        constant: None,
    }));
    if info.scales {
        let scales = &mut tensors[outputs[1].0 as usize];
        scales.shape.last_mut().into_iter().for_each(|last| *last /= BLOCK);
    }
    let mut graph = Graph {
        artifact,
        version: Version { major: 1, minor: 0, patch: 0, draft: false },
        profile: Profile::default(),
        tensors,
        // Only variable accesses look at it.
        variables: vec![Variable { tensor: outputs[0], initial: None }],
        nodes: Vec::new(),
        inputs,
        outputs: outputs.clone(),
    };
    match op {
        Some(op) => graph.nodes.push(Node { position: 0, op, inputs: node_inputs, outputs }),
        // A CONST leaves no node behind.
        None => {
            let tensor = &mut graph.tensors[outputs[0].0 as usize];
            tensor.constant = Some(constant(tensor));
        }
    }
    Some(graph)
}

/// Zeros.
fn constant(tensor: &Tensor) -> Constant {
    Constant { range: 0..tensor.bytes() as usize, scales: 0..(tensor.elements() / u64::from(BLOCK)) as usize }
}

/// What is left of an operator that makes a shape of a tensor: the tensor.
fn gone(dtype: DType) -> Graph {
    Graph {
        artifact: Arc::new([]),
        version: Version { major: 1, minor: 1, patch: 0, draft: true },
        profile: Profile::default(),
        tensors: vec![Tensor { name: "input".to_owned(), dtype, shape: vec![1], constant: None }],
        variables: Vec::new(),
        nodes: Vec::new(),
        inputs: vec![TensorId(0)],
        outputs: vec![TensorId(0)],
    }
}

/// A graph around graphs that hand on the condition.
fn decided(name: &str) -> Graph {
    let tensor =
        |name: &str| Tensor { name: name.to_owned(), dtype: DType::Bool, shape: vec![1], constant: None };
    let [condition, output, first, second] = [0, 1, 2, 3].map(TensorId);
    let block = |id| Box::new(Block { nodes: Vec::new(), inputs: vec![id], outputs: vec![id] });
    let (op, inputs) = if name == "COND_IF" {
        let op = Op::CondIf { then_graph: block(first), else_graph: block(second) };
        (op, vec![condition, condition])
    } else {
        (Op::WhileLoop { cond_graph: block(first), body_graph: block(second) }, vec![condition])
    };
    Graph {
        artifact: Arc::new([]),
        version: Version { major: 1, minor: 0, patch: 0, draft: false },
        profile: Profile::default(),
        tensors: ["condition", "output", "first", "second"].map(tensor).into(),
        variables: Vec::new(),
        nodes: vec![Node { position: 0, op, inputs, outputs: vec![output] }],
        inputs: vec![condition],
        outputs: vec![output],
    }
}

type Sample = (Option<Op>, Vec<&'static [u32]>, &'static [u32]);

/// The operator, the shapes of its operands and of its result.
fn sample(info: &OperatorInfo, row: &TypeRow) -> Option<Sample> {
    let nan_mode = NanMode::Propagate;
    let column = |name: &str| info.column(name).map(|column| row.types[column]);
    let conv = ConvAttrs {
        pad: [0; 4],
        stride: [1; 2],
        dilation: [1; 2],
        acc_type: column("accumulator").unwrap_or(DType::Fp32),
        input_zp: 0,
        weight_zp: 0,
    };
    let pool = PoolAttrs { kernel: [1; 2], stride: [1; 2], pad: [0; 4] };
    let image = |op: Op, operands: usize| (Some(op), vec![IMAGE; operands], IMAGE);
    let reduce = |op: ReduceOp| (Some(Op::Reduce { op, axis: 3 }), vec![IMAGE], SCALES);
    let unary = |op: UnaryOp| image(Op::Unary(op), 1);
    let binary = |op: BinaryOp| image(Op::Binary(op), 2);
    Some(match info.name {
        "ARGMAX" => (Some(Op::ArgMax { axis: 3, nan_mode }), vec![IMAGE], &[1, 2, 2]),
        "AVG_POOL2D" | "AVG_POOL2D_ADAPTIVE" => {
            let acc_type = column("accumulator")?;
            image(Op::AvgPool2d { pool, acc_type, input_zp: 0, output_zp: 0 }, 1)
        }
        "MAX_POOL2D" | "MAX_POOL2D_ADAPTIVE" => image(Op::MaxPool2d { pool, nan_mode }, 1),
        "CONV2D" => (Some(Op::Conv2d(conv)), vec![IMAGE, &[32, 1, 1, 32], &[32]], IMAGE),
        "CONV3D" => {
            let op = Op::Conv3d(Conv3dAttrs {
                pad: [0; 6],
                stride: [1; 3],
                dilation: [1; 3],
                acc_type: conv.acc_type,
                input_zp: 0,
                weight_zp: 0,
            });
            (Some(op), vec![&[1, 1, 2, 2, 32], &[32, 1, 1, 1, 32], &[32]], &[1, 1, 2, 2, 32])
        }
        "TRANSPOSE_CONV2D" => {
            let op = Op::TransposeConv2d(TransposeConvAttrs {
                out_pad: [0; 4],
                stride: [1; 2],
                acc_type: conv.acc_type,
                input_zp: 0,
                weight_zp: 0,
            });
            (Some(op), vec![IMAGE, &[32, 1, 1, 32], &[32]], IMAGE)
        }
        "DEPTHWISE_CONV2D" => (Some(Op::DepthwiseConv2d(conv)), vec![IMAGE, &[1, 1, 32, 1], &[32]], IMAGE),
        "FFT2D" => (Some(Op::Fft2d { inverse: false }), vec![&[1, 2, 4]; 2], &[1, 2, 4]),
        "RFFT2D" => (Some(Op::Rfft2d), vec![&[1, 2, 4]], [1, 2, 3].as_slice()),
        "MATMUL" => {
            (Some(Op::MatMul { a_zp: 0, b_zp: 0 }), vec![&[1, 2, 4], &[1, 4, 2]], [1, 2, 2].as_slice())
        }
        "MATMUL_T" => (Some(Op::MatMulT { a_zp: 0, b_zp: 0 }), vec![&[1, 2, 32]; 2], [1, 2, 2].as_slice()),
        "MATMUL_T_BLOCK_SCALED" => {
            let shapes: Vec<&[u32]> = vec![&[1, 2, 32], &[1, 2, 1], &[1, 2, 32], &[1, 2, 1]];
            (Some(Op::MatMulTBlockScaled), shapes, &[1, 2, 2])
        }
        "CONV2D_BLOCK_SCALED" => {
            let shapes: Vec<&[u32]> = vec![IMAGE, SCALES, &[32, 1, 1, 32], &[32, 1, 1, 1], &[32]];
            (Some(Op::Conv2dBlockScaled(conv)), shapes, IMAGE)
        }
        "CAST_FROM_BLOCK_SCALED" => (Some(Op::CastFromBlockScaled), vec![IMAGE, SCALES], IMAGE),
        "CAST_TO_BLOCK_SCALED" => image(Op::CastToBlockScaled, 1),
        "CLAMP" => image(Op::Clamp { min: 0, max: 0, nan_mode }, 1),
        "ERF" => unary(UnaryOp::Erf),
        "SIGMOID" => unary(UnaryOp::Sigmoid),
        "TANH" => unary(UnaryOp::Tanh),
        "ABS" => unary(UnaryOp::Abs),
        "BITWISE_NOT" => unary(UnaryOp::BitwiseNot),
        "CEIL" => unary(UnaryOp::Ceil),
        "CLZ" => unary(UnaryOp::Clz),
        "COS" => unary(UnaryOp::Cos),
        "EXP" => unary(UnaryOp::Exp),
        "FLOOR" => unary(UnaryOp::Floor),
        "LOG" => unary(UnaryOp::Log),
        "LOGICAL_NOT" => unary(UnaryOp::LogicalNot),
        "RECIPROCAL" => unary(UnaryOp::Reciprocal),
        "RSQRT" => unary(UnaryOp::Rsqrt),
        "SIN" => unary(UnaryOp::Sin),
        "ADD" => binary(BinaryOp::Add),
        "ARITHMETIC_RIGHT_SHIFT" => binary(BinaryOp::ArithmeticRightShift { round: true }),
        "BITWISE_AND" => binary(BinaryOp::BitwiseAnd),
        "BITWISE_OR" => binary(BinaryOp::BitwiseOr),
        "BITWISE_XOR" => binary(BinaryOp::BitwiseXor),
        "INTDIV" => binary(BinaryOp::IntDiv),
        "LOGICAL_LEFT_SHIFT" => binary(BinaryOp::LogicalLeftShift),
        "LOGICAL_RIGHT_SHIFT" => binary(BinaryOp::LogicalRightShift),
        "MAXIMUM" => binary(BinaryOp::Maximum { nan_mode }),
        "MINIMUM" => binary(BinaryOp::Minimum { nan_mode }),
        "POW" => binary(BinaryOp::Pow),
        "SUB" => binary(BinaryOp::Sub),
        "LOGICAL_AND" => image(Op::Logical(LogicalOp::And), 2),
        "LOGICAL_OR" => image(Op::Logical(LogicalOp::Or), 2),
        "LOGICAL_XOR" => image(Op::Logical(LogicalOp::Xor), 2),
        "EQUAL" => image(Op::Compare(CompareOp::Equal), 2),
        "GREATER" => image(Op::Compare(CompareOp::Greater), 2),
        "GREATER_EQUAL" => image(Op::Compare(CompareOp::GreaterEqual), 2),
        "MUL" => image(Op::Mul { shift: 0 }, 2),
        "NEGATE" => image(Op::Negate { input_zp: 0, output_zp: 0 }, 1),
        "SELECT" => image(Op::Select, 3),
        "TABLE" => {
            let table: &[u32] = if row.types[0] == DType::Int8 { &[256] } else { &[513] };
            (Some(Op::Table), vec![IMAGE, table], IMAGE)
        }
        "REDUCE_ALL" => reduce(ReduceOp::All),
        "REDUCE_ANY" => reduce(ReduceOp::Any),
        "REDUCE_MAX" => reduce(ReduceOp::Max { nan_mode }),
        "REDUCE_MIN" => reduce(ReduceOp::Min { nan_mode }),
        "REDUCE_PRODUCT" => reduce(ReduceOp::Product),
        "REDUCE_SUM" => reduce(ReduceOp::Sum),
        "CONCAT" => image(Op::Concat { axis: 0 }, 1),
        "PAD" => (Some(Op::Pad { padding: vec![[0, 1]; 4], value: 0 }), vec![IMAGE], &[2, 3, 3, 33]),
        "RESHAPE_BLOCK_SCALED" if info.scales => (Some(Op::ReshapeBlockScaled), vec![IMAGE, SCALES], &[128]),
        "RESHAPE" | "RESHAPE_BLOCK_SCALED" => (Some(Op::Reshape), vec![IMAGE], &[128]),
        "REVERSE" => image(Op::Reverse { axis: 1 }, 1),
        "SLICE" => (Some(Op::Slice { start: vec![0, 1, 0, 1] }), vec![IMAGE], &[1, 1, 2, 2]),
        "TILE" => (Some(Op::Tile), vec![IMAGE], &[1, 4, 2, 64]),
        "TRANSPOSE" => (Some(Op::Transpose { perms: vec![0, 2, 3, 1] }), vec![IMAGE], &[1, 2, 32, 2]),
        "GATHER" => (Some(Op::Gather), vec![&[1, 2, 4], &[1, 2]], [1, 2, 4].as_slice()),
        "ROW_GATHER_BLOCK_SCALED" if info.scales => {
            let shapes: Vec<&[u32]> = vec![&[1, 2, 32], &[1, 2, 1], &[1, 2]];
            (Some(Op::RowGatherBlockScaled { run: 2 }), shapes, &[1, 4, 32])
        }
        "ROW_GATHER" | "ROW_GATHER_BLOCK_SCALED" => {
            (Some(Op::RowGather { run: 2 }), vec![&[1, 2, 32], &[1, 2]], [1, 4, 32].as_slice())
        }
        "SCATTER" => (Some(Op::Scatter), vec![&[1, 2, 4], &[1, 2], &[1, 2, 4]], [1, 2, 4].as_slice()),
        "RESIZE" => {
            // The wider results are BILINEAR's alone, the narrow integers NEAREST's.
            let narrow = row.types[0] == row.types[1] && !row.types[0].is_float();
            let mode = if narrow { ResizeMode::Nearest } else { ResizeMode::Bilinear };
            image(Op::Resize(ResizeAttrs { mode, scale: [1; 4], offset: [0; 2], border: [0; 2] }), 1)
        }
        "CAST" => image(Op::Cast, 1),
        "RESCALE" => {
            let attrs = RescaleAttrs {
                scale32: true,
                rounding: Rounding::Single,
                per_channel: false,
                input_unsigned: false,
                output_unsigned: false,
                input_zp: 0,
                output_zp: 0,
            };
            (Some(Op::Rescale(attrs)), vec![IMAGE, &[1], &[1]], IMAGE)
        }
        "CONST" => (None, vec![], &[32]),
        "VARIABLE" => (None, vec![], &[16]),
        "VARIABLE_WRITE" => image(Op::VariableWrite { variable: 0 }, 1),
        "VARIABLE_READ" => image(Op::VariableRead { variable: 0 }, 1),
        "IDENTITY" => image(Op::Identity, 1),
        _ => return None,
    })
}
