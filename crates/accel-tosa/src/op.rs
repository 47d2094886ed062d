//! Operators with their attributes and compile-time operands.

use crate::{Block, DType};

/// How NaN operands of MAXIMUM, MINIMUM, CLAMP, ARGMAX, pools and reductions behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NanMode {
    /// A NaN operand gives NaN.
    Propagate,
    /// A NaN operand is passed over.
    Ignore,
}

/// Rounding of RESCALE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// SINGLE_ROUND.
    Single,
    /// DOUBLE_ROUND (EXT-DOUBLEROUND).
    Double,
    /// INEXACT_ROUND (EXT-INEXACTROUND).
    Inexact,
}

/// Float or integer element-wise operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum UnaryOp {
    Abs,
    BitwiseNot,
    Ceil,
    Clz,
    Cos,
    Erf,
    Exp,
    Floor,
    Log,
    LogicalNot,
    Reciprocal,
    Rsqrt,
    Sigmoid,
    Sin,
    Tanh,
}

/// Element-wise operators of two broadcast operands whose result has the operands' type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum BinaryOp {
    Add,
    ArithmeticRightShift { round: bool },
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    IntDiv,
    LogicalLeftShift,
    LogicalRightShift,
    Maximum { nan_mode: NanMode },
    Minimum { nan_mode: NanMode },
    Pow,
    Sub,
}

/// BOOL operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum LogicalOp {
    And,
    Or,
    Xor,
}

/// Comparisons; the result is BOOL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum CompareOp {
    Equal,
    Greater,
    GreaterEqual,
}

/// Reductions along one axis, which stays with extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum ReduceOp {
    All,
    Any,
    Max { nan_mode: NanMode },
    Min { nan_mode: NanMode },
    Product,
    Sum,
}

/// Attributes of CONV2D, DEPTHWISE_CONV2D. Layouts: input NHWC; weight OHWI (CONV2D) or HWCM (DEPTHWISE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvAttrs {
    /// Top, bottom, left, right, in elements.
    pub pad: [u32; 4],
    /// Y, X.
    pub stride: [u32; 2],
    /// Y, X.
    pub dilation: [u32; 2],
    /// Accumulator type of the artifact; kernels accumulate FP in FP32 whatever it says.
    pub acc_type: DType,
    /// Zero point of the input (0 for float).
    pub input_zp: i32,
    /// Zero point of the weight (0 for float).
    pub weight_zp: i32,
}

/// Attributes of CONV3D. Layouts: input NDHWC, weight ODHWI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv3dAttrs {
    /// Front, back, top, bottom, left, right, in elements.
    pub pad: [u32; 6],
    /// D, Y, X.
    pub stride: [u32; 3],
    /// D, Y, X.
    pub dilation: [u32; 3],
    /// Accumulator type of the artifact; kernels accumulate FP in FP32 whatever it says.
    pub acc_type: DType,
    /// Zero point of the input (0 for float).
    pub input_zp: i32,
    /// Zero point of the weight (0 for float).
    pub weight_zp: i32,
}

/// Attributes of TRANSPOSE_CONV2D. Layouts: input NHWC, weight OHWI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeConvAttrs {
    /// Elements added to the output at its top, bottom, left and right; negative ones are cut off.
    pub out_pad: [i32; 4],
    /// Y, X.
    pub stride: [u32; 2],
    /// Accumulator type of the artifact; kernels accumulate FP in FP32 whatever it says.
    pub acc_type: DType,
    /// Zero point of the input (0 for float).
    pub input_zp: i32,
    /// Zero point of the weight (0 for float).
    pub weight_zp: i32,
}

/// Attributes of MAX_POOL2D and AVG_POOL2D. Layout NHWC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolAttrs {
    /// Y, X.
    pub kernel: [u32; 2],
    /// Y, X.
    pub stride: [u32; 2],
    /// Top, bottom, left, right.
    pub pad: [u32; 4],
}

/// Sampling of RESIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are TOSA's")]
pub enum ResizeMode {
    Nearest,
    Bilinear,
}

