//! Rewrites products of floating-point types that no kernel multiplies as they are: their operands are cast to FP32, which
//! holds every value of the narrower types, and the sums to the type of the result, which rounds them once.

use std::collections::HashMap;

use accel_tosa::{Block, DType, Graph, Node, Op, Tensor, TensorId};

use crate::lower::{conv, matmul};

/// The graph with casts where they are needed; `None` where nothing changes.
pub(crate) fn widen(graph: &Graph) -> Option<Graph> {
    if !any_needs_casts(&graph.tensors, &graph.nodes) {
        return None;
    }
    let mut widened = graph.clone();
    widened.nodes = rewrite(&mut widened.tensors, &graph.nodes);
    Some(widened)
}

fn any_needs_casts(tensors: &[Tensor], nodes: &[Node]) -> bool {
    nodes.iter().any(|node| {
        needs_casts(tensors, node)
            || inner(&node.op).iter().flatten().any(|block| any_needs_casts(tensors, &block.nodes))
    })
}

/// The graphs inside an operator.
fn inner(op: &Op) -> [Option<&Block>; 2] {
    match op {
        Op::CondIf { then_graph: first, else_graph: second }
        | Op::WhileLoop { cond_graph: first, body_graph: second } => [Some(first), Some(second)],
        _ => [None, None],
    }
}

/// Whether the operator multiplies types that its kernels do not.
fn needs_casts(tensors: &[Tensor], node: &Node) -> bool {
    let dtype = |id: TensorId| tensors[id.0 as usize].dtype;
    let (&[a, b, ..], &[output, ..]) = (node.inputs.as_slice(), node.outputs.as_slice()) else {
        return false;
    };
    let (a, b, output) = (dtype(a), dtype(b), dtype(output));
    let native = match node.op {
        Op::MatMul { .. } => matmul::types(a, b, output),
        Op::MatMulT { .. } => matmul::transposed_types(a, b, output),
        Op::Conv2d(_) => conv::types(a, b, output),
        _ => return false,
    };
    a.is_float() && native.is_none()
}

/// The operators of a block with casts around those that need them.
fn rewrite(tensors: &mut Vec<Tensor>, nodes: &[Node]) -> Vec<Node> {
    let mut block = Rewrite { tensors, nodes: Vec::with_capacity(nodes.len()), wide: HashMap::new() };
    for node in nodes {
        if needs_casts(block.tensors, node) {
            block.product(node);
            continue;
        }
        let mut node = node.clone();
        if let Op::CondIf { then_graph: first, else_graph: second }
        | Op::WhileLoop { cond_graph: first, body_graph: second } = &mut node.op
        {
            first.nodes = rewrite(block.tensors, &first.nodes);
            second.nodes = rewrite(block.tensors, &second.nodes);
        }
        block.nodes.push(node);
    }
    block.nodes
}

/// A block being rewritten.
struct Rewrite<'a> {
    tensors: &'a mut Vec<Tensor>,
    nodes: Vec<Node>,
    /// Tensors that were cast already, and what to.
    wide: HashMap<TensorId, TensorId>,
}

impl Rewrite<'_> {
    fn product(&mut self, node: &Node) {
        let inputs = node.inputs.iter().map(|&input| self.widened(node, input)).collect();
        let output = node.outputs[0];
        let sums = if self.is_wide(output) { output } else { self.wide_like(output) };
        self.nodes.push(Node { inputs, outputs: vec![sums], ..node.clone() });
        if sums != output {
            self.cast(node, sums, output);
        }
    }

    fn is_wide(&self, id: TensorId) -> bool {
        self.tensors[id.0 as usize].dtype == DType::Fp32
    }

    /// The operand in FP32.
    fn widened(&mut self, node: &Node, id: TensorId) -> TensorId {
        if self.is_wide(id) {
            return id;
        }
        if let Some(&known) = self.wide.get(&id) {
            return known;
        }
        let to = self.wide_like(id);
        self.cast(node, id, to);
        self.wide.insert(id, to);
        to
    }

    fn wide_like(&mut self, id: TensorId) -> TensorId {
        let tensor = Tensor { dtype: DType::Fp32, constant: None, ..self.tensors[id.0 as usize].clone() };
        self.tensors.push(tensor);
        TensorId(self.tensors.len() as u32 - 1)
    }

    fn cast(&mut self, node: &Node, from: TensorId, to: TensorId) {
        self.nodes.push(Node {
            position: node.position,
            op: Op::Cast,
            inputs: vec![from],
            outputs: vec![to],
        });
    }
}
