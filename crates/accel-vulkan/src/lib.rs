//! Runs a [`Plan`](accel_kernels::Plan) on a Vulkan 1.3 device.
//!
//! [`devices`] lists what there is, [`Engine::open`] opens one, [`Engine::allocate`] makes buffers,
//! [`Engine::load`] turns a plan into a [`Program`], and [`ExecQueue::submit`] runs it and calls back
//! when the device has finished.
//!
//! # The unsafe contract
//! Vulkan trusts its caller. Every `unsafe` block of this crate relies on these rules, and says which:
//!
//! * **Alive.** A handle is used only while the object that made it lives. Every object holds an
//!   `Arc<Core>`, the core holds the device, the instance and the loader, and each destroys what it made in
//!   its `Drop`, before its parent.
//! * **Idle.** Nothing is destroyed while the device uses it: a job owns references to its program, its
//!   recorded commands and its buffers until its timeline value is reached; staging waits for its own
//!   transfers; work that outlives the watchdog is leaked rather than freed.
//! * **Exclusive.** Objects that Vulkan calls externally synchronized are reached through a mutex (queue,
//!   staging pool, window slots) or `&mut`/sole ownership (command pools, destruction).
//! * **In range.** Host access to mapped memory is checked against the buffer's size first, and only
//!   host-coherent memory is mapped. Addresses given to kernels come from live buffers whose ranges were
//!   checked; that a kernel stays inside its operands is the promise of `accel-kernels`.
//! * **Well-formed.** Structures passed to Vulkan live until the call returns, and only features and
//!   extensions that the device reported are enabled or used.

mod cache;
mod completion;
mod core;
mod engine;
mod error;
mod features;
mod instance;
mod matrices;
mod memory;
mod pipeline;
mod program;
mod queue;
mod record;
mod select;
mod staging;
mod submit;
mod window;

pub use engine::{Engine, EngineOptions};
pub use error::Error;
pub use memory::{Buffer, MemoryKind};
pub use program::Program;
pub use queue::{Binding, ExecQueue, Ticket};
pub use select::{DeviceSummary, Selector, devices};
pub use submit::{Failure, Finished, OnFinish, Outcome};
