//! Joins pointwise operators around reductions of the innermost axis, as softmax and normalisations consist of, into one launch
//! that reads and writes each row once (`shaders/reduce/rowwise.comp`). Results between the operators stay in FP32 registers,
//! which are of the same precision as the operators' own results or a higher one.

use std::collections::{BTreeSet, HashMap, HashSet};

use accel_tosa::{Node, Op, Refusal, TensorId};

use crate::builder::Builder;
use crate::lower::pointwise;
use crate::row_program::{Program, compile};
use crate::stage::Element;

/// Operators that are looked at around a reduction.
const MOST_OPERATORS: usize = 24;

/// Rows that a group works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub count: u64,
    pub axis: u32,
}

/// How a tensor lies to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All elements of all rows.
    Full,
    /// One element a row.
    Number,
    /// One element a column, the same in all rows.
    Column,
}

impl Rows {
    /// The rows that a reduction of the innermost axis combines; `None` for other operators.
    fn of(builder: &Builder<'_>, node: &Node) -> Option<Self> {
        let Op::Reduce { axis, .. } = node.op else { return None };
        let tensor = builder.graph.tensor(node.inputs[0]);
        Element::of(tensor.dtype)?;
        let innermost = axis as usize + 1 == tensor.shape.len();
        let extent = *tensor.shape.last()?;
        (innermost && extent > 1).then(|| Self { count: tensor.elements() / u64::from(extent), axis: extent })
    }

    /// `None` for tensors of another shape.
    pub fn extent(self, shape: &[u32]) -> Option<Extent> {
        let last = *shape.last()?;
        let elements: u64 = shape.iter().map(|&d| u64::from(d)).product();
        match (elements, last) {
            (n, l) if l == self.axis && n == self.count * u64::from(self.axis) => Some(Extent::Full),
            (n, 1) if n == self.count => Some(Extent::Number),
            (n, l) if l == self.axis && n == u64::from(l) => Some(Extent::Column),
            _ => None,
        }
    }

    /// Whether the kernel may be able to run the operator.
    fn takes(self, builder: &Builder<'_>, node: &Node) -> bool {
        let extent = |id: TensorId| self.extent(&builder.graph.tensor(id).shape);
        match &node.op {
            Op::Reduce { .. } => Self::of(builder, node) == Some(self),
            Op::Table | Op::Rescale(_) => false,
            op => {
                let chains_hold = |&id: &TensorId| Element::of(builder.graph.tensor(id).dtype).is_some();
                pointwise::is_pointwise(op)
                    && node.inputs.iter().chain(&node.outputs).all(chains_hold)
                    && matches!(extent(node.outputs[0]), Some(Extent::Full | Extent::Number))
                    && node.inputs.iter().all(|&id| {
                        extent(id).is_some()
                            || builder.constant(id).is_some() && builder.graph.tensor(id).elements() == 1
                    })
            }
        }
    }
}

/// The groups of a block: each with the place of its last operator, and the places of all operators that are in one.
pub(crate) type Groups = (Vec<(usize, Program)>, HashSet<usize>);

/// The groups among the operators of a block, whose outputs these are.
///
/// # Errors
/// An unsupported-refusal for types that no pointwise kernel reads.
pub(crate) fn group(
    builder: &mut Builder<'_>,
    nodes: &[&Node],
    outputs: &[TensorId],
) -> Result<Groups, Refusal> {
    let links = Links::new(builder, nodes, outputs);
    let mut taken = HashSet::new();
    let mut groups = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let Some(rows) = Rows::of(builder, node) else { continue };
        if taken.contains(&index) {
            continue;
        }
        let members = grow(builder, &links, &taken, rows, index);
        builder.at = (node.position, node.op.name());
        // What follows may have several results; then fewer operators are joined.
        for length in (2..=members.len()).rev() {
            let members = &members[..length];
            let Some(result) = links.only_result(members) else { continue };
            let operators: Vec<&Node> = members.iter().map(|&member| nodes[member]).collect();
            if let Some(program) = compile(builder, rows, &operators, result)? {
                taken.extend(members);
                groups.push((members[length - 1], program));
                break;
            }
        }
    }
    Ok((groups, taken))
}

/// Who makes and who uses the bytes of a tensor.
struct Links<'a> {
    nodes: &'a [&'a Node],
    consumers: HashMap<TensorId, Vec<usize>>,
    producers: HashMap<TensorId, usize>,
    /// Owners of the bytes of the block's outputs.
    outputs: HashSet<TensorId>,
}

impl<'a> Links<'a> {
    fn new(builder: &Builder<'_>, nodes: &'a [&'a Node], outputs: &[TensorId]) -> Self {
        let (mut consumers, mut producers) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
        for (index, node) in nodes.iter().enumerate() {
            for &id in &node.inputs {
                consumers.entry(builder.root(id)).or_default().push(index);
            }
            producers.extend(node.outputs.iter().map(|&id| (id, index)));
        }
        Self { nodes, consumers, producers, outputs: outputs.iter().map(|&id| builder.root(id)).collect() }
    }

    fn consumers(&self, id: TensorId) -> &[usize] {
        self.consumers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Whether nobody but `members` uses the tensor.
    fn is_inner(&self, id: TensorId, inside: impl Fn(&usize) -> bool) -> bool {
        !self.outputs.contains(&id) && self.consumers(id).iter().all(inside)
    }

    /// The tensor of `members` that others use, where it is only one.
    fn only_result(&self, members: &[usize]) -> Option<TensorId> {
        let made = members.iter().map(|&index| self.nodes[index].outputs[0]);
        let mut results = made.filter(|&id| !self.is_inner(id, |consumer| members.contains(consumer)));
        let result = results.next()?;
        results.next().is_none().then_some(result)
    }
}

/// A reduction and the operators around it, ascending: those that follow from it, then those that only they use.
fn grow(
    builder: &Builder<'_>,
    links: &Links<'_>,
    taken: &HashSet<usize>,
    rows: Rows,
    start: usize,
) -> Vec<usize> {
    let free = |index: &usize| !taken.contains(index) && rows.takes(builder, links.nodes[*index]);
    let mut members = BTreeSet::from([start]);
    let mut next = BTreeSet::from([start]);
    while let Some(index) = next.pop_first()
        && members.len() < MOST_OPERATORS
    {
        members.insert(index);
        next.extend(links.consumers(links.nodes[index].outputs[0]).iter().copied().filter(free));
    }
    let mut next: Vec<usize> = members.iter().copied().collect();
    while let Some(index) = next.pop()
        && members.len() < MOST_OPERATORS
    {
        for &id in &links.nodes[index].inputs {
            let root = builder.root(id);
            let Some(&producer) = links.producers.get(&root) else { continue };
            let inner = links.is_inner(root, |consumer| members.contains(consumer));
            if inner && free(&producer) && members.insert(producer) {
                next.push(producer);
            }
        }
    }
    members.into_iter().collect()
}
