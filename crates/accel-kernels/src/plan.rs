//! A plan: everything that the executor needs to run a graph, and nothing of TOSA.

use std::ops::Range;

use crate::Module;

/// Region of memory that an operand lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    /// Buffer bound to input slot `n` (read only).
    Input(u32),
    /// Buffer bound to output slot `n` (counted from 0 after the inputs).
    Output(u32),
    /// The program's arena of intermediates.
    Arena,
    /// What the host decides by: [`DECISION_BYTES`] for each decision, of which the first is a BOOL.
    Decisions,
    /// The program's variables, which keep their bytes from one submission to the next.
    State,
    /// The program's constants: weights, tables, parameter blocks (read only).
    Constants,
}

/// Where an operand starts. The executor turns it into a 64-bit buffer device address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Region.
    pub region: Region,
    /// Byte offset in the region: a multiple of 16 in the arena and the constants, 0 in a bound buffer.
    pub offset: u64,
}

/// A compute pipeline: a SPIR-V module and its specialization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PipelineSpec {
    /// The module, with its name for messages and for the pipeline cache.
    pub module: &'static Module,
    /// Specialization constants `(constant_id, 32-bit value)`, ascending ids.
    pub constants: Vec<(u32, u32)>,
}

/// One `vkCmdDispatch`. Push constants are the operands' addresses (8 bytes each, in order) followed by
/// `params` (4 bytes each). Kernels take no descriptor sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Index in [`Plan::pipelines`].
    pub pipeline: u32,
    /// Operands whose addresses head the push constants.
    pub operands: Vec<Place>,
    /// 32-bit words after the addresses.
    pub params: Vec<u32>,
    /// Workgroup counts; within the device's limits.
    pub groups: [u32; 3],
    /// A compute-to-compute memory barrier stands before this dispatch, because it reads or overwrites
    /// what an earlier one since the last barrier wrote, or overwrites what one read.
    pub barrier: bool,
    /// `"7 CONV2D+CLAMP conv_implicit.f32 64x64"`: position, operators, kernel, geometry; for `--plan` and traces.
    pub label: String,
}

/// Dispatches that run in a row, and what comes after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Range of [`Plan::dispatches`]; may be empty. The first of them needs no barrier of its own.
    pub dispatches: Range<u32>,
    /// What follows.
    pub next: Next,
}

impl Segment {
    /// The only segment of a plan that decides nothing, with so many dispatches.
    pub fn whole(dispatches: u32) -> Vec<Self> {
        vec![Self { dispatches: 0..dispatches, next: Next::End }]
    }
}

/// What follows a segment; segments are named by their places in [`Plan::segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the plan is done.
    End,
    /// This one.
    Segment(u32),
    /// One of two, by a BOOL that the device has left in [`Region::Decisions`].
    Decide {
        /// Number of the decision.
        decision: u32,
        /// Follows where it is true.
        on_true: u32,
        /// Follows where it is false.
        on_false: u32,
    },
}

/// A bound slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Tensor name.
    pub name: String,
    /// Element type's TOSA name.
    pub dtype: &'static str,
    /// Dimensions.
    pub shape: Vec<u32>,
    /// Exact bytes that a binding must have.
    pub bytes: u64,
}

/// Memory that outlives a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Size; a guest chooses it, so nothing of that size is made before it is granted.
    pub bytes: u64,
    /// Contents before the first submission, by offset; the rest is zeros.
    pub initial: Vec<(u64, Vec<u8>)>,
}

/// What to run for one program. A plan is one submission, and one more for each decision that the host takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Input slots in order.
    pub inputs: Vec<Slot>,
    /// Output slots in order.
    pub outputs: Vec<Slot>,
    /// Distinct pipelines.
    pub pipelines: Vec<PipelineSpec>,
    /// Dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// Segments; the first is where the plan begins. Every way through them comes to an end or a decision.
    pub segments: Vec<Segment>,
    /// Number of decisions.
    pub decisions: u32,
    /// Contents of [`Region::Constants`].
    pub constants: Vec<u8>,
    /// [`Region::State`].
    pub state: State,
    /// Size of [`Region::Arena`].
    pub arena_bytes: u64,
}

impl Plan {
    /// Memory that a program of this plan holds.
    pub fn bytes(&self) -> u64 {
        let decisions = u64::from(self.decisions) * DECISION_BYTES;
        let sizes = [self.constants.len() as u64, self.state.bytes, decisions];
        sizes.into_iter().fold(self.arena_bytes, u64::saturating_add)
    }
}

/// Alignment in bytes of what the executor binds for every region: base address of arena and constants.
pub const REGION_ALIGNMENT: u64 = 256;

/// Bytes of a decision.
pub const DECISION_BYTES: u64 = 16;

/// Alignment in bytes of a bound input or output's address; kernels rely on no more.
pub const BINDING_ALIGNMENT: u64 = 4;
