//! Walks a graph in order and asks the kernel family of each operator for its launches.

mod axes;
mod blocked;
mod blocks;
mod control;
pub(crate) mod conv;
mod depthwise;
mod fft;
mod gather;
mod gemm;
pub(crate) mod int48;
pub(crate) mod matmul;
mod matrix;
pub(crate) mod movers;
mod packed;
pub(crate) mod pointwise;
mod pool;
mod prepare;
mod product;
pub(crate) mod reduce;
mod reduce_wide;
mod resize;
mod skinny;
mod transposed;
pub(crate) mod wide;
mod window;
mod zero_points;

pub(crate) use matrix::smallest_geometry;

use accel_tosa::{Block, Graph, Node, Op, Refusal, Rule, TensorId};

use crate::blocks::take_apart;
use crate::builder::{Builder, Value};
use crate::encoded;
use crate::epilogue::Epilogue;
use crate::finish::finish;
use crate::fold::fold;
use crate::fuse::{Work, group};
use crate::widen::widen;
use crate::{DeviceCaps, Plan};

/// Most operators in a program: arena packing is quadratic in it, and a guest chooses it.
const MAX_OPERATORS: usize = 16_384;

/// Lowers `graph` for a device.
///
/// # Errors
/// A refusal of kind [`Rule::Unsupported`] that names the operator when no kernel covers it.
pub fn lower(graph: &Graph, caps: &DeviceCaps) -> Result<Plan, Refusal> {
    let apart = take_apart(graph);
    let graph = apart.as_ref().unwrap_or(graph);
    let widened = widen(graph);
    let graph = widened.as_ref().unwrap_or(graph);
    let count = operators(&graph.nodes);
    if count > MAX_OPERATORS {
        let message = format!("the graph has {count} operators; at most {MAX_OPERATORS} are run");
        return Err(Refusal { at: None, rule: Rule::Level, message });
    }
    let mut builder = Builder::new(graph, caps);
    lower_block(&mut builder, &graph.nodes, &graph.outputs)?;
    finish(builder)
}

/// Number of operators, those of inner graphs included.
fn operators(nodes: &[Node]) -> usize {
    let inner = |block: &Block| operators(&block.nodes);
    let count = |node: &Node| match &node.op {
        Op::CondIf { then_graph, else_graph } => 1 + inner(then_graph) + inner(else_graph),
        Op::WhileLoop { cond_graph, body_graph } => 1 + inner(cond_graph) + inner(body_graph),
        _ => 1,
    };
    nodes.iter().map(count).sum()
}

/// Lowers the operators of a block.
fn lower_block<'a>(
    builder: &mut Builder<'a>,
    nodes: &'a [Node],
    outputs: &[TensorId],
) -> Result<(), Refusal> {
    let mut rest = Vec::new();
    settle(builder, nodes, &mut rest);
    encoded::defer(builder, &mut rest, outputs);
    for (index, work) in group(builder, &rest, outputs)? {
        let node = rest[index];
        builder.at = (node.position, node.op.name());
        match (work, &node.op) {
            (Work::Operator, Op::CondIf { then_graph, else_graph }) => {
                control::cond_if(builder, node, [then_graph, else_graph])?;
            }
            (Work::Operator, Op::WhileLoop { cond_graph, body_graph }) => {
                control::while_loop(builder, node, cond_graph, body_graph)?;
            }
            (Work::Operator, _) => lower_node(builder, node, None)?,
            (Work::Chain(chain), _) => chain.launch(builder)?,
            (Work::Rows(program), _) => program.launch(builder)?,
            (Work::Product(product, chain), _) => {
                let node = rest[product];
                builder.at = (node.position, node.op.name());
                let epilogue = chain.epilogue(builder);
                lower_node(builder, node, epilogue.as_ref())?;
            }
        }
    }
    Ok(())
}

