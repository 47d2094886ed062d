//! vhost-user daemon for a neural-network accelerator device.
//!
//! [`Server`] binds a socket and serves one guest after another on it. A connection has one worker thread
//! a virtqueue, which takes command chains out of the ring and hands them to the device model; the
//! model answers from whatever thread it likes, and the answer goes back through the ring's lock. All that a
//! guest made is dropped when it resets its device, stops all its queues or disconnects.

pub mod args;
mod chain;
pub mod daemon;
mod error;
pub mod list_devices;
mod model;
pub mod print_vmm;
mod ring;
mod server;
mod vhu_accel;
mod vring;
pub mod vulkan_backend;

pub use error::Error;
pub use model::Model;
pub use server::{Server, Stop};
pub use vhu_accel::{MAX_QUEUE_SIZE, MAX_QUEUES};
pub use vulkan_backend::VulkanBackend;
