//! The daemon as virtual machine monitors drive it: their orders of messages, replayed over the real device
//! model and a backend that needs no hardware.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod cloud_hypervisor;
mod crosvm;
mod front_end;
mod memory;
mod minimal;
mod qemu;

#[path = "../support/commands.rs"]
mod commands;
#[expect(dead_code, reason = "tests/rings uses more of it")]
#[path = "../support/daemon.rs"]
mod daemon;
#[expect(dead_code, reason = "tests/rings uses more of it")]
#[path = "../support/guest.rs"]
mod guest;
#[expect(dead_code, reason = "the daemon's tests over a stub are in tests/rings")]
#[path = "../support/stub.rs"]
mod stub;
