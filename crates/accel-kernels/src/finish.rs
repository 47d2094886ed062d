//! Turns recorded launches into a plan: places, arena, barriers.

use std::collections::HashMap;

use accel_tosa::{Refusal, TensorId};

use crate::arena::{Lifetime, pack};
use crate::builder::{Builder, Value};
use crate::lower::movers::copy;
use crate::{DECISION_BYTES, Dispatch, Place, Plan, REGION_ALIGNMENT, Region, Segment, Slot, State};

/// Finishes a lowering.
///
/// # Errors
/// A refusal when a copy that an output slot needs cannot be launched.
pub(crate) fn finish(mut builder: Builder<'_>) -> Result<Plan, Refusal> {
    let outputs = bind_outputs(&mut builder)?;
    builder.flow.end(builder.steps.len());
    for step in &mut builder.steps {
        step.writes.iter_mut().chain(&mut step.reads).for_each(|value| *value = builder.flow.home(*value));
    }
    let mut layout = Layout::new(&builder, outputs);
    layout.place_intermediates(&builder);
    let segments: Vec<Segment> =
        builder.flow.segments().map(|(dispatches, next)| Segment { dispatches, next }).collect();
    let mut dispatches = Vec::with_capacity(builder.steps.len());
    for segment in &segments {
        segment_dispatches(&builder, &mut layout, segment, &mut dispatches);
    }
    let slots = |ids: &[TensorId]| ids.iter().map(|&id| slot(builder.graph, id)).collect();
    Ok(Plan {
        inputs: slots(&builder.graph.inputs),
        outputs: slots(&builder.graph.outputs),
        pipelines: builder.pipelines.clone(),
        dispatches,
        segments,
        decisions: builder.flow.decisions(),
        constants: layout.constants,
        state: layout.state,
        arena_bytes: layout.arena_bytes,
    })
}

/// Appends the dispatches of a segment.
fn segment_dispatches(
    builder: &Builder<'_>,
    layout: &mut Layout,
    segment: &Segment,
    dispatches: &mut Vec<Dispatch>,
) {
    // Whoever runs a segment orders it against the one before.
    let mut hazards = Hazards::default();
    for step in &builder.steps[segment.dispatches.start as usize..segment.dispatches.end as usize] {
        let writes: Vec<_> = step.writes.iter().map(|&v| layout.place(builder, v)).collect();
        let reads: Vec<_> = step.reads.iter().map(|&v| layout.place(builder, v)).collect();
        let barrier = hazards.step(&writes, &reads);
        dispatches.push(Dispatch {
            pipeline: step.pipeline,
            operands: writes.iter().chain(&reads).map(|&(place, _)| place).collect(),
            params: step.params.clone(),
            groups: step.groups,
            barrier,
            label: step.label.clone(),
        });
    }
}

fn slot(graph: &accel_tosa::Graph, id: TensorId) -> Slot {
    let tensor = graph.tensor(id);
    Slot {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name(),
        shape: tensor.shape.clone(),
        bytes: tensor.bytes(),
    }
}

/// Lets the kernel that makes an output tensor write straight into its slot; inputs, constants and tensors
/// that are already bound to a slot are copied into it.
fn bind_outputs(builder: &mut Builder<'_>) -> Result<HashMap<TensorId, u32>, Refusal> {
    let graph = builder.graph;
    let mut bound = HashMap::new();
    let mut copies = Vec::new();
    for (slot, &id) in graph.outputs.iter().enumerate() {
        let root = builder.root(id);
        let computed = !graph.inputs.contains(&root) && builder.constant(id).is_none();
        if computed && !bound.contains_key(&root) {
            bound.insert(root, slot as u32);
        } else {
            copies.push((slot as u32, id));
        }
    }
    builder.at = (graph.nodes.len() as u32, "copy to output");
    for (slot, id) in copies {
        let source = builder.tensor(id);
        copy(builder, Value::Slot(slot), source)?;
    }
    Ok(bound)
}

struct Layout {
    outputs: HashMap<TensorId, u32>,
    inputs: HashMap<TensorId, u32>,
    /// Arena offset and bytes of intermediates.
    arena: HashMap<Value, (u64, u64)>,
    /// Offset in the constants and bytes.
    constant_places: HashMap<Value, (u64, u64)>,
    constants: Vec<u8>,
    /// Offset of each variable.
    variables: Vec<u64>,
    state: State,
    arena_bytes: u64,
}

impl Layout {
    fn new(builder: &Builder<'_>, outputs: HashMap<TensorId, u32>) -> Self {
        let inputs = builder.graph.inputs.iter().enumerate().map(|(i, &id)| (id, i as u32)).collect();
        let graph = builder.graph;
        let (mut variables, mut state) = (Vec::new(), State::default());
        for variable in &graph.variables {
            let offset = state.bytes.next_multiple_of(REGION_ALIGNMENT);
            variables.push(offset);
            state.bytes = offset + graph.tensor(variable.tensor).bytes();
            if let Some(initial) = &variable.initial {
                state.initial.push((offset, graph.artifact[initial.range.clone()].to_vec()));
            }
        }
        Self {
            outputs,
            inputs,
            arena: HashMap::new(),
            constant_places: HashMap::new(),
            constants: Vec::new(),
            variables,
            state,
            arena_bytes: 0,
        }
    }

