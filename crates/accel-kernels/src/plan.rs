//! A plan: everything that the executor needs to run a graph, and nothing of TOSA.

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

/// What to run for one program. One plan is one submission.
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
    /// Contents of [`Region::Constants`].
    pub constants: Vec<u8>,
    /// [`Region::State`].
    pub state: State,
    /// Size of [`Region::Arena`].
    pub arena_bytes: u64,
}

/// Alignment in bytes of what the executor binds for every region: base address of arena and constants.
pub const REGION_ALIGNMENT: u64 = 256;

/// Alignment in bytes of a bound input or output's address; kernels rely on no more.
pub const BINDING_ALIGNMENT: u64 = 4;
