//! From a resolved operator to an [`Op`]: attributes, folded operands and every ERROR_IF.

mod blocks;
mod convolution;
mod elementwise;
mod layout;
mod reduction;
mod scaling;
mod transform;

use crate::schema::{ConvAttribute, ModeAttribute, PoolAttribute, TransposeConvAttribute};
use crate::site::{Result, Site};
use crate::{BinaryOp, CompareOp, DType, LogicalOp, Op, Rule, UnaryOp};

/// The accumulator type of the operators that have one.
pub(crate) fn accumulator(site: &Site<'_>) -> Result<Option<DType>> {
    let code = match site.info.name {
        "AVG_POOL2D" => site.attribute::<PoolAttribute<'_>>()?.last(),
        "AVG_POOL2D_ADAPTIVE" => site.attribute::<ModeAttribute<'_>>()?.mode(),
        "CONV2D" | "CONV3D" | "DEPTHWISE_CONV2D" => site.attribute::<ConvAttribute<'_>>()?.acc_type(),
        "TRANSPOSE_CONV2D" => site.attribute::<TransposeConvAttribute<'_>>()?.acc_type(),
        _ => return Ok(None),
    };
    let code = code.unwrap_or(0);
    DType::from_code(code).map(Some).ok_or_else(|| {
        site.refuse(
            Rule::ErrorIf,
            format!("its accumulator has the type number {code}, which TOSA 1.0 does not have."),
        )
    })
}

/// Checks the operator and makes its [`Op`]. CONST and CONST_SHAPE never come here.
pub(crate) fn build(site: &Site<'_>) -> Result<Op> {
    use elementwise::{binary, unary};
    match site.info.name {
        "ARGMAX" => reduction::argmax(site),
        "AVG_POOL2D" => convolution::avg_pool2d(site),
        "CONV2D" => convolution::conv2d(site),
        "CONV3D" => convolution::conv3d(site),
        "DEPTHWISE_CONV2D" => convolution::depthwise_conv2d(site),
        "TRANSPOSE_CONV2D" => convolution::transpose_conv2d(site),
        "FFT2D" => transform::fft2d(site),
        "RFFT2D" => transform::rfft2d(site),
        "MATMUL" => convolution::matmul(site),
        "MATMUL_T" => convolution::matmul_t(site),
        "MATMUL_T_BLOCK_SCALED" => convolution::matmul_t_block_scaled(site),
        "CONV2D_BLOCK_SCALED" => convolution::conv2d_block_scaled(site),
        "CAST_FROM_BLOCK_SCALED" => blocks::cast_from(site),
        "CAST_TO_BLOCK_SCALED" => blocks::cast_to(site),
        "RESHAPE_BLOCK_SCALED" => blocks::reshape(site),
        "ROW_GATHER_BLOCK_SCALED" => blocks::row_gather(site),
        "MAX_POOL2D" => convolution::max_pool2d(site),
        "MAX_POOL2D_ADAPTIVE" => convolution::max_pool2d_adaptive(site),
        "AVG_POOL2D_ADAPTIVE" => convolution::avg_pool2d_adaptive(site),
        "CLAMP" => elementwise::clamp(site),
        "ERF" => unary(site, UnaryOp::Erf),
        "SIGMOID" => unary(site, UnaryOp::Sigmoid),
        "TANH" => unary(site, UnaryOp::Tanh),
        "ADD" => binary(site, BinaryOp::Add),
        "ARITHMETIC_RIGHT_SHIFT" => elementwise::arithmetic_right_shift(site),
        "BITWISE_AND" => binary(site, BinaryOp::BitwiseAnd),
        "BITWISE_OR" => binary(site, BinaryOp::BitwiseOr),
        "BITWISE_XOR" => binary(site, BinaryOp::BitwiseXor),
        "INTDIV" => binary(site, BinaryOp::IntDiv),
        "LOGICAL_AND" => elementwise::logical(site, LogicalOp::And),
        "LOGICAL_LEFT_SHIFT" => binary(site, BinaryOp::LogicalLeftShift),
        "LOGICAL_RIGHT_SHIFT" => binary(site, BinaryOp::LogicalRightShift),
        "LOGICAL_OR" => elementwise::logical(site, LogicalOp::Or),
        "LOGICAL_XOR" => elementwise::logical(site, LogicalOp::Xor),
        "MAXIMUM" => binary(site, BinaryOp::Maximum { nan_mode: elementwise::nan_mode(site)? }),
        "MINIMUM" => binary(site, BinaryOp::Minimum { nan_mode: elementwise::nan_mode(site)? }),
        "MUL" => elementwise::mul(site),
        "POW" => binary(site, BinaryOp::Pow),
        "SUB" => binary(site, BinaryOp::Sub),
        "TABLE" => elementwise::table(site),
        "ABS" => unary(site, UnaryOp::Abs),
        "BITWISE_NOT" => unary(site, UnaryOp::BitwiseNot),
        "CEIL" => unary(site, UnaryOp::Ceil),
        "CLZ" => unary(site, UnaryOp::Clz),
        "COS" => unary(site, UnaryOp::Cos),
        "EXP" => unary(site, UnaryOp::Exp),
        "FLOOR" => unary(site, UnaryOp::Floor),
        "LOG" => unary(site, UnaryOp::Log),
        "LOGICAL_NOT" => unary(site, UnaryOp::LogicalNot),
        "NEGATE" => elementwise::negate(site),
        "RECIPROCAL" => unary(site, UnaryOp::Reciprocal),
        "RSQRT" => unary(site, UnaryOp::Rsqrt),
        "SIN" => unary(site, UnaryOp::Sin),
        "SELECT" => elementwise::select(site),
        "EQUAL" => elementwise::compare(site, CompareOp::Equal),
        "GREATER" => elementwise::compare(site, CompareOp::Greater),
        "GREATER_EQUAL" => elementwise::compare(site, CompareOp::GreaterEqual),
        "REDUCE_ALL" | "REDUCE_ANY" | "REDUCE_MAX" | "REDUCE_MIN" | "REDUCE_PRODUCT" | "REDUCE_SUM" => {
            reduction::reduce(site)
        }
        "CONCAT" => layout::concat(site),
        "PAD" => layout::pad(site),
        "RESHAPE" => layout::reshape(site),
        "REVERSE" => layout::reverse(site),
        "SLICE" => layout::slice(site),
        "TILE" => layout::tile(site),
        "TRANSPOSE" => layout::transpose(site),
        "GATHER" => layout::gather(site),
        "ROW_GATHER" => Ok(Op::RowGather { run: layout::row_gather(site, 1)? }),
        "SCATTER" => layout::scatter(site),
        "RESIZE" => scaling::resize(site),
        "CAST" => elementwise::same_shape(site, Op::Cast),
        "RESCALE" => scaling::rescale(site),
        "IDENTITY" => elementwise::same_shape(site, Op::Identity),
        _ => Err(site.refuse(Rule::Unsupported, "graphs cannot hold it.".to_owned())),
    }
}
