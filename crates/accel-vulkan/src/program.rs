//! A plan on the device: pipelines, constants, arena, and its recordings.

use std::sync::{Arc, Mutex};

use accel_kernels::{DECISION_BYTES, Dispatch, Next, Place, Plan, Region, Segment, Slot, State};
use ash::vk;

use crate::core::Core;
use crate::instance::lock;
use crate::memory::Buffer;
use crate::pipeline::{Pipeline, Pipelines};
use crate::record::Recorded;
use crate::{Error, MemoryKind};

/// Recordings kept a program, least recently used first to go: a guest that rotates a few buffers always
/// replays.
const RECORDINGS: usize = 8;

/// Bytes of zeros that are written at once.
const ZEROS: u64 = 1 << 20;

/// Commands, and the addresses that they were recorded with.
type Recording = (Box<[u64]>, Arc<Recorded>);

/// A loaded program.
pub struct Program {
    core: Arc<Core>,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    dispatches: Vec<Dispatch>,
    segments: Vec<Segment>,
    // Before `shared`, whose layout they were made with.
    pipelines: Vec<Arc<Pipeline>>,
    constants: Option<Buffer>,
    // Submissions reach the device in one order, with a barrier between them, so that each sees what the last one left.
    state: Option<Buffer>,
    arena: Option<Buffer>,
    /// What the device leaves for the host to decide by.
    decisions: Option<Buffer>,
    // Most recently used last.
    recordings: Mutex<Vec<Recording>>,
    shared: Arc<Pipelines>,
}

impl Program {
    pub(crate) fn new(core: &Arc<Core>, shared: &Arc<Pipelines>, plan: Plan) -> Result<Self, Error> {
        check(core, &plan)?;
        let pipelines = shared.get(&plan.pipelines)?;
        let constants = match plan.constants.len() as u64 {
            0 => None,
            bytes => {
                let buffer = Buffer::new(core, bytes, MemoryKind::Device)?;
                buffer.write(0, &plan.constants)?;
                Some(buffer)
            }
        };
        let state = match plan.state.bytes {
            0 => None,
            bytes => Some(initial_state(Buffer::new(core, bytes, MemoryKind::Device)?, &plan.state)?),
        };
        let arena = match plan.arena_bytes {
            0 => None,
            bytes => Some(Buffer::new(core, bytes, MemoryKind::Device)?),
        };
        let decisions = match u64::from(plan.decisions) {
            0 => None,
            count => {
                let buffer = Buffer::new(core, count * DECISION_BYTES, MemoryKind::Host)?;
                if buffer.byte(0).is_none() {
                    return Err(Error::Plan("the host cannot read the device's decisions".into()));
                }
                Some(buffer)
            }
        };
        Ok(Self {
            core: Arc::clone(core),
            inputs: plan.inputs,
            outputs: plan.outputs,
            dispatches: plan.dispatches,
            segments: plan.segments,
            pipelines,
            constants,
            state,
            arena,
            decisions,
            recordings: Mutex::default(),
            shared: Arc::clone(shared),
        })
    }

    /// Input slots in order.
    pub fn inputs(&self) -> &[Slot] {
        &self.inputs
    }

    /// Output slots in order.
    pub fn outputs(&self) -> &[Slot] {
        &self.outputs
    }

