//! Weights in FP8 that a graph casts to the type of the activations before a MATMUL: kernels that decode while they load read half
//! the bytes or less, and the values are the same, since every one of FP8 is one of the wider type.

use std::collections::{HashMap, HashSet};

use accel_tosa::{DType, Node, Op, TensorId};

use crate::builder::Builder;
use crate::lower::matmul;

/// Takes the CASTs out of `nodes`, the operators of a block with these outputs, that every consumer can do without; the builder
/// knows what was cast.
pub(crate) fn defer(builder: &mut Builder<'_>, nodes: &mut Vec<&Node>, outputs: &[TensorId]) {
    let mut casts: HashMap<TensorId, TensorId> = HashMap::new();
    for node in nodes.iter() {
        let from = node.inputs.first().map(|&id| builder.graph.tensor(id).dtype);
        if matches!(node.op, Op::Cast) && matches!(from, Some(DType::Fp8E4M3 | DType::Fp8E5M2)) {
            casts.insert(node.outputs[0], node.inputs[0]);
        }
    }
    if casts.is_empty() {
        return;
    }
    let mut needed: HashSet<TensorId> = outputs.iter().map(|&id| builder.root(id)).collect();
    for node in nodes.iter() {
        for (place, &id) in node.inputs.iter().enumerate() {
            let decoded =
                casts.get(&id).is_some_and(|&source| place == 1 && matmul::decodes(builder, node, source));
            if !decoded {
                needed.insert(builder.root(id));
            }
        }
    }
    casts.retain(|result, _| !needed.contains(result));
    nodes.retain(|node| node.outputs.first().is_none_or(|id| !casts.contains_key(id)));
    builder.encoded.extend(casts);
}
