//! Programs of `shaders/reduce/rowwise.comp`: steps over registers that hold a row, or one number of it.

use std::collections::HashMap;

use accel_tosa::{Node, Op, Refusal, TensorId};

use crate::DeviceKind;
use crate::builder::{Builder, Launch, Value};
use crate::chain::{element, number};
use crate::lower::{pointwise, reduce};
use crate::row::{Extent, Rows};
use crate::stage::{Code, Element, Source};

/// The kernel's variants by their number of steps.
const VARIANTS: [(&str, usize); 2] = [("rowwise.short", 8), ("rowwise.long", 16)];
/// Values of whole rows.
const FULL: usize = 3;
/// Numbers of a row.
const NUMBERS: usize = 4;
/// Operands in memory.
const OPERANDS: usize = 3;
/// Operands that are one number known while lowering.
const CONSTANTS: usize = 6;
/// Words that the steps read.
const IMMEDIATES: usize = 8;
/// Passes over a row.
const PASSES: u32 = 8;
/// Most elements for the general kernel.
const MOST_ELEMENTS: u64 = 1 << 20;
/// Vectors of 16 bytes that an invocation of `softmax.comp` holds.
const VECTORS: u32 = 8;
/// Invocations of a workgroup.
const LANES: u32 = 256;

/// A program ready to launch.
pub(crate) struct Program {
    rows: Rows,
    source: TensorId,
    result: TensorId,
    constants: Vec<(u32, u32)>,
    /// Tensors beside the source, and the block of numbers, where the kernel takes such.
    operands: Option<(Vec<TensorId>, Vec<u32>)>,
    module: &'static str,
    lanes: [u32; 2],
    operators: String,
}

/// Where a step finds an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The result of a step, or the source (0).
    Register(usize),
    Operand(usize),
    Constant(usize),
}

/// Passes over the row.
struct Passes {
    count: u32,
    /// By pass: values that it takes from shared memory, and that it leaves there.
    loads: Vec<Vec<usize>>,
    stores: Vec<Vec<usize>>,
}

impl Passes {
    /// The kernel's word: four bits a pass, one a value.
    fn mask(&self, registers: &[u32], lists: impl Fn(&Self) -> &Vec<Vec<usize>>) -> u32 {
        let bits = |list: &Vec<usize>| list.iter().fold(0, |bits, &register| bits | 1 << registers[register]);
        lists(self).iter().rev().fold(0, |word, list| word << 4 | bits(list))
    }
}

struct Step {
    code: Code,
    arguments: Vec<Place>,
    immediate: usize,
    element: Element,
    combines: bool,
    /// Index in `Compiler::registers`.
    result: usize,
    /// Pass over the row in which it runs.
    pass: u32,
}

/// A result before it has a register of the kernel.
struct Register {
    full: bool,
    last_use: usize,
}

#[derive(Default)]
struct Compiler {
    steps: Vec<Step>,
    registers: Vec<Register>,
    places: HashMap<TensorId, Place>,
    source: Option<(TensorId, Element)>,
    operands: Vec<(TensorId, u32)>,
    constants: Vec<u32>,
    immediates: Vec<u32>,
}

/// The program of the operators `members`, whose only result is `result`; `None` where the kernel cannot run it.
///
/// # Errors
/// An unsupported-refusal for types that no pointwise kernel reads.
pub(crate) fn compile(
    builder: &Builder<'_>,
    rows: Rows,
    members: &[&Node],
    result: TensorId,
) -> Result<Option<Program>, Refusal> {
    let mut compiler = Compiler::default();
    for node in members {
        if compiler.operator(builder, rows, node)?.is_none() {
            return Ok(None);
        }
    }
    let names: Vec<_> = members.iter().map(|node| node.op.name()).collect();
    Ok(compiler.finish(builder, rows, result, names.join("+")))
}