/// Attributes of RESIZE (NHWC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResizeAttrs {
    /// Sampling.
    pub mode: ResizeMode,
    /// `[scale_y_n, scale_y_d, scale_x_n, scale_x_d]`.
    pub scale: [i32; 4],
    /// Y, X.
    pub offset: [i32; 2],
    /// Y, X.
    pub border: [i32; 2],
}

/// Attributes of RESCALE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RescaleAttrs {
    /// 32-bit multipliers (`scale32`) or 16-bit.
    pub scale32: bool,
    /// Rounding.
    pub rounding: Rounding,
    /// One multiplier and shift per index of the last dimension, otherwise one for all.
    pub per_channel: bool,
    /// The input's bits are unsigned.
    pub input_unsigned: bool,
    /// The output's bits are unsigned.
    pub output_unsigned: bool,
    /// Zero point of the input, already read as unsigned where the input is.
    pub input_zp: i32,
    /// Zero point of the output, likewise.
    pub output_zp: i32,
}

/// An operator. The comment of each names the operands that stay in `Node::inputs`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `[input]` -> INT32 or INT64 indices, without the axis.
    ArgMax {
        /// Axis reduced.
        axis: u32,
        /// NaN handling.
        nan_mode: NanMode,
    },
    /// `[input]`.
    AvgPool2d {
        /// Window.
        pool: PoolAttrs,
        /// Accumulator type.
        acc_type: DType,
        /// Zero point of the input.
        input_zp: i32,
        /// Zero point of the output.
        output_zp: i32,
    },
    /// `[input, weight, bias]`; bias has 1 or OC elements.
    Conv2d(ConvAttrs),
    /// `[input, input scales, weight, weight scales, bias]`: CONV2D of values with their scales.
    Conv2dBlockScaled(ConvAttrs),
    /// `[input, weight, bias]`; bias has 1 or OC elements.
    Conv3d(Conv3dAttrs),
    /// `[input, weight, bias]`; bias has 1 or C*M elements.
    DepthwiseConv2d(ConvAttrs),
    /// `[input, weight, bias]`; bias has 1 or OC elements.
    TransposeConv2d(TransposeConvAttrs),
    /// `[real, imaginary]` -> `[real, imaginary]`, all `[N,H,W]`.
    Fft2d {
        /// The inverse transform, without its factor 1/HW.
        inverse: bool,
    },
    /// `[real]` of `[N,H,W]` -> `[real, imaginary]` of `[N,H,W/2+1]`.
    Rfft2d,
    /// `[a, b]`: `[N,H,C] x [N,C,W]`.
    MatMul {
        /// Zero point of a.
        a_zp: i32,
        /// Zero point of b.
        b_zp: i32,
    },
    /// `[a, b]`: `[N,H,C] x [N,W,C]`, the second transposed; its N may be 1.
    MatMulT {
        /// Zero point of a.
        a_zp: i32,
        /// Zero point of b.
        b_zp: i32,
    },
    /// `[a, a scales, b, b scales]`: MATMUL_T of values with their scales.
    MatMulTBlockScaled,
    /// `[input]`.
    MaxPool2d {
        /// Window.
        pool: PoolAttrs,
        /// NaN handling.
        nan_mode: NanMode,
    },
    /// `[input]`; bounds are the little-endian bits of the tensor's type, zero-extended.
    Clamp {
        /// Lower bound.
        min: u64,
        /// Upper bound.
        max: u64,
        /// NaN handling.
        nan_mode: NanMode,
    },
    /// `[input]`.
    Unary(UnaryOp),
    /// `[a, b]`, broadcast.
    Binary(BinaryOp),
    /// `[a, b]`, broadcast; `shift` is 0 but for INT32.
    Mul {
        /// Right shift of the 64-bit product, rounded.
        shift: u32,
    },
    /// `[a, b]`, broadcast.
    Logical(LogicalOp),
    /// `[a, b]`, broadcast.
    Compare(CompareOp),
    /// `[input]`.
    Negate {
        /// Zero point of the input.
        input_zp: i32,
        /// Zero point of the output.
        output_zp: i32,
    },
    /// `[condition, on_true, on_false]`, broadcast.
    Select,
    /// `[input, table]`; the table has 256 (INT8) or 513 (INT16) elements.
    Table,
    /// `[input]`.
    Reduce {
        /// Reduction.
        op: ReduceOp,
        /// Axis reduced.
        axis: u32,
    },
    /// `[input...]`.
    Concat {
        /// Axis joined.
        axis: u32,
    },
    /// `[input]`.
    Pad {
        /// Elements before and after, a pair per dimension.
        padding: Vec<[u32; 2]>,
        /// Little-endian bits of the pad value, zero-extended.
        value: u64,
    },
    /// `[input]`; the new shape is the output's.
    Reshape,
    /// `[values, scales]` -> `[values, scales]`: RESHAPE of both.
    ReshapeBlockScaled,
    /// `[input]`.
    Reverse {
        /// Axis reversed.
        axis: u32,
    },
    /// `[input]`; the size is the output's shape.
    Slice {
        /// First index per dimension.
        start: Vec<u32>,
    },
    /// `[input]`; multiples follow from the shapes.
    Tile,
    /// `[input]`.
    Transpose {
        /// Output dimension i is input dimension `perms[i]`.
        perms: Vec<u32>,
    },
    /// `[values, indices]`: `[N,K,C]`, `[N,W]` -> `[N,W,C]`; indices are INT32 or INT64.
    Gather,
    /// `[values, indices]`: `[N,K,C]`, `[N,W]` -> `[N,W*run,C]`; indices are INT32 or INT64.
    RowGather {
        /// Rows that each index picks, from its own on.
        run: u32,
    },
    /// `[values, scales, indices]` -> `[values, scales]`: ROW_GATHER of both.
    RowGatherBlockScaled {
        /// Rows that each index picks, from its own on.
        run: u32,
    },
    /// `[values_in, indices, input]`: `[N,K,C]`, `[N,W]`, `[N,W,C]` -> `[N,K,C]`.
    Scatter,
    /// `[input]`.
    Resize(ResizeAttrs),
    /// `[input]`.
    Cast,
    /// `[values, scales]`: each value times the scale of its block.
    CastFromBlockScaled,
    /// `[input]` -> `[values, scales]`.
    CastToBlockScaled,
    /// `[input, multiplier, shift]`; multiplier and shift have one element, or one a channel.
    Rescale(RescaleAttrs),
    /// `[input]`.
    Identity,
    /// `[condition, operands...]`: one of two graphs, which take the operands and give the results.
    CondIf {
        /// Runs when the condition, one BOOL, is true.
        then_graph: Box<Block>,
        /// Runs when it is false.
        else_graph: Box<Block>,
    },
    /// `[operands...]`: what goes round, and the results are what it is at the end.
    WhileLoop {
        /// Makes one BOOL of it: whether it goes round once more.
        cond_graph: Box<Block>,
        /// Makes what goes round next of it.
        body_graph: Box<Block>,
    },
    /// No operands; the result is the variable's value.
    VariableRead {
        /// Place in [`Graph::variables`](crate::Graph::variables).
        variable: u32,
    },
    /// `[input]`, the variable's new value; no result.
    VariableWrite {
        /// Place in [`Graph::variables`](crate::Graph::variables).
        variable: u32,
    },
}

