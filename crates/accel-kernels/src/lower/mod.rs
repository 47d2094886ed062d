//! Walks a graph in order and asks the kernel family of each operator for its launches.

use accel_tosa::{Graph, Node, Op, Refusal, Rule};

use crate::builder::Builder;
use crate::finish::finish;
use crate::{DeviceCaps, Plan};

/// Most operators in a program: arena packing is quadratic in it, and a guest chooses it.
const MAX_OPERATORS: usize = 16_384;

/// Lowers `graph` for a device.
///
/// # Errors
/// A refusal of kind [`Rule::Unsupported`] that names the operator when no kernel covers it.
pub fn lower(graph: &Graph, caps: &DeviceCaps) -> Result<Plan, Refusal> {
    if graph.nodes.len() > MAX_OPERATORS {
        let message = format!("the graph has {} operators; at most {MAX_OPERATORS} are run", graph.nodes.len());
        return Err(Refusal { at: None, rule: Rule::Level, message });
    }
    let mut builder = Builder::new(graph, caps);
    for node in &graph.nodes {
        builder.at = (node.position, node.op.name());
        lower_node(&mut builder, node)?;
    }
    finish(builder)
}

fn lower_node(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    match &node.op {
        Op::Identity | Op::Reshape => {
            builder.alias(node.outputs[0], node.inputs[0]);
            Ok(())
        }
        _ => Err(builder.unsupported("no kernel for this operator yet")),
    }
}
