//! The device model: objects, quotas and command execution over a backend.
//!
//! [`Device`] answers requests of the wire format: it checks each frame in the documented order, keeps the guest's
//! contexts, buffers, programs, execution queues and events, and runs programs on a [`Backend`]. It knows no
//! sockets, no virtqueues and no GPU. Answers come through a [`Reply`], at once or when work ends.
#![forbid(unsafe_code)]

mod answer;
pub mod backend;
mod command;
mod config;
mod device;
mod events;
mod load;
mod memory;
pub mod null;
mod objects;
mod query;
mod state;
mod submit;
mod table;
mod timer;
mod transfer;

pub use answer::Reply;
pub use backend::Backend;
pub use config::DeviceConfig;
pub use device::{Device, Request};