impl Op {
    /// TOSA's name of the operator.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ArgMax { .. } => "ARGMAX",
            Self::AvgPool2d { .. } => "AVG_POOL2D",
            Self::Conv2d(_) => "CONV2D",
            Self::Conv2dBlockScaled(_) => "CONV2D_BLOCK_SCALED",
            Self::Conv3d(_) => "CONV3D",
            Self::DepthwiseConv2d(_) => "DEPTHWISE_CONV2D",
            Self::TransposeConv2d(_) => "TRANSPOSE_CONV2D",
            Self::Fft2d { .. } => "FFT2D",
            Self::Rfft2d => "RFFT2D",
            Self::MatMul { .. } => "MATMUL",
            Self::MatMulT { .. } => "MATMUL_T",
            Self::MatMulTBlockScaled => "MATMUL_T_BLOCK_SCALED",
            Self::MaxPool2d { .. } => "MAX_POOL2D",
            Self::Clamp { .. } => "CLAMP",
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Mul { .. } => "MUL",
            Self::Logical(LogicalOp::And) => "LOGICAL_AND",
            Self::Logical(LogicalOp::Or) => "LOGICAL_OR",
            Self::Logical(LogicalOp::Xor) => "LOGICAL_XOR",
            Self::Compare(CompareOp::Equal) => "EQUAL",
            Self::Compare(CompareOp::Greater) => "GREATER",
            Self::Compare(CompareOp::GreaterEqual) => "GREATER_EQUAL",
            Self::Negate { .. } => "NEGATE",
            Self::Select => "SELECT",
            Self::Table => "TABLE",
            Self::Reduce { op, .. } => op.name(),
            Self::Concat { .. } => "CONCAT",
            Self::Pad { .. } => "PAD",
            Self::Reshape => "RESHAPE",
            Self::ReshapeBlockScaled => "RESHAPE_BLOCK_SCALED",
            Self::Reverse { .. } => "REVERSE",
            Self::Slice { .. } => "SLICE",
            Self::Tile => "TILE",
            Self::Transpose { .. } => "TRANSPOSE",
            Self::Gather => "GATHER",
            Self::RowGather { .. } => "ROW_GATHER",
            Self::RowGatherBlockScaled { .. } => "ROW_GATHER_BLOCK_SCALED",
            Self::Scatter => "SCATTER",
            Self::Resize(_) => "RESIZE",
            Self::Cast => "CAST",
            Self::CastFromBlockScaled => "CAST_FROM_BLOCK_SCALED",
            Self::CastToBlockScaled => "CAST_TO_BLOCK_SCALED",
            Self::Rescale(_) => "RESCALE",
            Self::Identity => "IDENTITY",
            Self::CondIf { .. } => "COND_IF",
            Self::WhileLoop { .. } => "WHILE_LOOP",
            Self::VariableRead { .. } => "VARIABLE_READ",
            Self::VariableWrite { .. } => "VARIABLE_WRITE",
        }
    }
}

