//! Driver library: one client over several transports.
//!
//! [`Client`] has a typed call for every command and works over any [`Transport`]. [`FrontendTransport`] is the
//! host-side one: it plays virtual machine monitor and guest at once, so a daemon can be driven without a
//! virtual machine. Inside a guest [`CharDevice`] goes through the node of the kernel module in `kmod/`, and [`UioTransport`] drives
//! the device itself, as root and without that module. [`CommandQueue`] and [`virtqueue`] know nothing of vhost-user: a
//! transport for another bus brings its own [`DeviceMemory`] and [`Notifier`].
//!
//! ```no_run
//! # fn main() -> accel_guest::Result<()> {
//! use accel_guest::{Client, FrontendTransport, Options, SlotBinding};
//! use accel_proto::{Access, Usage};
//!
//! let client = Client::new(FrontendTransport::connect("/run/accel.sock", Options::default())?)?;
//! let context = client.create_context()?;
//! let program = client.load_tosa(context, &std::fs::read("model.tosa").unwrap(), |_| ())?;
//! let queue = client.create_queue(context)?;
//! let mut bindings = Vec::new();
//! for (slot, info) in client.slots(program)?.into_iter().enumerate() {
//!     let (usage, access) = match info.output {
//!         true => (Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE, Access::Write),
//!         false => (Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION, Access::Read),
//!     };
//!     let buffer = client.allocate_buffer(context, info.bytes, client.transfer_domain(), usage)?;
//!     bindings.push(SlotBinding { slot: slot as u32, buffer, offset: 0, bytes: info.bytes, access });
//! }
//! client.write_buffer(bindings[0].buffer, 0, &[0; 256])?;
//! // Any number may be in flight; runs of one queue happen in order.
//! let runs = [client.execute_async(queue, program, &bindings, None)?];
//! for run in runs {
//!     println!("{:?}", run.wait()?.gpu_ns);
//! }
//! # Ok(())
//! # }
//! ```

mod arena;
mod chardev;
mod client;
mod error;
mod memory;
mod queue;
mod transport;
mod uio;
mod vhost_user;
pub mod virtqueue;

pub use chardev::CharDevice;
pub use client::{
    Buffer, Client, Context, Event, EventStatus, Execution, Pending, Program, Queue, SlotBinding, SlotInfo,
};
pub use error::{Error, LoadFailure, Result};
pub use memory::{DeviceMemory, MemfdMemory};
pub use queue::{CommandQueue, QueueFeatures, RawBlock};
pub use transport::{Notifier, Token, Transport, Wake};
pub use uio::{UioOptions, UioTransport};
pub use vhost_user::{Eventfds, FrontendQueue, FrontendTransport, Options};
