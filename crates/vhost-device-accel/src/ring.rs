//! One virtqueue between its start and its stop: taking commands out and putting answers back.
//!
//! Answers come from other threads and may come late. Everything that touches guest memory holds
//! the vring's lock and looks first whether this run still lives; [`Run::stop`] takes the same
//! lock, so nothing is written once it has returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use thiserror::Error;
use vhost_user_backend::{VringState, VringT};
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{DescriptorChain, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryMmap};

use crate::chain::{Chain, ChainFault};
use crate::vring::{AccelVring, Memory};

/// Frame limits that the rings apply, from the device's configuration space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Descriptors in a chain, after flattening.
    pub(crate) chain_descriptors: u16,
    /// Bytes gathered of a request.
    pub(crate) request_bytes: u64,
}

/// Bytes handed over of a request that is beyond [`Limits::request_bytes`]: its header, so that it can be refused.
const HEADER_BYTES: usize = accel_proto::HEADER_BYTES;

/// Why a ring is given up until the guest starts it again.
#[derive(Debug, Error)]
enum RingFault {
    #[error("its rings do not lie in guest memory")]
    Misplaced,
    #[error("its available index or an entry of its available ring is out of range")]
    Corrupt(#[source] virtio_queue::Error),
    #[error("its available ring cannot be read")]
    Unreadable,
    #[error("descriptor {0} was made available, but the queue has no such descriptor")]
    NoSuchDescriptor(u16),
    #[error("descriptors were made available again before their chains completed")]
    Reused,
}

/// What a look into the available ring brought.
enum Fetched {
    Nothing,
    /// A chain that is no command; it is completed already.
    Refused,
    Command(Command),
}

/// A command taken from the ring.
pub(crate) struct Command {
    /// Readable bytes that the guest offers.
    pub(crate) readable_bytes: u64,
    /// Bytes that the guest has room for.
    pub(crate) writable_bytes: u64,
    /// Where the answer goes.
    pub(crate) in_flight: InFlight,
}

/// A started virtqueue.
pub(crate) struct Run {
    name: String,
    vring: AccelVring,
    memory: Memory,
    limits: Limits,
    /// Changed only under the vring's lock.
    live: AtomicBool,
    /// Given up because of a [`RingFault`].
    broken: AtomicBool,
    /// Times that the ring was looked at: once at its start, then once a kick.
    wake_ups: AtomicUsize,
    /// Something was found in the ring, ever.
    fetched: AtomicBool,
    /// Chains taken and not completed.
    in_flight: AtomicUsize,
}

impl Run {
    /// Starts a ring that is set up; `None` while it is not ready and enabled.
    pub(crate) fn start(
        name: String,
        vring: AccelVring,
        memory: Memory,
        limits: Limits,
    ) -> Option<Arc<Self>> {
        let run = Arc::new(Self {
            name,
            vring,
            memory,
            limits,
            live: AtomicBool::new(true),
            broken: AtomicBool::new(false),
            wake_ups: AtomicUsize::new(0),
            fetched: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
        });
        let state = run.vring.get_mut();
        if !run.is_active(&state) {
            return None;
        }
        let queue = state.get_queue();
        let event_idx = if queue.event_idx_enabled() { ", event index" } else { "" };
        log::info!("{} started: {} entries{event_idx}", run.name, queue.size());
        let placed = queue.is_valid(&*run.memory.memory());
        drop(state);
        if !placed {
            run.give_up(&RingFault::Misplaced);
        }
        Some(run)
    }

    /// Ends the run. Once this returns no answer touches guest memory any more.
    pub(crate) fn stop(&self) {
        let _state = self.vring.get_mut();
        self.live.store(false, Ordering::Relaxed);
        log::info!("{} stopped", self.name);
    }

    /// Waits for whoever is reading or writing guest memory through this ring.
    pub(crate) fn settle(&self) {
        drop(self.vring.get_mut());
    }

    /// Takes every command that is available and hands it to `serve`, together with the bytes of its
    /// request, until the ring is empty and the guest has been told to kick for the next one.
    pub(crate) fn drain(self: &Arc<Self>, mut serve: impl FnMut(Command, &[u8])) {
        let mut bytes = Vec::new();
        loop {
            if let Err(error) = self.silence_kicks() {
                return self.give_up(&RingFault::Corrupt(error));
            }
            loop {
                match self.fetch(&mut bytes) {
                    Ok(Fetched::Command(command)) => serve(command, &bytes),
                    Ok(Fetched::Refused) => {}
                    Ok(Fetched::Nothing) => break,
                    Err(fault) => return self.give_up(&fault),
                }
            }
            match self.ask_for_kick() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.give_up(&RingFault::Corrupt(error)),
            }
        }
    }

    /// Tells a user whose guest memory is private why nothing happens: the guest's first kick finds the ring
    /// empty. It is the third wake-up: before it come ours at the start of the ring, and QEMU's, which kicks
    /// every ring that it starts.
    pub(crate) fn warn_if_nothing_ever_came(&self) {
        let guest_kicked = self.wake_ups.fetch_add(1, Ordering::Relaxed) == 2;
        if guest_kicked && !self.fetched.load(Ordering::Relaxed) && !self.broken.load(Ordering::Relaxed) {
            log::warn!(
                "{} was kicked, but its ring is empty; if the guest hangs now, its memory is not shared with this \
                 process (QEMU: memory-backend-memfd with share=on; cloud-hypervisor: --memory shared=on)",
                self.name
            );
        }
    }

