//! COND_IF and WHILE_LOOP: operators that hold graphs.

use crate::block::Reader;
use crate::flat::List;
use crate::operators::OperatorInfo;
use crate::read::only_block;
use crate::schema::{GraphsAttribute, TosaBasicBlock, TosaOperator};
use crate::site::{Inferred, Open, Result, UNKNOWN, Value, show};
use crate::{Block, DType, Node, Op, Refusal, Rule, Tensor, TensorId, level};

/// A region that several operators name is read for each of them. This bounds what is read again, in bytes, about:
/// regions that name one another twice would otherwise let a small file ask for endless work.
const MAX_REPEATED: usize = 16 << 20;

/// Tensors, and what they are, for messages.
type Named<'a> = (&'a str, &'a [TensorId]);

impl<'a> Reader<'a> {
    /// Reads the operator with its graphs.
    pub(crate) fn control(
        &mut self,
        info: &'static OperatorInfo,
        position: u32,
        operator: TosaOperator<'a>,
    ) -> Result<()> {
        let fail = |rule, message| Refusal { at: Some((position, info.name)), rule, message };
        if self.open.len() > level::MAX_NESTING {
            let depth = self.open.len();
            let limit = level::MAX_NESTING;
            let message = format!("it is nested {depth} deep, above the {limit} of MAX_NESTING in level 8K.");
            return Err(fail(Rule::Level, message));
        }
        let attribute: GraphsAttribute<'a> = operator
            .attribute()
            .ok_or_else(|| fail(Rule::Malformed, "its attribute table is missing.".to_owned()))?;
        let inputs = self.tensors(operator.inputs().unwrap_or_default(), &fail)?;
        let outputs = self.results(info, operator.outputs().unwrap_or_default(), &fail)?;
        for id in inputs.iter().chain(&outputs) {
            self.no_blocks(*id, &fail)?;
        }
        let names = [attribute.first(), attribute.second()].map(Option::unwrap_or_default);
        let [first, second] = names;
        let op = if info.name == "COND_IF" {
            let Some((condition, operands)) = inputs.split_first() else {
                return Err(fail(Rule::ErrorIf, "it has no condition.".to_owned()));
            };
            self.is_condition("its condition", *condition, &fail)?;
            let (operands, results) = (("its operands", operands), ("its outputs", outputs.as_slice()));
            let first = self.graph("its then graph", first, operands, Some(results), &fail)?;
            let second = self.graph("its else graph", second, operands, Some(results), &fail)?;
            Op::CondIf { then_graph: Box::new(first), else_graph: Box::new(second) }
        } else {
            let operands = ("its operands", inputs.as_slice());
            self.alike(operands, ("its outputs", &outputs), &fail)?;
            let first = self.graph("its condition graph", first, operands, None, &fail)?;
            let second = self.graph("its body graph", second, operands, Some(operands), &fail)?;
            let [condition] = *first.outputs else {
                let count = first.outputs.len();
                let message = format!("its condition graph has {count} outputs where 1 is needed.");
                return Err(fail(Rule::ErrorIf, message));
            };
            self.is_condition("the output of its condition graph", condition, &fail)?;
            Op::WhileLoop { cond_graph: Box::new(first), body_graph: Box::new(second) }
        };
        self.nodes.push(Node { position, op, inputs, outputs });
        Ok(())
    }

    /// Block-scaled data stays in its graph: no official test takes it into another.
    fn no_blocks(&self, id: TensorId, fail: &impl Fn(Rule, String) -> Refusal) -> Result<()> {
        let Tensor { name, dtype, .. } = self.values.tensor(id);
        if !dtype.is_of_blocks() {
            return Ok(());
        }
        let message =
            format!("it hands on {name:?} of type {dtype}, which only operators on block-scaled data take.");
        Err(fail(Rule::Unsupported, message))
    }

