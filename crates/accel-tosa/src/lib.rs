//! Reads `.tosa` bytes into a checked, typed graph.
//!
//! [`read`] verifies the FlatBuffer, resolves names, folds every operand that TOSA requires to be a
//! compile-time constant (zero points, pads, slice bounds, RESIZE scales, reshape shapes) into the
//! operator itself, and checks types, shapes, level 8K limits and every ERROR_IF. What comes out is a
//! [`Graph`] whose operators only have data tensors as operands, in execution order.
#![forbid(unsafe_code)]

pub mod bind;
mod block;
mod control;
mod dtype;
mod flat;
mod graph;
pub mod level;
mod op;
pub mod operators;
mod ops;
mod read;
mod refusal;
mod schema;
mod shapes;
mod site;
mod types;
#[cfg(feature = "writer")]
pub mod writer;

pub use dtype::{BLOCK, DType};
pub use graph::{Block, Constant, Graph, Node, Profile, Tensor, TensorId, Variable, Version};
pub use op::{
    BinaryOp, CompareOp, Conv3dAttrs, ConvAttrs, LogicalOp, NanMode, Op, PoolAttrs, ReduceOp, RescaleAttrs,
    ResizeAttrs, ResizeMode, Rounding, TransposeConvAttrs, UnaryOp,
};
pub use operators::operators;
pub use read::read;
pub use refusal::{Refusal, Rule};
