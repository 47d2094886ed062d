//! The device model: objects, quotas and command execution over a backend.
