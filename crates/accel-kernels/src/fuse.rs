//! Joins pointwise operators that follow one another, or a product, into chains, each of which is one launch.

use std::collections::{HashMap, HashSet};

use accel_tosa::{Node, Op, Refusal, RescaleAttrs, TensorId};

use crate::builder::Builder;
use crate::chain::Chain;
use crate::epilogue;
use crate::lower::{int48, pointwise, wide};
use crate::row;
use crate::row_program::Program;

/// What is lowered together.
pub(crate) enum Work {
    /// An operator that its family lowers.
    Operator,
    /// Pointwise operators.
    Chain(Chain),
    /// Reductions of rows and the pointwise operators around them.
    Rows(Program),
    /// The operator at this place in the list, and the pointwise ones that run in its store.
    Product(usize, Chain),
}

/// Groups the operators of a block, whose outputs these are. The result is in an order in which all operands are
/// computed before use; each group stands at the index of its last operator.
///
/// # Errors
/// An unsupported-refusal for types that no pointwise kernel reads.
pub(crate) fn group(
    builder: &mut Builder<'_>,
    nodes: &[&Node],
    outputs: &[TensorId],
) -> Result<Vec<(usize, Work)>, Refusal> {
    let uses = uses(builder, nodes, outputs);
    let single = |id: TensorId| uses.get(&id) == Some(&1) && !outputs.contains(&id);
    let (programs, taken) = row::group(builder, nodes, outputs)?;
    let mut works: Vec<(usize, Work)> =
        programs.into_iter().map(|(index, program)| (index, Work::Rows(program))).collect();
    // Chains by the tensor that they compute, where it has no other use than the next operator.
    let mut open: HashMap<TensorId, usize> = HashMap::new();
    for (index, &node) in nodes.iter().enumerate().filter(|(index, _)| !taken.contains(index)) {
        builder.at = (node.position, node.op.name());
        if !pointwise::is_pointwise(&node.op)
            || int48::is_rescale(builder, node)
            || wide::is_needed(builder, node)
        {
            let Some(chain) = epilogue::start(builder, node) else {
                works.push((index, Work::Operator));
                continue;
            };
            works.push((index, Work::Product(index, chain)));
            if single(node.outputs[0]) {
                open.insert(node.outputs[0], works.len() - 1);
            }
            continue;
        }
        let at = match joined(builder, node, &works, &open)? {
            Some((at, input, chain)) => {
                open.remove(&input);
                let work = match works[at].1 {
                    Work::Product(product, _) => Work::Product(product, chain),
                    _ => Work::Chain(chain),
                };
                works[at] = (index, work);
                at
            }
            None => {
                let mut chain = pointwise::start(builder, node)?;
                pointwise::append(builder, &mut chain, node)?;
                works.push((index, Work::Chain(chain)));
                works.len() - 1
            }
        };
        if single(node.outputs[0]) {
            open.insert(node.outputs[0], at);
        }
    }
    works.sort_by_key(|&(index, _)| index);
    Ok(works)
}

/// The open chain that computes an operand of `node`, that operand, and the chain with `node` appended, if the kernel
/// can run that.
fn joined(
    builder: &Builder<'_>,
    node: &Node,
    works: &[(usize, Work)],
    open: &HashMap<TensorId, usize>,
) -> Result<Option<(usize, TensorId, Chain)>, Refusal> {
    let shape = |id: TensorId| &builder.graph.tensor(id).shape;
    // An unsigned operand differs from what the chain holds.
    if matches!(node.op, Op::Rescale(RescaleAttrs { input_unsigned: true, .. })) {
        return Ok(None);
    }
    // The stages of these take a chain for their first operand alone.
    let joinable = match node.op {
        Op::Table | Op::Rescale(_) => &node.inputs[..1],
        _ => &node.inputs[..],
    };
    for &input in joinable {
        let Some(&at) = open.get(&input) else { continue };
        let (Work::Chain(chain) | Work::Product(_, chain)) = &works[at].1 else { continue };
        if !chain.is_open() || shape(input) != shape(node.outputs[0]) {
            continue;
        }
        // The same bytes under another name would have to be in memory.
        if node.inputs.iter().any(|&id| id != input && builder.root(id) == input) {
            continue;
        }
        let mut chain = chain.clone();
        pointwise::append(builder, &mut chain, node)?;
        if chain.fits(builder) {
            return Ok(Some((at, input, chain)));
        }
    }
    Ok(None)
}

/// In how many operators each tensor's bytes are used.
fn uses(builder: &Builder<'_>, nodes: &[&Node], outputs: &[TensorId]) -> HashMap<TensorId, u32> {
    let mut uses = HashMap::new();
    for node in nodes {
        let roots: HashSet<TensorId> = node.inputs.iter().map(|&id| builder.root(id)).collect();
        for root in roots {
            *uses.entry(root).or_insert(0) += 1;
        }
    }
    for &output in outputs {
        *uses.entry(builder.root(output)).or_insert(0) += 1;
    }
    uses
}
