//! Wire format of the virtio-accel protocol.
