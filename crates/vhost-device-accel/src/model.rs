//! What the rings need of the device model.

use std::sync::Arc;

use accel_device::{Backend, Device, Reply, Request};

/// A device that executes commands: [`Device`] over any backend. The rings know no more of it than this.
pub trait Model: Send + Sync + 'static {
    /// Device configuration space: begins with an [`accel_proto::ConfigPrefix`].
    fn config_space(&self) -> &[u8];

    /// Executes one command. `reply` is called once with the bytes to write, now or later from
    /// any thread, or dropped uncalled when [`Self::reset`] takes the command away.
    fn handle(self: Arc<Self>, request: Request<'_>, reply: Reply);

    /// Forgets everything that the guest made.
    fn reset(&self);
}

impl<B: Backend> Model for Device<B> {
    fn config_space(&self) -> &[u8] {
        self.config_space()
    }

    fn handle(self: Arc<Self>, request: Request<'_>, reply: Reply) {
        Self::handle(&self, request, reply);
    }

    fn reset(&self) {
        self.reset();
    }
}
