//! Tests on a real Vulkan device, with the validation layer on where it is installed.
//!
//! Without a device they skip with a note, unless `ACCEL_REQUIRE_DEVICE=1` makes that a failure.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod flow;
mod kernels;
mod memory;
mod run;
mod submit;
mod support;