    /// Memory that the program holds: constants, variables, arena and decisions.
    pub fn resident_bytes(&self) -> u64 {
        [&self.constants, &self.state, &self.arena, &self.decisions]
            .into_iter()
            .flatten()
            .map(Buffer::bytes)
            .sum()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the host decides on the way: then its submissions run one at a time, since they leave their decisions
    /// and intermediates in the same places.
    pub(crate) fn decides(&self) -> bool {
        self.decisions.is_some()
    }

    /// The segments from `first` to the end or the next decision: what is submitted at once.
    pub(crate) fn stretch(&self, first: u32) -> impl Iterator<Item = u32> {
        let next = |segment: &u32| match self.segments[*segment as usize].next {
            Next::Segment(next) => Some(next),
            Next::End | Next::Decide { .. } => None,
        };
        // Checked at load: no stretch goes round.
        std::iter::successors(Some(first), next)
    }

    /// The segment that follows a stretch that the device has finished; `None` at the end of the program.
    pub(crate) fn after(&self, first: u32) -> Option<u32> {
        let last = self.stretch(first).last()?;
        match self.segments[last as usize].next {
            Next::Decide { decision, on_true, on_false } => {
                let is_true = self.decisions.as_ref()?.byte(u64::from(decision) * DECISION_BYTES)? != 0;
                Some(if is_true { on_true } else { on_false })
            }
            Next::End | Next::Segment(_) => None,
        }
    }

    pub(crate) fn decisions_address(&self) -> Option<u64> {
        self.decisions.as_ref().map(Buffer::address)
    }

    pub(crate) fn pipeline(&self, index: u32) -> Result<vk::Pipeline, Error> {
        let pipeline = self.pipelines.get(index as usize).map(|p| p.handle);
        pipeline.ok_or_else(|| Error::Plan(format!("there is no pipeline {index}")))
    }

    pub(crate) fn layout(&self) -> vk::PipelineLayout {
        self.shared.layout
    }

    pub(crate) fn arena_address(&self) -> Option<u64> {
        self.arena.as_ref().map(Buffer::address)
    }

    pub(crate) fn state_address(&self) -> Option<u64> {
        self.state.as_ref().map(Buffer::address)
    }

    pub(crate) fn constants_address(&self) -> Option<u64> {
        self.constants.as_ref().map(Buffer::address)
    }

    /// The recording for these addresses (inputs, then outputs), made if there is none.
    pub(crate) fn recorded(&self, addresses: &[u64]) -> Result<Arc<Recorded>, Error> {
        let mut recordings = lock(&self.recordings);
        let recorded = match recordings.iter().position(|(key, _)| **key == *addresses) {
            Some(index) => recordings.remove(index).1,
            None => Arc::new(Recorded::new(self, addresses)?),
        };
        if recordings.len() >= RECORDINGS {
            recordings.remove(0);
        }
        recordings.push((addresses.into(), Arc::clone(&recorded)));
        Ok(recorded)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("dispatches", &self.dispatches.len()).finish_non_exhaustive()
    }
}

/// Fills variables with their first values.
fn initial_state(buffer: Buffer, state: &State) -> Result<Buffer, Error> {
    let zeros = vec![0; state.bytes.min(ZEROS) as usize];
    for offset in (0..state.bytes).step_by(ZEROS as usize) {
        buffer.write(offset, &zeros[..(state.bytes - offset).min(ZEROS) as usize])?;
    }
    state.initial.iter().try_for_each(|(offset, bytes)| buffer.write(*offset, bytes))?;
    Ok(buffer)
}

/// Checks what the device would otherwise take on trust.
fn check(core: &Core, plan: &Plan) -> Result<(), Error> {
    let caps = &core.properties.caps;
    let wrong =
        |dispatch: &Dispatch, what: String| Err(Error::Plan(format!("dispatch {}: {what}", dispatch.label)));
    for dispatch in &plan.dispatches {
        if dispatch.pipeline as usize >= plan.pipelines.len() {
            return wrong(dispatch, format!("there is no pipeline {}", dispatch.pipeline));
        }
        let bytes = dispatch.operands.len() * 8 + dispatch.params.len() * 4;
        if bytes > caps.push_constant_bytes as usize {
            return wrong(
                dispatch,
                format!("{bytes} bytes of push constants exceed {}", caps.push_constant_bytes),
            );
        }
        let fits =
            dispatch.groups.iter().zip(caps.max_workgroup_count).all(|(n, most)| (1..=most).contains(n));
        if !fits {
            return wrong(
                dispatch,
                format!("{:?} groups are outside 1..={:?}", dispatch.groups, caps.max_workgroup_count),
            );
        }
        if let Some(place) = dispatch.operands.iter().find(|place| !lies_inside(plan, place)) {
            return wrong(dispatch, format!("{place:?} does not exist"));
        }
    }
    check_segments(plan)
}

/// Every dispatch is in one segment, every segment that is named exists, and no way goes round without a decision.
fn check_segments(plan: &Plan) -> Result<(), Error> {
    let wrong = |number: usize, what: &str| Err(Error::Plan(format!("segment {number}: {what}")));
    let (count, mut covered) = (plan.segments.len(), 0);
    let exists = |segment: u32| (segment as usize) < count;
    for (number, segment) in plan.segments.iter().enumerate() {
        if segment.dispatches.start != covered || segment.dispatches.end < covered {
            return wrong(number, "its dispatches do not follow those of the one before");
        }
        covered = segment.dispatches.end;
        let good = match segment.next {
            Next::End => true,
            Next::Segment(next) => exists(next),
            Next::Decide { decision, on_true, on_false } => {
                decision < plan.decisions && exists(on_true) && exists(on_false)
            }
        };
        if !good {
            return wrong(number, "what follows it does not exist");
        }
    }
    if covered as usize != plan.dispatches.len() || count == 0 {
        return wrong(count, "the segments are not those of the dispatches");
    }
    // Segments from which an end or a decision has been reached.
    let mut ends = vec![false; count];
    for first in 0..count {
        let (mut at, mut way) = (first, Vec::new());
        while !ends[at] && way.len() <= count {
            way.push(at);
            match plan.segments[at].next {
                Next::Segment(next) => at = next as usize,
                Next::End | Next::Decide { .. } => break,
            }
        }
        if way.len() > count {
            return wrong(first, "it is followed by itself");
        }
        way.into_iter().for_each(|segment| ends[segment] = true);
    }
    Ok(())
}

fn lies_inside(plan: &Plan, place: &Place) -> bool {
    match place.region {
        Region::Input(slot) => plan.inputs.get(slot as usize).is_some_and(|s| place.offset < s.bytes),
        Region::Output(slot) => plan.outputs.get(slot as usize).is_some_and(|s| place.offset < s.bytes),
        Region::Arena => place.offset < plan.arena_bytes,
        Region::State => place.offset < plan.state.bytes,
        Region::Decisions => place.offset < u64::from(plan.decisions) * DECISION_BYTES,
        Region::Constants => place.offset < plan.constants.len() as u64,
    }
}
