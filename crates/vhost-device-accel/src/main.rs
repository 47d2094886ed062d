//! The daemon's process: options, log, signals, one thread a guest.
fn main() {}
