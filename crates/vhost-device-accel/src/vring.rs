//! The vring of the rust-vmm crates, with queue sizes checked before they are used.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use vhost_user_backend::{VringMutex, VringState, VringStateGuard, VringStateMutGuard, VringT};
use virtio_queue::Error as QueueError;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Guest memory as the vhost-user crates share it: replaced as a whole when regions change.
pub(crate) type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A [`VringMutex`] that refuses a ring size that is no power of two and takes any kick.
///
/// The inner ring ignores such a size and would go on with the one before, reading rings at
/// the wrong places. Here the next SET_VRING_ADDR fails, and the ring never starts.
///
/// A kick may be gone when its worker comes to read it: the ring was stopped and started again
/// with another descriptor in between. The inner ring would then end the worker, or wait with its lock
/// held where the descriptor blocks (crosvm's do).
#[derive(Clone)]
pub struct AccelVring {
    inner: VringMutex<Memory>,
    size_refused: Arc<AtomicBool>,
}

impl AccelVring {
    fn size_refused(&self) -> bool {
        self.size_refused.load(Ordering::Relaxed)
    }
}

impl<'a> VringStateGuard<'a, Memory> for AccelVring {
    type G = MutexGuard<'a, VringState<Memory>>;
}

impl<'a> VringStateMutGuard<'a, Memory> for AccelVring {
    type G = MutexGuard<'a, VringState<Memory>>;
}

impl VringT<Memory> for AccelVring {
    fn new(memory: Memory, max_queue_size: u16) -> Result<Self, QueueError> {
        Ok(Self { inner: VringMutex::new(memory, max_queue_size)?, size_refused: Arc::default() })
    }

    fn set_queue_size(&self, size: u16) {
        let refused = !size.is_power_of_two();
        self.size_refused.store(refused, Ordering::Relaxed);
        if refused {
            log::error!("the front-end asked for a ring of {size} entries; only powers of two are allowed");
        } else {
            self.inner.set_queue_size(size);
        }
    }

    fn set_queue_info(&self, descriptors: u64, available: u64, used: u64) -> Result<(), QueueError> {
        if self.size_refused() {
            return Err(QueueError::InvalidSize);
        }
        self.inner.set_queue_info(descriptors, available, used)
    }

    fn set_queue_ready(&self, ready: bool) {
        self.inner.set_queue_ready(ready && !self.size_refused());
    }

    fn get_ref(&self) -> MutexGuard<'_, VringState<Memory>> {
        self.inner.get_ref()
    }

    fn get_mut(&self) -> MutexGuard<'_, VringState<Memory>> {
        self.inner.get_mut()
    }

    fn add_used(&self, head: u16, bytes: u32) -> Result<(), QueueError> {
        self.inner.add_used(head, bytes)
    }

    fn signal_used_queue(&self) -> io::Result<()> {
        self.inner.signal_used_queue()
    }

    fn enable_notification(&self) -> Result<bool, QueueError> {
        self.inner.enable_notification()
    }

    fn disable_notification(&self) -> Result<(), QueueError> {
        self.inner.disable_notification()
    }

    fn needs_notification(&self) -> Result<bool, QueueError> {
        self.inner.needs_notification()
    }

    fn set_enabled(&self, enabled: bool) {
        self.inner.set_enabled(enabled);
    }

    fn queue_next_avail(&self) -> u16 {
        self.inner.queue_next_avail()
    }

    fn set_queue_next_avail(&self, base: u16) {
        self.inner.set_queue_next_avail(base);
    }

    fn set_queue_next_used(&self, index: u16) {
        self.inner.set_queue_next_used(index);
    }

    fn queue_used_idx(&self) -> Result<u16, QueueError> {
        self.inner.queue_used_idx()
    }

    fn set_queue_event_idx(&self, enabled: bool) {
        self.inner.set_queue_event_idx(enabled);
    }

    fn set_kick(&self, file: Option<File>) {
        self.inner.set_kick(file.map(|file| {
            // The standard library sets this only on sockets, but asks the kernel in a way that holds for any descriptor.
            let descriptor = UnixStream::from(OwnedFd::from(file));
            if let Err(error) = descriptor.set_nonblocking(true) {
                log::warn!("a queue's kick descriptor may block its worker: {error}");
            }
            File::from(OwnedFd::from(descriptor))
        }));
    }

    fn read_kick(&self) -> io::Result<bool> {
        match self.inner.read_kick() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(self.get_ref().is_enabled()),
            kick => kick,
        }
    }

    fn set_call(&self, file: Option<File>) {
        self.inner.set_call(file);
    }

    fn set_err(&self, file: Option<File>) {
        self.inner.set_err(file);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vm_memory::GuestMemoryMmap;

    use super::*;

    #[test]
    fn a_kick_that_is_gone_neither_fails_nor_blocks() {
        let vring = AccelVring::new(Memory::new(GuestMemoryMmap::new()), 8).unwrap();
        vring.set_enabled(true);
        // A pipe blocks as an event descriptor may, and can be made without unsafe code.
        let (kick, mut guest) = io::pipe().unwrap();
        vring.set_kick(Some(File::from(OwnedFd::from(kick))));
        assert!(vring.read_kick().unwrap());
        guest.write_all(&1_u64.to_ne_bytes()).unwrap();
        assert!(vring.read_kick().unwrap());
        vring.set_enabled(false);
        assert!(!vring.read_kick().unwrap());
    }
}
