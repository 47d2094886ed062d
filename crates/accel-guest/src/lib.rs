//! Driver library: one client over several transports.

mod arena;
mod client;
mod error;
mod memory;
mod queue;
mod transport;
mod vhost_user;
pub mod virtqueue;

pub use client::{
    Buffer, Client, Context, Event, EventStatus, Execution, Pending, Program, Queue, SlotBinding, SlotInfo,
};
pub use error::{Error, LoadFailure, Result};
pub use memory::{DeviceMemory, MemfdMemory};
pub use queue::{CommandQueue, QueueFeatures, RawBlock};
pub use transport::{Notifier, Token, Transport, Wake};
pub use vhost_user::{Eventfds, FrontendQueue, FrontendTransport, Options};