impl Compiler {
    /// Appends an operator's steps.
    fn operator(&mut self, builder: &Builder<'_>, rows: Rows, node: &Node) -> Result<Option<()>, Refusal> {
        let output = node.outputs[0];
        let full = rows.extent(&builder.graph.tensor(output).shape) == Some(Extent::Full);
        if let Op::Reduce { op, .. } = node.op {
            let input = element(builder, builder.graph.tensor(node.inputs[0]).dtype)?;
            let (code, identity) = reduce::combiner(op, input.is_float());
            let Some(argument) = self.place(builder, rows, node.inputs[0])? else { return Ok(None) };
            let result = self.step(code, vec![argument], &[identity], input, true, false);
            self.places.insert(output, result);
            return Ok(Some(()));
        }
        let mut chain = pointwise::start(builder, node)?;
        pointwise::append(builder, &mut chain, node)?;
        let Some(mut current) = self.place(builder, rows, node.inputs[0])? else { return Ok(None) };
        for stage in chain.stages() {
            if matches!(stage.code, Code::Rescale | Code::RescaleDouble | Code::Table8 | Code::Table16) {
                return Ok(None);
            }
            let mut arguments = Vec::new();
            for source in &stage.sources {
                let argument = match source {
                    Source::Chain => Some(current),
                    Source::Operand(number) => self.place(builder, rows, chain.tensor(*number))?,
                };
                let Some(argument) = argument else { return Ok(None) };
                arguments.push(argument);
            }
            current = self.step(stage.code, arguments, &stage.immediates, stage.element, false, full);
        }
        self.places.insert(output, current);
        Ok(Some(()))
    }

    fn step(
        &mut self,
        code: Code,
        arguments: Vec<Place>,
        immediates: &[u32],
        element: Element,
        combines: bool,
        full: bool,
    ) -> Place {
        let immediate = self.immediates.len();
        self.immediates.extend_from_slice(immediates);
        let result = self.registers.len();
        self.registers.push(Register { full, last_use: usize::MAX });
        self.steps.push(Step { code, arguments, immediate, element, combines, result, pass: 0 });
        Place::Register(result)
    }

    /// Where a tensor is found: made by an earlier step, a number, the source, or another operand.
    fn place(&mut self, builder: &Builder<'_>, rows: Rows, id: TensorId) -> Result<Option<Place>, Refusal> {
        let root = builder.root(id);
        if let Some(&place) = self.places.get(&root) {
            return Ok(Some(place));
        }
        let tensor = builder.graph.tensor(id);
        let kind = element(builder, tensor.dtype)?;
        if let Some(number) = number(builder, id, kind) {
            let at = self.constants.iter().position(|&c| c == number).unwrap_or_else(|| {
                self.constants.push(number);
                self.constants.len() - 1
            });
            return Ok(Some(Place::Constant(at)));
        }
        let Some(extent) = rows.extent(&tensor.shape) else { return Ok(None) };
        let place = if extent == Extent::Full && self.source.is_none() && self.registers.is_empty() {
            self.source = Some((id, kind));
            self.registers.push(Register { full: true, last_use: 0 });
            Place::Register(0)
        } else {
            // The numbers of the shader's READ_SAME, READ_COLUMN and READ_ROW.
            let mode = match extent {
                Extent::Full => 1,
                Extent::Number => 6,
                Extent::Column => 5,
            };
            self.operands.push((id, kind as u32 | mode << 4));
            Place::Operand(self.operands.len() - 1)
        };
        self.places.insert(root, place);
        Ok(Some(place))
    }

