//! Takes block-scaled data apart: what is left has values and scales in tensors of their own, which operators move as bytes,
//! since blocks are whole bytes and stay whole; products and casts have them decoded to FP32, which holds every element.

use std::collections::HashMap;

use accel_tosa::{Block, Constant, DType, Graph, Node, Op, Tensor, TensorId};

/// The graph without block-scaled tensors, each of which takes two slots, for values and then for scales; `None` where there
/// is nothing to take apart.
pub(crate) fn take_apart(graph: &Graph) -> Option<Graph> {
    let is_scaled = |tensor: &Tensor| tensor.dtype == DType::Fp8UE8M0 || tensor.dtype.values().is_some();
    if !graph.tensors.iter().any(is_scaled) {
        return None;
    }
    let mut apart = graph.clone();
    let scales = split(&mut apart.tensors);
    let both = |ids: &[TensorId]| {
        let parts = |&id: &TensorId| [Some(id), scales.get(&id).copied()].into_iter().flatten();
        ids.iter().flat_map(parts).collect()
    };
    (apart.inputs, apart.outputs) = (both(&graph.inputs), both(&graph.outputs));
    apart.nodes = rewrite(&mut apart.tensors, &scales, &graph.nodes);
    Some(apart)
}

/// Makes values of block-scaled tensors, and tensors of their scales beside them; gives those by the values.
fn split(tensors: &mut Vec<Tensor>) -> HashMap<TensorId, TensorId> {
    let mut scales = HashMap::new();
    for index in 0..tensors.len() {
        let next = TensorId(tensors.len() as u32);
        let tensor = &mut tensors[index];
        let (Some(values), Some(shape)) = (tensor.dtype.values(), tensor.scales_shape()) else { continue };
        tensor.dtype = values;
        let own = |constant: &Constant| Constant { range: constant.scales.clone(), scales: 0..0 };
        let constant = tensor.constant.as_ref().map(own);
        let name = format!("{}_scale", tensor.name);
        tensors.push(Tensor { name, dtype: DType::Fp8UE8M0, shape, constant });
        scales.insert(TensorId(index as u32), next);
    }
    scales
}

fn rewrite(tensors: &mut Vec<Tensor>, scales: &HashMap<TensorId, TensorId>, nodes: &[Node]) -> Vec<Node> {
    let mut block =
        Rewrite { tensors, scales, nodes: Vec::with_capacity(nodes.len()), decoded: HashMap::new() };
    for node in nodes {
        block.node(node);
    }
    block.nodes
}

/// A block being rewritten.
struct Rewrite<'a> {
    tensors: &'a mut Vec<Tensor>,
    /// The scales of what was a block-scaled tensor, by its values.
    scales: &'a HashMap<TensorId, TensorId>,
    nodes: Vec<Node>,
    /// Values that were decoded already, and the results.
    decoded: HashMap<TensorId, TensorId>,
}

