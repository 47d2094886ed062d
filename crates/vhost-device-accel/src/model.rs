//! What the rings need of the device model.

use std::sync::Arc;

/// One command as it came off the ring.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Virtqueue that it came from.
    pub queue: u16,
    /// The request's bytes, or only its header where the request is longer than the device takes.
    pub bytes: &'a [u8],
    /// Readable bytes that the guest offers.
    pub readable_bytes: u64,
    /// Bytes that the guest has room for.
    pub writable_bytes: u64,
}

/// Takes the bytes to write from writable byte 0 on; none means a used length of 0.
pub type Reply = Box<dyn FnOnce(&[u8]) + Send>;

/// A device that executes commands; the rings know no more of the device model than this.
pub trait Model: Send + Sync + 'static {
    /// Device configuration space: begins with an [`accel_proto::ConfigPrefix`].
    fn config_space(&self) -> &[u8];

    /// Executes one command. `reply` is called once with the bytes to write, now or later from
    /// any thread, or dropped uncalled when [`Self::reset`] takes the command away.
    fn handle(self: Arc<Self>, request: Request<'_>, reply: Reply);

    /// Forgets everything that the guest made.
    fn reset(&self);
}