    fn finish(
        mut self,
        builder: &Builder<'_>,
        rows: Rows,
        result: TensorId,
        operators: String,
    ) -> Option<Program> {
        let (source, input) = self.source?;
        let output = Element::of(builder.graph.tensor(result).dtype)?;
        let Some(&Place::Register(mut stored)) = self.places.get(&result) else { return None };
        // The store rounds by itself.
        if let Some(last) = self.steps.last()
            && last.result == stored
            && last.element == output
            && matches!(last.code, Code::RoundF16 | Code::RoundBf16 | Code::RoundE4M3 | Code::RoundE5M2)
            && let [Place::Register(before)] = last.arguments[..]
            && self.registers[before].full == self.registers[stored].full
        {
            stored = before;
            self.steps.pop();
        }
        if let Some((lanes_n, vectors)) = self.softmax(builder, rows, input, stored) {
            let constants = [LANES, lanes_n, vectors, input as u32, output as u32, 4 / input.bytes()];
            return Some(Program {
                rows,
                source,
                result,
                constants: (0..).zip(constants).collect(),
                operands: None,
                module: if builder.caps.exact_half { "softmax.half" } else { "softmax.any" },
                lanes: [LANES, lanes_n],
                operators,
            });
        }
        // The general kernel holds rows in shared memory and decides at every step: it saves launches, not time where rows are many.
        if rows.count * u64::from(rows.axis) > MOST_ELEMENTS || builder.caps.kind == DeviceKind::Cpu {
            return None;
        }
        self.sort();
        self.registers[stored].last_use = usize::MAX;
        let (module, _) = *VARIANTS.iter().find(|(_, steps)| self.steps.len() <= *steps)?;
        let (registers, used) = self.registers()?;
        if self.operands.len() > OPERANDS
            || self.constants.len() > CONSTANTS
            || self.immediates.len() > IMMEDIATES
        {
            return None;
        }
        let caps = builder.caps;
        let cpu = caps.kind == DeviceKind::Cpu;
        let lanes = if cpu { LANES / 4 } else { LANES }.min(caps.max_workgroup_invocations);
        let quads = rows.axis.div_ceil(4);
        // A CPU gains nothing from more invocations than its vectors have lanes, unless shared memory is short.
        let most_held = (caps.shared_memory_bytes / lanes - 4) / (16 * used);
        let wanted = if cpu { caps.subgroup_size } else { quads.next_power_of_two().min(lanes) };
        let lanes_n = wanted.max(quads.div_ceil(most_held.max(1)).next_power_of_two());
        if lanes_n > lanes || most_held == 0 || rows.count > u64::from(u32::MAX) {
            return None;
        }
        let passes = self.passes(stored)?;
        let number = |place: &Place| match *place {
            Place::Register(register) => registers[register],
            Place::Operand(operand) => (FULL + NUMBERS + operand) as u32,
            Place::Constant(constant) => (FULL + NUMBERS + OPERANDS + constant) as u32,
        };
        let mut constants = vec![
            (0, lanes),
            (1, lanes_n),
            (2, quads.div_ceil(lanes_n)),
            (3, input as u32),
            (4, output as u32),
            (5, registers[stored]),
            (6, passes.count),
            (12, passes.mask(&registers, |p| &p.loads)),
            (13, passes.mask(&registers, |p| &p.stores)),
            (14, used),
        ];
        for (at, steps) in (10..).zip(self.steps.chunks(8)) {
            constants.push((at, steps.iter().rev().fold(0, |word, step| word << 4 | step.pass)));
        }
        constants.extend((7..).zip(self.operands.iter().map(|&(_, word)| word)));
        for (at, step) in (16..).zip(&self.steps) {
            let mut word = step.code as u32 | (step.immediate as u32) << 20 | (step.element as u32) << 24;
            for (shift, argument) in (8..).step_by(4).zip(&step.arguments) {
                word |= number(argument) << shift;
            }
            word |= registers[step.result] << 28 | u32::from(step.combines) << 31;
            constants.push((at, word));
        }
        let mut block = self.immediates;
        block.resize(IMMEDIATES, 0);
        block.extend(self.constants);
        block.resize(IMMEDIATES + CONSTANTS, 0);
        Some(Program {
            rows,
            source,
            result,
            constants,
            operands: Some((self.operands.iter().map(|&(id, _)| id).collect(), block)),
            module,
            lanes: [lanes, lanes_n],
            operators,
        })
    }

    /// Invocations a row and vectors an invocation of `softmax.comp`, where the steps are those of a softmax of the source.
    fn softmax(
        &self,
        builder: &Builder<'_>,
        rows: Rows,
        input: Element,
        stored: usize,
    ) -> Option<(u32, u32)> {
        let [max, sub, exp, sum, reciprocal, mul] = &self.steps[..] else { return None };
        let codes = [max, sub, exp, sum, reciprocal, mul].map(|step| (step.code, step.combines));
        let softmax = [
            (Code::MaxF, true),
            (Code::SubF, false),
            (Code::Exp, false),
            (Code::AddF, true),
            (Code::Reciprocal, false),
            (Code::MulF, false),
        ];
        let of = |step: &Step| Place::Register(step.result);
        let factors = [of(exp), of(reciprocal)];
        let wired = stored == mul.result
            && max.arguments == [Place::Register(0)]
            && sub.arguments == [Place::Register(0), of(max)]
            && exp.arguments == [of(sub)]
            && sum.arguments == [of(exp)]
            && reciprocal.arguments == [of(sum)]
            && (mul.arguments == factors || mul.arguments == [factors[1], factors[0]]);
        let caps = builder.caps;
        let vector = 16 / input.bytes();
        let vectors = rows.axis / vector;
        let lanes_n = vectors.next_power_of_two().clamp(1, LANES);
        let fits = rows.axis.is_multiple_of(vector)
            && vectors.div_ceil(lanes_n) <= VECTORS
            && caps.max_workgroup_invocations >= LANES
            && rows.count <= u64::from(u32::MAX);
        (caps.kind != DeviceKind::Cpu && codes == softmax && wired && fits)
            .then(|| (lanes_n, vectors.div_ceil(lanes_n)))
    }

