//! A plan on the device: pipelines, constants, arena, and its recordings.

use std::sync::{Arc, Mutex};

use accel_kernels::{Dispatch, Place, Plan, Region, Slot, State};
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
    // Before `shared`, whose layout they were made with.
    pipelines: Vec<Arc<Pipeline>>,
    constants: Option<Buffer>,
    // Submissions reach the device in one order, with a barrier between them, so that each sees what the last one left.
    state: Option<Buffer>,
    arena: Option<Buffer>,
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
        Ok(Self {
            core: Arc::clone(core),
            inputs: plan.inputs,
            outputs: plan.outputs,
            dispatches: plan.dispatches,
            pipelines,
            constants,
            state,
            arena,
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

    /// Device memory that the program holds: constants, variables and arena.
    pub fn resident_bytes(&self) -> u64 {
        [&self.constants, &self.state, &self.arena].into_iter().flatten().map(Buffer::bytes).sum()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
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
    Ok(())
}

fn lies_inside(plan: &Plan, place: &Place) -> bool {
    match place.region {
        Region::Input(slot) => plan.inputs.get(slot as usize).is_some_and(|s| place.offset < s.bytes),
        Region::Output(slot) => plan.outputs.get(slot as usize).is_some_and(|s| place.offset < s.bytes),
        Region::Arena => place.offset < plan.arena_bytes,
        Region::State => place.offset < plan.state.bytes,
        Region::Constants => place.offset < plan.constants.len() as u64,
    }
}
