//! Lowers a TOSA graph to a plan of Vulkan kernels. No Vulkan calls.
//!
//! `lower/` has a file a kernel family; each turns an operator into launches on a [`builder`], whose values
//! have no addresses yet. [`finish`] then packs the arena, decides which kernels write straight into output
//! slots and where barriers stand. The kernels themselves are in the workspace's `shaders/`.
#![forbid(unsafe_code)]

mod arena;
mod blocks;
mod builder;
mod caps;
mod chain;
mod encoded;
mod epilogue;
mod finish;
mod flow;
mod fold;
mod fuse;
mod lower;
mod module;
mod operators;
mod plan;
mod probe;
mod row;
mod row_program;
mod stage;
mod tuning;
mod widen;

pub use caps::{DeviceCaps, DeviceKind, MatrixGeometry, MatrixTuple};
pub use lower::lower;
pub use module::{MODULES, Module, manifest, module};
pub use operators::{OperatorSupport, operators, operators_json, operators_markdown};
pub use plan::{
    BINDING_ALIGNMENT, DECISION_BYTES, Dispatch, Next, PipelineSpec, Place, Plan, REGION_ALIGNMENT, Region,
    Segment, Slot, State,
};
pub use probe::MatrixProbe;
pub use tuning::{Tuning, TuningError};