impl UnaryOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Abs => "ABS",
            Self::BitwiseNot => "BITWISE_NOT",
            Self::Ceil => "CEIL",
            Self::Clz => "CLZ",
            Self::Cos => "COS",
            Self::Erf => "ERF",
            Self::Exp => "EXP",
            Self::Floor => "FLOOR",
            Self::Log => "LOG",
            Self::LogicalNot => "LOGICAL_NOT",
            Self::Reciprocal => "RECIPROCAL",
            Self::Rsqrt => "RSQRT",
            Self::Sigmoid => "SIGMOID",
            Self::Sin => "SIN",
            Self::Tanh => "TANH",
        }
    }
}

impl BinaryOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::ArithmeticRightShift { .. } => "ARITHMETIC_RIGHT_SHIFT",
            Self::BitwiseAnd => "BITWISE_AND",
            Self::BitwiseOr => "BITWISE_OR",
            Self::BitwiseXor => "BITWISE_XOR",
            Self::IntDiv => "INTDIV",
            Self::LogicalLeftShift => "LOGICAL_LEFT_SHIFT",
            Self::LogicalRightShift => "LOGICAL_RIGHT_SHIFT",
            Self::Maximum { .. } => "MAXIMUM",
            Self::Minimum { .. } => "MINIMUM",
            Self::Pow => "POW",
            Self::Sub => "SUB",
        }
    }
}

impl ReduceOp {
    const fn name(self) -> &'static str {
        match self {
            Self::All => "REDUCE_ALL",
            Self::Any => "REDUCE_ANY",
            Self::Max { .. } => "REDUCE_MAX",
            Self::Min { .. } => "REDUCE_MIN",
            Self::Product => "REDUCE_PRODUCT",
            Self::Sum => "REDUCE_SUM",
        }
    }
}