    fn is_active(&self, state: &VringState<Memory>) -> bool {
        self.live.load(Ordering::Relaxed)
            && !self.broken.load(Ordering::Relaxed)
            && state.get_queue().ready()
            && state.is_enabled()
    }

    fn give_up(&self, fault: &RingFault) {
        self.broken.store(true, Ordering::Relaxed);
        log::error!("{} is ignored until the guest resets the device: {fault}", self.name);
    }

    fn silence_kicks(&self) -> Result<(), virtio_queue::Error> {
        let mut state = self.vring.get_mut();
        if self.is_active(&state) { state.disable_notification() } else { Ok(()) }
    }

    /// Whether more came in while notifications were off.
    fn ask_for_kick(&self) -> Result<bool, virtio_queue::Error> {
        let mut state = self.vring.get_mut();
        if self.is_active(&state) { state.enable_notification() } else { Ok(false) }
    }

    /// Takes one chain and gathers its request into `bytes`; a bad one is completed empty here.
    fn fetch(self: &Arc<Self>, bytes: &mut Vec<u8>) -> Result<Fetched, RingFault> {
        let mut state = self.vring.get_mut();
        if !self.is_active(&state) {
            return Ok(Fetched::Nothing);
        }
        let memory = self.memory.memory();
        let queue = state.get_queue_mut();
        let available = queue.avail_idx(&*memory, Ordering::Acquire).map_err(RingFault::Corrupt)?;
        if available.0 == queue.next_avail() {
            return Ok(Fetched::Nothing);
        }
        self.fetched.store(true, Ordering::Relaxed);
        if self.in_flight.load(Ordering::Relaxed) >= usize::from(queue.size()) {
            return Err(RingFault::Reused);
        }
        let descriptors =
            queue.iter(&*memory).map_err(RingFault::Corrupt)?.next().ok_or(RingFault::Unreadable)?;
        let head = descriptors.head_index();
        if head >= queue.size() {
            return Err(RingFault::NoSuchDescriptor(head));
        }
        match self.take(descriptors, &memory, bytes) {
            Ok(chain) => {
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                Ok(Fetched::Command(Command {
                    readable_bytes: chain.readable_bytes(),
                    writable_bytes: chain.writable_bytes(),
                    in_flight: InFlight { run: Arc::clone(self), head, chain },
                }))
            }
            Err(fault) => {
                log::debug!("{}: the chain at descriptor {head} is no command: {fault}", self.name);
                self.put_used(&mut state, &memory, head, 0);
                Ok(Fetched::Refused)
            }
        }
    }

    fn take(
        &self,
        descriptors: DescriptorChain<&GuestMemoryMmap>,
        memory: &GuestMemoryMmap,
        bytes: &mut Vec<u8>,
    ) -> Result<Chain, ChainFault> {
        let chain = Chain::check(descriptors, memory, self.limits.chain_descriptors)?;
        let wanted = if chain.readable_bytes() > self.limits.request_bytes {
            HEADER_BYTES
        } else {
            chain.readable_bytes() as usize
        };
        chain.gather(memory, wanted, bytes)?;
        Ok(chain)
    }

    fn put_used(&self, state: &mut VringState<Memory>, memory: &GuestMemoryMmap, head: u16, bytes: u32) {
        let told = state.add_used(head, bytes).and_then(|()| wants_interrupt(state, memory));
        match told {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = state.signal_used_queue() {
                    log::warn!("{}: the guest could not be interrupted: {error}", self.name);
                }
            }
            Err(error) => self.give_up(&RingFault::Corrupt(error)),
        }
    }
}

/// Whether the guest asks for an interrupt after what was just put into the used ring.
fn wants_interrupt(
    state: &mut VringState<Memory>,
    memory: &GuestMemoryMmap,
) -> Result<bool, virtio_queue::Error> {
    if state.get_queue().event_idx_enabled() {
        return state.needs_notification();
    }
    // virtio-queue leaves the flag of rings without event index to us. The used index must be visible before the flag is read.
    fence(Ordering::SeqCst);
    let flags: u16 = memory
        .load(GuestAddress(state.get_queue().avail_ring()), Ordering::Relaxed)
        .map_err(virtio_queue::Error::GuestMemory)?;
    Ok(u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT == 0)
}

/// A chain that was taken and waits for its answer; dropped uncompleted it is gone without one.
pub(crate) struct InFlight {
    run: Arc<Run>,
    head: u16,
    chain: Chain,
}

impl InFlight {
    /// Writes `response` and gives the chain back, unless the ring was stopped since. The guest's
    /// addresses are looked up in the memory of now: what was unplugged meanwhile is not written.
    pub(crate) fn complete(self, response: &[u8]) {
        let run = Arc::clone(&self.run);
        let mut state = run.vring.get_mut();
        if !run.live.load(Ordering::Relaxed) {
            return;
        }
        let memory = run.memory.memory();
        let written = self.write(&memory, response);
        let head = self.head;
        // Leave the count before the guest can see the chain and reuse its descriptor.
        drop(self);
        run.put_used(&mut state, &memory, head, written);
    }

    fn write(&self, memory: &GuestMemoryMmap, response: &[u8]) -> u32 {
        if response.len() as u64 > self.chain.writable_bytes() {
            log::error!(
                "{}: an answer of {} bytes does not fit the {} that the guest gave; it is left out",
                self.run.name,
                response.len(),
                self.chain.writable_bytes()
            );
            return 0;
        }
        match self.chain.scatter(memory, response) {
            Ok(()) => response.len() as u32,
            Err(error) => {
                log::warn!("{}: an answer could not be written: {error}", self.run.name);
                0
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.run.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
