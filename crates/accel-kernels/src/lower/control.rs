//! COND_IF and WHILE_LOOP: segments of the plan, between which the host decides.
//!
//! The graphs work on the operator's own operands and results: values are copied only where one place gets them from
//! several graphs.

use std::collections::HashSet;

use accel_tosa::{Block, Node, Op, Refusal, Rule, TensorId};

use crate::Next;
use crate::builder::{Builder, Value};
use crate::finish::bytes_of;
use crate::lower::lower_block;
use crate::lower::movers::copy;

/// Most operators with graphs in a program: each makes up to three segments, and a segment is a recording for every
/// set of bindings.
const MAX_DECISIONS: u32 = 1024;

/// The graph of a COND_IF whose condition is known while lowering.
pub(crate) fn known_branch<'a>(builder: &Builder<'a>, node: &'a Node) -> Option<&'a Block> {
    let Op::CondIf { then_graph, else_graph } = &node.op else { return None };
    let condition = builder.constant(node.inputs[0])?;
    Some(if condition.first() == Some(&0) { else_graph } else { then_graph })
}

/// Declares each of `ids` to be the same bytes as its counterpart.
pub(crate) fn alias_all(builder: &mut Builder<'_>, ids: &[TensorId], sources: &[TensorId]) {
    for (&id, &source) in ids.iter().zip(sources) {
        builder.alias(id, source);
    }
}

/// The results of a WHILE_LOOP that its body hands on as they are, are its operands: weights stay constants.
pub(crate) fn alias_unchanged(builder: &mut Builder<'_>, node: &Node) {
    if let Op::WhileLoop { body_graph, .. } = &node.op {
        for at in (0..node.outputs.len()).filter(|&at| !changes(body_graph, at)) {
            builder.alias(node.outputs[at], node.inputs[at]);
        }
    }
}

fn changes(body_graph: &Block, at: usize) -> bool {
    body_graph.inputs[at] != body_graph.outputs[at]
}

/// Both graphs make the operator's results; the host submits one of them.
pub(crate) fn cond_if<'a>(
    builder: &mut Builder<'a>,
    node: &'a Node,
    graphs: [&'a Block; 2],
) -> Result<(), Refusal> {
    let at = builder.at;
    let decision = decide(builder)?;
    let condition = builder.tensor(node.inputs[0]);
    copy(builder, Value::Decision(decision), condition)?;
    let fork = builder.flow.end(builder.steps.len());
    let mut firsts = [0; 2];
    let mut lasts = [0; 2];
    for (branch, graph) in graphs.into_iter().enumerate() {
        firsts[branch] = builder.flow.current();
        alias_all(builder, &graph.inputs, &node.inputs[1..]);
        lower_block(builder, &graph.nodes, &graph.outputs)?;
        builder.at = at;
        let made = made(builder, graph);
        for (&result, &output) in node.outputs.iter().zip(&graph.outputs) {
            hand_over(builder, &made, output, Value::Tensor(result))?;
        }
        lasts[branch] = builder.flow.end(builder.steps.len());
    }
    let after = builder.flow.current();
    let [on_true, on_false] = firsts;
    builder.flow.follow(fork, Next::Decide { decision, on_true, on_false });
    lasts.into_iter().for_each(|last| builder.flow.follow(last, Next::Segment(after)));
    Ok(())
}

/// The results are the places in which values go round: the operands are copied into them, both graphs read them,
/// and the body's outputs are copied into them at the end of a round.
pub(crate) fn while_loop<'a>(
    builder: &mut Builder<'a>,
    node: &'a Node,
    cond_graph: &'a Block,
    body_graph: &'a Block,
) -> Result<(), Refusal> {
    let at = builder.at;
    let decision = decide(builder)?;
    let changing: Vec<usize> = (0..node.outputs.len()).filter(|&at| changes(body_graph, at)).collect();
    for &at in &changing {
        let operand = builder.tensor(node.inputs[at]);
        copy(builder, Value::Tensor(node.outputs[at]), operand)?;
    }
    let before = builder.flow.end(builder.steps.len());
    let (test, first) = (builder.flow.current(), builder.steps.len());
    alias_all(builder, &cond_graph.inputs, &node.outputs);
    lower_block(builder, &cond_graph.nodes, &cond_graph.outputs)?;
    builder.at = at;
    let made = made(builder, cond_graph);
    hand_over(builder, &made, cond_graph.outputs[0], Value::Decision(decision))?;
    let fork = builder.flow.end(builder.steps.len());

    let body = builder.flow.current();
    alias_all(builder, &body_graph.inputs, &node.outputs);
    lower_block(builder, &body_graph.nodes, &body_graph.outputs)?;
    builder.at = at;
    go_round(builder, node, body_graph, &changing)?;
    let last = builder.flow.end(builder.steps.len());
    builder.flow.repeat(first..builder.steps.len());
    let after = builder.flow.current();
    builder.flow.follow(before, Next::Segment(test));
    builder.flow.follow(fork, Next::Decide { decision, on_true: body, on_false: after });
    builder.flow.follow(last, Next::Segment(test));
    Ok(())
}

/// Copies the outputs of a loop's body to where the next round reads them. Those that lie in such a place themselves
/// (a body that swaps two values) are put aside before any of the places is written.
fn go_round(
    builder: &mut Builder<'_>,
    node: &Node,
    body_graph: &Block,
    changing: &[usize],
) -> Result<(), Refusal> {
    let places: HashSet<Value> = changing.iter().map(|&at| Value::Tensor(node.outputs[at])).collect();
    let mut moves = Vec::with_capacity(changing.len());
    for &at in changing {
        let place = Value::Tensor(node.outputs[at]);
        let mut value = builder.tensor(body_graph.outputs[at]);
        if value == place {
            continue;
        }
        if places.contains(&value) {
            let bytes = bytes_of(builder, value);
            let aside = builder.scratch(bytes);
            copy(builder, aside, value)?;
            value = aside;
        }
        moves.push((place, value));
    }
    moves.into_iter().try_for_each(|(place, value)| copy(builder, place, value))
}

fn decide(builder: &mut Builder<'_>) -> Result<u32, Refusal> {
    let decision = builder.flow.decide();
    if decision < MAX_DECISIONS {
        return Ok(decision);
    }
    let message =
        format!("the graph has more than {MAX_DECISIONS} of COND_IF and WHILE_LOOP, which are not run");
    Err(Refusal { at: Some(builder.at), rule: Rule::Level, message })
}

/// The tensors that operators of the graph make, whatever they are called.
fn made(builder: &Builder<'_>, graph: &Block) -> HashSet<TensorId> {
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    outputs.copied().filter(|&id| builder.root(id) == id && builder.constant(id).is_none()).collect()
}

/// Puts an output of a graph where the operator has it: what the graph makes itself is made there at once.
fn hand_over(
    builder: &mut Builder<'_>,
    made: &HashSet<TensorId>,
    output: TensorId,
    to: Value,
) -> Result<(), Refusal> {
    let root = builder.root(output);
    if made.contains(&root) && builder.flow.settle(root, to) {
        return Ok(());
    }
    let value = builder.tensor(output);
    copy(builder, to, value)
}