impl Rewrite<'_> {
    fn node(&mut self, node: &Node) {
        let (inputs, outputs) = (node.inputs.as_slice(), node.outputs.as_slice());
        let scales = |list: &[TensorId]| list.first().and_then(|id| self.scales.get(id)).copied();
        match (&node.op, scales(inputs), scales(outputs)) {
            (Op::CondIf { .. } | Op::WhileLoop { .. }, ..) => self.control(node),
            (Op::CastFromBlockScaled, ..) => self.decode_to(node, inputs[0], inputs[1], outputs[0]),
            (Op::CastToBlockScaled, ..) => self.encode(node, inputs[0], outputs[0], outputs[1]),
            (Op::Cast, Some(scales), _) => self.decode_to(node, inputs[0], scales, outputs[0]),
            (Op::Cast, _, Some(scales)) => self.encode(node, inputs[0], outputs[0], scales),
            (Op::MatMulTBlockScaled, ..) => {
                let (a, b) =
                    (self.decoded(node, inputs[0], inputs[1]), self.decoded(node, inputs[2], inputs[3]));
                self.push(node, Op::MatMulT { a_zp: 0, b_zp: 0 }, vec![a, b], outputs[0]);
            }
            (Op::Conv2dBlockScaled(attrs), ..) => {
                let (input, weight) =
                    (self.decoded(node, inputs[0], inputs[1]), self.decoded(node, inputs[2], inputs[3]));
                self.push(node, Op::Conv2d(*attrs), vec![input, weight, inputs[4]], outputs[0]);
            }
            (Op::ReshapeBlockScaled, ..) => {
                self.push(node, Op::Reshape, vec![inputs[0]], outputs[0]);
                self.push(node, Op::Reshape, vec![inputs[1]], outputs[1]);
            }
            (Op::RowGatherBlockScaled { run }, ..) => {
                for part in [0, 1] {
                    self.moved(
                        node,
                        Op::RowGather { run: *run },
                        vec![inputs[part], inputs[2]],
                        outputs[part],
                    );
                }
            }
            (Op::MatMulT { .. } | Op::Conv2d(_), ..) => {
                let mut operands = inputs.to_vec();
                for id in &mut operands {
                    if let Some(&scales) = self.scales.get(id) {
                        *id = self.decoded(node, *id, scales);
                    }
                }
                self.push(node, node.op.clone(), operands, outputs[0]);
            }
            // What is left of those that take block-scaled tensors moves blocks.
            (op, _, Some(scales)) => {
                self.moved(node, op.clone(), inputs.to_vec(), outputs[0]);
                let parts = inputs.iter().map(|id| self.scales.get(id).copied().unwrap_or(*id)).collect();
                self.moved(node, op.clone(), parts, scales);
            }
            _ => self.nodes.push(node.clone()),
        }
    }

    fn control(&mut self, node: &Node) {
        let mut node = node.clone();
        let mut inside = |graph: &mut Block| {
            graph.nodes = rewrite(self.tensors, self.scales, &graph.nodes);
        };
        if let Op::CondIf { then_graph: first, else_graph: second }
        | Op::WhileLoop { cond_graph: first, body_graph: second } = &mut node.op
        {
            inside(first);
            inside(second);
        }
        self.nodes.push(node);
    }

    fn push(&mut self, node: &Node, op: Op, inputs: Vec<TensorId>, output: TensorId) {
        self.nodes.push(Node { position: node.position, op, inputs, outputs: vec![output] });
    }

    fn tensor(&mut self, like: TensorId, dtype: DType) -> TensorId {
        let tensor = Tensor { dtype, constant: None, ..self.tensors[like.0 as usize].clone() };
        self.tensors.push(tensor);
        TensorId(self.tensors.len() as u32 - 1)
    }

    fn is_fp32(&self, id: TensorId) -> bool {
        self.tensors[id.0 as usize].dtype == DType::Fp32
    }

    /// Values times scales in FP32.
    fn decoded(&mut self, node: &Node, values: TensorId, scales: TensorId) -> TensorId {
        if let Some(&known) = self.decoded.get(&values) {
            return known;
        }
        let decoded = self.tensor(values, DType::Fp32);
        self.push(node, Op::CastFromBlockScaled, vec![values, scales], decoded);
        self.decoded.insert(values, decoded);
        decoded
    }

    /// Values times scales, rounded once where `output` is narrower than FP32.
    fn decode_to(&mut self, node: &Node, values: TensorId, scales: TensorId, output: TensorId) {
        if self.is_fp32(output) {
            return self.push(node, Op::CastFromBlockScaled, vec![values, scales], output);
        }
        let decoded = self.decoded(node, values, scales);
        self.push(node, Op::Cast, vec![decoded], output);
    }

    fn encode(&mut self, node: &Node, input: TensorId, values: TensorId, scales: TensorId) {
        let mut from = input;
        if !self.is_fp32(input) {
            from = self.tensor(input, DType::Fp32);
            self.push(node, Op::Cast, vec![input], from);
        }
        let op = Op::CastToBlockScaled;
        let outputs = vec![values, scales];
        self.nodes.push(Node { position: node.position, op, inputs: vec![from], outputs });
    }

    /// An operator that moves blocks, on the bytes of those operands that have the type of its result.
    fn moved(&mut self, node: &Node, op: Op, inputs: Vec<TensorId>, output: TensorId) {
        let dtype = self.tensors[output.0 as usize].dtype;
        let mut views = Vec::with_capacity(inputs.len());
        for id in inputs {
            if self.tensors[id.0 as usize].dtype != dtype {
                views.push(id);
                continue;
            }
            let view = self.bytes_of(id);
            self.push(node, Op::Identity, vec![id], view);
            views.push(view);
        }
        let view = self.bytes_of(output);
        self.push(node, op, views, view);
        self.push(node, Op::Identity, vec![view], output);
    }

    /// A tensor of the same bytes, in the same dimensions.
    fn bytes_of(&mut self, id: TensorId) -> TensorId {
        let bits = self.tensors[id.0 as usize].dtype.bits() as u64;
        let view = self.tensor(id, DType::Int8);
        if let Some(last) = self.tensors[view.0 as usize].shape.last_mut() {
            *last = (u64::from(*last) * bits / 8) as u32;
        }
        view
    }
}
