//! Command line of the accelerator device.
fn main() {}
