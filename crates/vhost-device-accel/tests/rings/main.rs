//! The daemon as a VMM and a guest see it: a vhost-user front-end over a real socket, guest memory in a
//! shared file, and rings that are written byte by byte, so that they can be wrong in every way. The
//! device model behind is a stub, because what counts here is what crosses the rings.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod bad_chains;
mod bad_front_ends;
mod life_cycle;
mod null_device;
mod round_trip;

#[path = "../support/commands.rs"]
mod commands;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/guest.rs"]
mod guest;
#[path = "../support/stub.rs"]
mod stub;
