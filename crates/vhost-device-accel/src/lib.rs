//! vhost-user daemon for a neural-network accelerator device.
