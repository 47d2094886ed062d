//! Driver library: one client over several transports.