    fn is_intermediate(&self, builder: &Builder<'_>, value: Value) -> bool {
        match value {
            Value::Scratch(_) => true,
            Value::Blob(_) | Value::Slot(_) | Value::State(_) | Value::Decision(_) => false,
            Value::Tensor(id) => {
                builder.graph.constant(id).is_none()
                    && !self.inputs.contains_key(&id)
                    && !self.outputs.contains_key(&id)
            }
        }
    }

    fn place_intermediates(&mut self, builder: &Builder<'_>) {
        let mut index = HashMap::new();
        let mut values = Vec::new();
        let mut lifetimes: Vec<Lifetime> = Vec::new();
        for (number, step) in builder.steps.iter().enumerate() {
            let number = number as u32;
            for &value in step.writes.iter().chain(&step.reads) {
                if !self.is_intermediate(builder, value) {
                    continue;
                }
                let at = *index.entry(value).or_insert_with(|| {
                    values.push(value);
                    lifetimes.push(Lifetime { bytes: bytes_of(builder, value), first: number, last: number });
                    lifetimes.len() - 1
                });
                lifetimes[at].last = number;
            }
        }
        for life in &mut lifetimes {
            life.last = builder.flow.last_use(life.first, life.last);
        }
        let (offsets, size) = pack(&lifetimes);
        self.arena_bytes = size;
        for ((value, life), offset) in values.into_iter().zip(lifetimes).zip(offsets) {
            self.arena.insert(value, (offset, life.bytes));
        }
    }

    /// Where a value lies, and its bytes.
    fn place(&mut self, builder: &Builder<'_>, value: Value) -> (Place, u64) {
        if let Some(&(offset, bytes)) = self.arena.get(&value) {
            return (Place { region: Region::Arena, offset }, bytes);
        }
        let bytes = bytes_of(builder, value);
        if let Value::State(variable) = value {
            return (Place { region: Region::State, offset: self.variables[variable as usize] }, bytes);
        }
        if let Value::Decision(number) = value {
            return (Place { region: Region::Decisions, offset: u64::from(number) * DECISION_BYTES }, bytes);
        }
        let region = match value {
            Value::Slot(slot) => Some(Region::Output(slot)),
            Value::Tensor(id) => self
                .inputs
                .get(&id)
                .map(|&slot| Region::Input(slot))
                .or_else(|| self.outputs.get(&id).map(|&slot| Region::Output(slot))),
            Value::Scratch(_) | Value::Blob(_) | Value::State(_) | Value::Decision(_) => None,
        };
        if let Some(region) = region {
            return (Place { region, offset: 0 }, bytes);
        }
        let constants = &mut self.constants;
        let &mut (offset, bytes) = self.constant_places.entry(value).or_insert_with(|| {
            let data = match value {
                Value::Blob(index) => builder.blobs[index as usize].as_slice(),
                Value::Tensor(id) => builder.graph.constant(id).unwrap_or_default(),
                Value::Scratch(_) | Value::Slot(_) | Value::State(_) | Value::Decision(_) => &[],
            };
            let offset = constants.len().next_multiple_of(REGION_ALIGNMENT as usize);
            constants.resize(offset, 0);
            constants.extend_from_slice(data);
            (offset as u64, data.len() as u64)
        });
        (Place { region: Region::Constants, offset }, bytes)
    }
}

/// Bytes of a value.
pub(crate) fn bytes_of(builder: &Builder<'_>, value: Value) -> u64 {
    match value {
        Value::Tensor(id) => builder.graph.tensor(id).bytes(),
        Value::Scratch(index) => builder.scratch_bytes[index as usize],
        Value::Blob(index) => builder.blobs[index as usize].len() as u64,
        Value::State(variable) => {
            builder.graph.tensor(builder.graph.variables[variable as usize].tensor).bytes()
        }
        // One BOOL.
        Value::Decision(_) => 1,
        Value::Slot(slot) => builder.graph.tensor(builder.graph.outputs[slot as usize]).bytes(),
    }
}

type Span = (Region, u64, u64);

/// What was read and written since the last barrier.
#[derive(Default)]
struct Hazards {
    written: Vec<Span>,
    read: Vec<Span>,
}

impl Hazards {
    /// Whether a step needs a barrier before it.
    fn step(&mut self, writes: &[(Place, u64)], reads: &[(Place, u64)]) -> bool {
        let span = |&(place, bytes): &(Place, u64)| (place.region, place.offset, place.offset + bytes);
        let constant = |span: &Span| matches!(span.0, Region::Input(_) | Region::Constants);
        let writes: Vec<Span> = writes.iter().map(span).collect();
        let reads: Vec<Span> = reads.iter().map(span).filter(|s| !constant(s)).collect();
        let barrier = reads.iter().chain(&writes).any(|s| overlaps(&self.written, s))
            || writes.iter().any(|s| overlaps(&self.read, s));
        if barrier {
            self.written.clear();
            self.read.clear();
        }
        self.written.extend(writes);
        self.read.extend(reads);
        barrier
    }
}

fn overlaps(spans: &[Span], span: &Span) -> bool {
    spans.iter().any(|s| s.0 == span.0 && s.1 < span.2 && span.1 < s.2)
}