/// Does what needs no launch, and lists the operators that are left.
fn settle<'a>(builder: &mut Builder<'a>, nodes: &'a [Node], rest: &mut Vec<&'a Node>) {
    for node in nodes {
        if matches!(node.op, Op::Identity | Op::Reshape) {
            builder.alias(node.outputs[0], node.inputs[0]);
        } else if let Some(graph) = control::known_branch(builder, node) {
            control::alias_all(builder, &graph.inputs, &node.inputs[1..]);
            settle(builder, &graph.nodes, rest);
            control::alias_all(builder, &node.outputs, &graph.outputs);
        } else if !fold(builder, node) {
            control::alias_unchanged(builder, node);
            rest.push(node);
        }
    }
}

/// Lowers an operator; only those that [`crate::epilogue::start`] takes have an epilogue.
fn lower_node(builder: &mut Builder<'_>, node: &Node, epilogue: Option<&Epilogue>) -> Result<(), Refusal> {
    match &node.op {
        _ if wide::is_needed(builder, node) => wide::lower(builder, node),
        Op::CastFromBlockScaled => blocks::decode(builder, node),
        Op::CastToBlockScaled => blocks::encode(builder, node),
        Op::Concat { axis } => movers::concat(builder, node, *axis),
        Op::Conv2d(attrs) if window::is_needed(builder, node) => window::conv2d(builder, node, attrs),
        Op::DepthwiseConv2d(attrs) if window::is_needed(builder, node) => {
            window::depthwise(builder, node, attrs)
        }
        Op::Conv3d(attrs) => conv::volume(builder, node, attrs),
        Op::TransposeConv2d(attrs) => transposed::lower(builder, node, attrs),
        Op::Conv2d(attrs) => conv::planar(builder, node, attrs, epilogue),
        Op::DepthwiseConv2d(attrs) => depthwise::lower(builder, node, attrs, epilogue),
        Op::AvgPool2d { pool, input_zp, output_zp, .. } => {
            pool::lower(builder, node, pool, &pool::Kind::Average([*input_zp, *output_zp]))
        }
        Op::MaxPool2d { pool, nan_mode } => pool::lower(builder, node, pool, &pool::Kind::Max(*nan_mode)),
        Op::Gather => gather::gather(builder, node, 1),
        Op::RowGather { run } => gather::gather(builder, node, *run),
        Op::Scatter => gather::scatter(builder, node),
        Op::Resize(attrs) => resize::lower(builder, node, attrs),
        Op::VariableRead { variable } => {
            movers::copy(builder, Value::Tensor(node.outputs[0]), Value::State(*variable))
        }
        Op::VariableWrite { variable } => {
            let value = builder.tensor(node.inputs[0]);
            movers::copy(builder, Value::State(*variable), value)
        }
        Op::Fft2d { inverse } => fft::lower(builder, node, *inverse),
        Op::Rfft2d => fft::lower(builder, node, false),
        Op::MatMul { a_zp, b_zp } | Op::MatMulT { a_zp, b_zp } if product::is_needed(builder, node) => {
            product::lower(builder, node, [*a_zp, *b_zp])
        }
        Op::Rescale(attrs) => int48::rescale(builder, node, attrs),
        Op::MatMul { a_zp, b_zp } | Op::MatMulT { a_zp, b_zp } => {
            matmul::lower(builder, node, [*a_zp, *b_zp], epilogue)
        }
        Op::Pad { padding, value } => movers::pad(builder, node, padding, *value),
        Op::Reverse { axis } => movers::reverse(builder, node, *axis),
        Op::Slice { start } => movers::slice(builder, node, start),
        Op::Tile => movers::tile(builder, node),
        Op::Transpose { perms } => movers::transpose(builder, node, perms),
        Op::ArgMax { axis, nan_mode } => reduce::argmax(builder, node, *axis, *nan_mode),
        Op::Reduce { op, axis } => reduce::reduce(builder, node, *op, *axis),
        _ => Err(builder.unsupported("no kernel for this operator yet")),
    }
}
