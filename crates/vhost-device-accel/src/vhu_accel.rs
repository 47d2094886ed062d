//! The vhost-user service of one connection: it lives from a front-end's accept to its disconnect.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accel_device::{Reply, Request};
use accel_proto::{ConfigPrefix, FromBytes};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::VhostUserBackend;
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::{GuestAddressSpace, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::error::Error;
use crate::model::Model;
use crate::ring::{Command, InFlight, Limits, Run};
use crate::vring::{AccelVring, Memory};

/// Largest ring that a front-end may set up.
pub const MAX_QUEUE_SIZE: u16 = 1024;
/// Most queues of a device.
pub const MAX_QUEUES: u16 = 16;

/// One connection's vhost-user service.
pub(crate) struct VhuAccel {
    name: String,
    model: Arc<dyn Model>,
    memory: Memory,
    limits: Limits,
    /// A queue's present run, `None` while it is stopped.
    queues: Vec<Mutex<Option<Arc<Run>>>>,
    closed: AtomicBool,
    exit_fds: Mutex<Vec<RawFd>>,
}

impl VhuAccel {
    /// Makes the service of a connection that `name` names in logs.
    ///
    /// # Errors
    /// The device's configuration space is damaged.
    pub(crate) fn new(
        name: String,
        model: Arc<dyn Model>,
        queues: u16,
        memory: Memory,
    ) -> Result<Arc<Self>, Error> {
        let (config, _) = ConfigPrefix::read_from_prefix(model.config_space())
            .map_err(|_| Error::Config { bytes: model.config_space().len() })?;
        let limits = Limits {
            chain_descriptors: config.max_chain_descriptors.get(),
            request_bytes: config.max_request_bytes.get().into(),
        };
        Ok(Arc::new(Self {
            name,
            model,
            memory,
            limits,
            queues: (0..queues).map(|_| Mutex::new(None)).collect(),
            closed: AtomicBool::new(false),
            exit_fds: Mutex::new(Vec::new()),
        }))
    }

    /// Ends every run: from here on no answer touches guest memory, and no queue starts again.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.stop_all();
    }

    /// Whether the front-end has given guest memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.memory().num_regions() > 0
    }

    /// Stops every queue; whether one was started.
    fn stop_all(&self) -> bool {
        self.queues.iter().fold(false, |started, queue| self.stop(queue) | started)
    }

    fn stop(&self, queue: &Mutex<Option<Arc<Run>>>) -> bool {
        let run = lock(queue).take();
        run.inspect(|run| run.stop()).is_some()
    }

    fn run(&self, index: usize, vring: &AccelVring) -> Option<Arc<Run>> {
        let mut slot = lock(self.queues.get(index)?);
        if slot.is_none() && !self.closed.load(Ordering::Relaxed) {
            let name = format!("{}: queue {index}", self.name);
            *slot = Run::start(name, vring.clone(), self.memory.clone(), self.limits);
        }
        slot.clone()
    }

    fn reset_model(&self, why: &str) {
        log::info!("{}: all guest state dropped ({why})", self.name);
        self.model.reset();
    }

    fn serve(&self, queue: u16, command: Command, bytes: &[u8]) {
        let Command { readable_bytes, writable_bytes, in_flight } = command;
        let request = Request { queue, bytes, readable_bytes, writable_bytes };
        let chain = Arc::new(Mutex::new(Some(in_flight)));
        let reply = reply_once(Arc::clone(&chain));
        let model = Arc::clone(&self.model);
        // A defect of the model costs its guest one answer, not the queue: without this its worker would be gone.
        if catch_unwind(AssertUnwindSafe(|| model.handle(request, reply))).is_err() {
            log::error!(
                "{}: the device failed in a command of queue {queue}, which gets no answer",
                self.name
            );
            reply_once(chain)(&[]);
        }
    }
}