    /// The operands, which must be tensors.
    fn tensors(
        &self,
        names: List<'a, &'a str>,
        fail: &impl Fn(Rule, String) -> Refusal,
    ) -> Result<Vec<TensorId>> {
        // The condition of a COND_IF is none of its list.
        short_enough("operands", names.len().saturating_sub(1), fail)?;
        let tensor = |name| match self.operand(name, fail)? {
            Value::Tensor(id) => Ok(id),
            Value::Shape(_) => {
                Err(fail(Rule::ErrorIf, format!("its operand {name:?} is a shape where a tensor is needed.")))
            }
        };
        names.iter().map(tensor).collect()
    }

    fn results(
        &mut self,
        info: &OperatorInfo,
        names: List<'a, &'a str>,
        fail: &impl Fn(Rule, String) -> Refusal,
    ) -> Result<Vec<TensorId>> {
        short_enough("outputs", names.len(), fail)?;
        let mut results = Vec::with_capacity(names.len());
        for name in names.iter() {
            // An operator other than CONST_SHAPE defines tensors only.
            if let Value::Tensor(id) = self.define(info, name, fail)? {
                results.push(id);
            }
        }
        Ok(results)
    }

    /// Reads the region with this name as a block of the operator, whose inputs must be like `given`, and outputs like
    /// `wanted`.
    fn graph(
        &mut self,
        which: &str,
        name: &'a str,
        given: Named<'_>,
        wanted: Option<Named<'_>>,
        fail: &impl Fn(Rule, String) -> Refusal,
    ) -> Result<Block> {
        if self.open.contains(&name) {
            return Err(fail(
                Rule::Malformed,
                format!("its graph {name:?} is one that it stands in; no graph can hold itself."),
            ));
        }
        let region = match self.regions.get(name) {
            Some(Some(region)) => *region,
            Some(None) => {
                return Err(fail(
                    Rule::Malformed,
                    format!("the file has two regions with the name {name:?}."),
                ));
            }
            None => {
                return Err(fail(Rule::Malformed, format!("the file has no region {name:?} for its graph.")));
            }
        };
        let block = only_block(region).map_err(|refusal| fail(refusal.rule, refusal.message))?;
        if !self.known.insert(name) {
            self.repeated += size(block);
            if self.repeated > MAX_REPEATED {
                return Err(fail(
                    Rule::Unsupported,
                    "the file names its regions too many times over; give each operator regions of its own."
                        .to_owned(),
                ));
            }
        }
        let outer = (self.block, std::mem::take(&mut self.names), std::mem::take(&mut self.nodes));
        self.block = block;
        self.open.push(name);
        let read = self.inner_block(which, name, given, wanted, fail);
        self.open.pop();
        let nodes = std::mem::take(&mut self.nodes);
        (self.block, self.names, self.nodes) = outer;
        let (inputs, outputs) = read?;
        Ok(Block { nodes, inputs, outputs })
    }

    /// Reads the block that has been entered; gives its inputs and outputs.
    fn inner_block(
        &mut self,
        which: &str,
        name: &str,
        given: Named<'_>,
        wanted: Option<Named<'_>>,
        fail: &impl Fn(Rule, String) -> Refusal,
    ) -> Result<(Vec<TensorId>, Vec<TensorId>)> {
        let inside = |refusal: Refusal| fail(refusal.rule, format!("in its graph {name:?}, {refusal}"));
        self.declare().map_err(inside)?;
        // The rules of the operator itself come before those of the operators inside.
        let inputs = self.declared(self.block.inputs());
        self.alike(given, (&format!("the inputs of {which}"), &inputs), fail)?;
        if let Some(wanted) = wanted {
            let outputs = self.declared(self.block.outputs());
            self.alike(wanted, (&format!("the outputs of {which}"), &outputs), fail)?;
        }
        let (inputs, outputs) = self.operators().and_then(|()| self.interface()).map_err(inside)?;
        if let Some(wanted) = wanted {
            // What the file left open is known now.
            self.alike(wanted, (&format!("the outputs of {which}"), &outputs), fail)?;
        }
        Ok((inputs, outputs))
    }

