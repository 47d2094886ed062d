//! Walks a graph in order and asks the kernel family of each operator for its launches.

mod conv;
mod depthwise;
mod fft;
mod gather;
mod gemm;
pub(crate) mod int48;
mod matmul;
pub(crate) mod movers;
pub(crate) mod pointwise;
mod pool;
mod reduce;
mod resize;
mod window;

use accel_tosa::{Graph, Node, Op, Refusal, Rule};

use crate::builder::{Builder, Value};
use crate::epilogue::Epilogue;
use crate::finish::finish;
use crate::fold::fold;
use crate::fuse::{Work, group};
use crate::{DeviceCaps, Plan};

/// Most operators in a program: arena packing is quadratic in it, and a guest chooses it.
const MAX_OPERATORS: usize = 16_384;

/// Lowers `graph` for a device.
///
/// # Errors
/// A refusal of kind [`Rule::Unsupported`] that names the operator when no kernel covers it.
pub fn lower(graph: &Graph, caps: &DeviceCaps) -> Result<Plan, Refusal> {
    if graph.nodes.len() > MAX_OPERATORS {
        let message =
            format!("the graph has {} operators; at most {MAX_OPERATORS} are run", graph.nodes.len());
        return Err(Refusal { at: None, rule: Rule::Level, message });
    }
    let mut builder = Builder::new(graph, caps);
    let mut rest = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        if matches!(node.op, Op::Identity | Op::Reshape) {
            builder.alias(node.outputs[0], node.inputs[0]);
        } else if !fold(&mut builder, node) {
            rest.push(index);
        }
    }
    for (index, work) in group(&mut builder, &rest)? {
        let node = &graph.nodes[index];
        builder.at = (node.position, node.op.name());
        match work {
            Work::Operator => lower_node(&mut builder, node, None)?,
            Work::Chain(chain) => chain.launch(&mut builder)?,
            Work::Product(product, chain) => {
                let node = &graph.nodes[product];
                builder.at = (node.position, node.op.name());
                let epilogue = chain.epilogue(&builder);
                lower_node(&mut builder, node, epilogue.as_ref())?;
            }
        }
    }
    finish(builder)
}

/// Lowers an operator; only those that [`crate::epilogue::start`] takes have an epilogue.
fn lower_node(builder: &mut Builder<'_>, node: &Node, epilogue: Option<&Epilogue>) -> Result<(), Refusal> {
    match &node.op {
        Op::Concat { axis } => movers::concat(builder, node, *axis),
        Op::Conv2d(attrs) if window::is_needed(builder, node) => window::conv2d(builder, node, attrs),
        Op::DepthwiseConv2d(attrs) if window::is_needed(builder, node) => {
            window::depthwise(builder, node, attrs)
        }
        Op::Conv3d(attrs) => window::conv3d(builder, node, attrs),
        Op::TransposeConv2d(attrs) => window::transposed(builder, node, attrs),
        Op::Conv2d(attrs) => conv::lower(builder, node, attrs, epilogue),
        Op::DepthwiseConv2d(attrs) => depthwise::lower(builder, node, attrs, epilogue),
        Op::AvgPool2d { pool, input_zp, output_zp, .. } => {
            pool::lower(builder, node, pool, &pool::Kind::Average([*input_zp, *output_zp]))
        }
        Op::MaxPool2d { pool, nan_mode } => pool::lower(builder, node, pool, &pool::Kind::Max(*nan_mode)),
        Op::Gather => gather::gather(builder, node),
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
        Op::MatMul { .. } if int48::is_matmul(builder, node) => int48::matmul(builder, node),
        Op::Rescale(attrs) => int48::rescale(builder, node, attrs),
        Op::MatMul { a_zp, b_zp } => matmul::lower(builder, node, [*a_zp, *b_zp], epilogue),
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