    /// Numbers the passes of the steps and brings these into the order in which they run: in each pass what is computed once a row,
    /// then what is computed for each quad, then combinations, whose results are known after it.
    fn sort(&mut self) {
        // By result: the first pass in which it can be used.
        let mut known = vec![0; self.registers.len()];
        for at in 0..self.steps.len() {
            let step = &self.steps[at];
            let after = step.arguments.iter().filter_map(|a| match a {
                Place::Register(register) => Some(known[*register]),
                Place::Operand(_) | Place::Constant(_) => None,
            });
            let mut pass = after.max().unwrap_or(0);
            // Passes have one combination each.
            while step.combines && self.steps[..at].iter().any(|s| s.combines && s.pass == pass) {
                pass += 1;
            }
            known[step.result] = pass + u32::from(step.combines);
            self.steps[at].pass = pass;
        }
        let registers = &self.registers;
        self.steps.sort_by_key(|step| (step.pass, step.combines, registers[step.result].full));
        for (at, step) in self.steps.iter().enumerate() {
            for argument in &step.arguments {
                if let Place::Register(register) = *argument {
                    self.registers[register].last_use = at;
                }
            }
        }
    }

    /// What goes through shared memory from pass to pass.
    fn passes(&self, stored: usize) -> Option<Passes> {
        let count = self.steps.iter().map(|step| step.pass).max()? + 1;
        // A value of the row goes through shared memory where a later pass than its own uses it.
        let mut loads = vec![Vec::new(); count as usize];
        let mut stores = vec![Vec::new(); count as usize];
        let last = self.registers[stored].full.then_some((stored, count - 1));
        let uses = self.steps.iter().flat_map(|step| {
            step.arguments.iter().filter_map(|a| match a {
                Place::Register(register) => Some((*register, step.pass)),
                Place::Operand(_) | Place::Constant(_) => None,
            })
        });
        let made = |register: usize| self.steps.iter().find(|s| s.result == register).map(|s| s.pass);
        for (register, pass) in uses.chain(last) {
            if !self.registers[register].full || made(register) == Some(pass) {
                continue;
            }
            loads[pass as usize].push(register);
            // The source is there from the start.
            if let Some(own) = made(register) {
                stores[own as usize].push(register);
            }
        }
        (count <= PASSES).then_some(Passes { count, loads, stores })
    }

    /// Registers of the kernel for all results, and how many of whole rows are used; `None` where there are too few.
    fn registers(&self) -> Option<(Vec<u32>, u32)> {
        let mut given = vec![0; self.registers.len()];
        let mut free: Vec<usize> = (0..FULL + NUMBERS).collect();
        let mut used = 0;
        free.retain(|&register| register != 0);
        for (at, step) in self.steps.iter().enumerate() {
            // A step may overwrite an argument that nobody needs after it: it takes element by element.
            let mut ended: Vec<usize> = step
                .arguments
                .iter()
                .filter_map(|a| match a {
                    Place::Register(r) if self.registers[*r].last_use == at => Some(given[*r] as usize),
                    _ => None,
                })
                .collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
            free.sort_unstable();
            let full = self.registers[step.result].full;
            let found = free.iter().position(|&register| (register < FULL) == full)?;
            let register = free.remove(found);
            given[step.result] = register as u32;
            if full {
                used = used.max(register as u32);
            }
        }
        Some((given, used + 1))
    }
}

impl Program {
    /// Records the launch.
    ///
    /// # Errors
    /// An unsupported-refusal when the device cannot launch it.
    pub fn launch(&self, builder: &mut Builder<'_>) -> Result<(), Refusal> {
        let source = builder.tensor(self.source);
        let mut reads = vec![source];
        if let Some((operands, block)) = &self.operands {
            reads.extend(operands.iter().map(|&id| builder.tensor(id)));
            // Places of operands that the program lacks repeat an address and are not read.
            reads.resize(1 + OPERANDS, source);
            reads.push(builder.words(block));
        }
        let Rows { count, axis } = self.rows;
        let [lanes, lanes_n] = self.lanes;
        builder.launch(&Launch {
            module: self.module,
            constants: &self.constants,
            writes: &[Value::Tensor(self.result)],
            reads: &reads,
            params: &[count as u32, axis],
            groups: count.div_ceil(u64::from(lanes / lanes_n)),
            detail: &format!("{} of {count}x{axis}, {lanes_n} lanes a row", self.operators),
        })
    }
}