impl Drop for VhuAccel {
    fn drop(&mut self) {
        for fd in lock(&self.exit_fds).drain(..) {
            // SAFETY: the descriptor came from `exit_event`, whose caller gives up ownership of it without closing
            // it (vhost-user-backend 0.24 turns it into a raw descriptor for its epoll). The epoll and the worker
            // threads that used it hold this service, so they are gone.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

impl VhostUserBackend for VhuAccel {
    type Bitmap = ();
    type Vring = AccelVring;

    fn num_queues(&self) -> usize {
        self.queues.len()
    }

    fn max_queue_size(&self) -> usize {
        MAX_QUEUE_SIZE.into()
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_INDIRECT_DESC
            | 1 << VIRTIO_RING_F_EVENT_IDX
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    /// Features are agreed on once after each reset of the device. Where a front-end only disables the queues of a guest
    /// that resets it (cloud-hypervisor), this is the first to tell that from a pause.
    fn acked_features(&self, features: u64) {
        log::info!("{}: features {features:#x} agreed", self.name);
        if self.stop_all() {
            self.reset_model("features were agreed anew");
        }
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    fn reset_device(&self) {
        self.stop_all();
        self.reset_model("the front-end reset the device");
    }

    fn set_event_idx(&self, _enabled: bool) {
        // The vrings are told by the crate.
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let space = self.model.config_space().iter().copied().chain(std::iter::repeat(0));
        space.skip(offset as usize).take(size as usize).collect()
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        let memory = memory.memory();
        for region in memory.iter() {
            check_backing(region)?;
        }
        let bytes: u64 = memory.iter().map(GuestMemoryRegion::len).sum();
        log::info!("{}: guest memory of {} MiB in {} regions", self.name, bytes >> 20, memory.num_regions());
        // Whoever still uses the memory of before is out of it when the front-end gets its answer.
        for queue in &self.queues {
            if let Some(run) = &*lock(queue) {
                run.settle();
            }
        }
        Ok(())
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        (0..self.queues.len()).map(|index| 1 << index).collect()
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        match new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC) {
            Ok((consumer, notifier)) => {
                lock(&self.exit_fds).push(consumer.as_raw_fd());
                Some((consumer, notifier))
            }
            Err(error) => {
                log::error!("{}: no event descriptor for a worker thread: {error}", self.name);
                None
            }
        }
    }

    /// A guest that reboots or unbinds its driver stops every queue; what it made goes with the last one.
    fn stop_vring(&self, index: u32) -> io::Result<()> {
        let Some(queue) = self.queues.get(index as usize) else { return Ok(()) };
        if self.stop(queue) && self.queues.iter().all(|queue| lock(queue).is_none()) {
            self.reset_model("the guest stopped every queue");
        }
        Ok(())
    }

    /// One worker thread a queue: `thread` is the queue's index, and its only vring has number 0.
    fn handle_event(
        &self,
        _event: u16,
        _events: EventSet,
        vrings: &[AccelVring],
        thread: usize,
    ) -> io::Result<()> {
        let Some(run) = vrings.first().and_then(|vring| self.run(thread, vring)) else { return Ok(()) };
        run.drain(|command, bytes| self.serve(thread as u16, command, bytes));
        run.warn_if_nothing_ever_came();
        Ok(())
    }
}

/// Refuses a region whose file ends before the region does: touching the missing part would kill the process.
fn check_backing(region: &<GuestMemoryMmap as GuestMemoryBackend>::R) -> io::Result<()> {
    let Some(backing) = region.file_offset() else { return Ok(()) };
    let file = backing.file().metadata()?;
    let end = backing.start().saturating_add(region.len());
    if file.is_file() && file.len() < end {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a memory region needs a file of {end} bytes, but the file has {}", file.len()),
        ));
    }
    Ok(())
}

/// Completes a chain unless another reply to it already did.
fn reply_once(chain: Arc<Mutex<Option<InFlight>>>) -> Reply {
    Box::new(move |response| {
        let in_flight = lock(&chain).take();
        if let Some(in_flight) = in_flight {
            in_flight.complete(response);
        }
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section here leaves its value whole, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