    /// The tensors of a list, whether or not they have values yet; names that have none are refused later.
    fn declared(&self, names: Option<List<'a, &'a str>>) -> Vec<TensorId> {
        let tensor = |name| match self.names.get(name)?.value {
            Value::Tensor(id) => Some(id),
            Value::Shape(_) => None,
        };
        names.unwrap_or_default().iter().filter_map(tensor).collect()
    }

    /// One element of type BOOL.
    fn is_condition(&self, what: &str, id: TensorId, fail: &impl Fn(Rule, String) -> Refusal) -> Result<()> {
        let tensor = self.values.tensor(id);
        if tensor.dtype == DType::Bool && tensor.elements() == 1 {
            return Ok(());
        }
        let (dtype, shape) = (tensor.dtype, show(&tensor.shape));
        let message = format!("{what} {:?} is {dtype} {shape} where one BOOL is needed.", tensor.name);
        Err(fail(Rule::ErrorIf, message))
    }

    /// Both lists have as many tensors, of the same types and shapes. A dimension that the file leaves open has the extent
    /// that is known for either.
    fn alike(
        &mut self,
        (left, ours): Named<'_>,
        (right, theirs): Named<'_>,
        fail: &impl Fn(Rule, String) -> Refusal,
    ) -> Result<()> {
        if ours.len() != theirs.len() {
            let message =
                format!("the number of {left} is {} and that of {right} is {}.", ours.len(), theirs.len());
            return Err(fail(Rule::ErrorIf, message));
        }
        for (at, (&our, &their)) in ours.iter().zip(theirs).enumerate() {
            let (a, b) = (self.values.tensor(our), self.values.tensor(their));
            // What the file says must be equal; what it leaves open in both has been found for one of them, or will be.
            let declared = self.declared_shape(our) == self.declared_shape(their);
            let found = a.shape.iter().zip(&b.shape).all(|(&a, &b)| a == b || a == UNKNOWN || b == UNKNOWN);
            if a.dtype != b.dtype || !declared || !found {
                let show = |tensor: &Tensor| format!("{} {}", tensor.dtype, show(&tensor.shape));
                let message =
                    format!("number {at} of {left} is {} and that of {right} is {}.", show(a), show(b));
                return Err(fail(Rule::ErrorIf, message));
            }
            let missing = |id, mine: &[u32], other: &[u32]| -> Vec<Inferred> {
                let pairs = mine.iter().zip(other).enumerate();
                let missing = pairs.filter(|(_, (mine, other))| **mine == UNKNOWN && **other != UNKNOWN);
                let inferred = missing.map(|(dimension, (_, &extent))| Inferred {
                    of: Open::Tensor(id),
                    dimension,
                    extent,
                });
                inferred.collect()
            };
            let mut inferred = missing(our, &a.shape, &b.shape);
            inferred.extend(missing(their, &b.shape, &a.shape));
            self.enter(inferred).map_err(|(rule, message)| fail(rule, message))?;
        }
        Ok(())
    }
}

fn short_enough(what: &str, count: usize, fail: &impl Fn(Rule, String) -> Refusal) -> Result<()> {
    let limit = level::MAX_TENSOR_LIST_SIZE;
    if count <= limit {
        return Ok(());
    }
    let message = format!("its {what} are {count}, above the {limit} of MAX_TENSOR_LIST_SIZE in level 8K.");
    Err(fail(Rule::Level, message))
}

/// About what reading a block costs, in bytes.
fn size(block: TosaBasicBlock<'_>) -> usize {
    let tensors = block.tensors().unwrap_or_default();
    let tensors = tensors.iter().map(|tensor| {
        let bytes = tensor.name().map_or(0, str::len) + tensor.data().map_or(0, |data| data.bytes.len());
        64 + bytes + 4 * tensor.shape().unwrap_or_default().len()
    });
    let shapes = block.shapes().unwrap_or_default();
    let shapes = shapes
        .iter()
        .map(|shape| 64 + shape.name().map_or(0, str::len) + shape.data().map_or(0, |data| data.bytes.len()));
    tensors.chain(shapes).sum::<usize>() + 256 * (1 + block.operators().unwrap_or_default().len())
}
