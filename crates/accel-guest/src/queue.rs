//! A command queue: requests of any number of threads over one split ring.
//!
//! Nobody polls. Of the threads that wait on a queue one sleeps in the notifier and reaps for all; the
//! others sleep on a condition variable, and one of them takes over when the first leaves. Responses are
//! copied out when they are reaped, so that memory and descriptors come back even when the owner of a
//! request is slow to ask for it.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vm_memory::Bytes;

use crate::arena::Arena;
use crate::memory::DeviceMemory;
use crate::transport::{Notifier, Wake};
use crate::virtqueue::{DESCRIPTOR_BYTES, Descriptor, RingLayout, Used, Virtqueue, write_descriptor};
use crate::{Error, Result};

/// Longest piece of a frame that gets its own descriptor, unless the device allows too few of them.
const PIECE: usize = 1 << 20;

/// What was negotiated for a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueFeatures {
    /// VIRTIO_RING_F_INDIRECT_DESC.
    pub indirect: bool,
    /// VIRTIO_RING_F_EVENT_IDX.
    pub event_idx: bool,
    /// The device's `max_chain_descriptors`.
    pub max_chain: usize,
}

/// A running command queue.
pub struct CommandQueue<M, N> {
    memory: Arc<M>,
    notifier: N,
    features: QueueFeatures,
    ring_size: u16,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ring: Virtqueue,
    arena: Arena,
    next_id: u64,
    /// By head.
    in_flight: HashMap<u16, InFlight>,
    /// By id, until taken.
    results: HashMap<u64, Outcome>,
    /// A thread sleeps in the notifier.
    sleeping: bool,
    failure: Option<Failure>,
    /// Used elements in raw mode.
    raw: Option<VecDeque<Used>>,
}

struct InFlight {
    id: u64,
    block: Range<usize>,
    response: Range<usize>,
}

enum Outcome {
    Waiting,
    Forgotten,
    Done(Vec<u8>),
}

#[derive(Clone, Copy)]
enum Failure {
    Gone,
    Ring(&'static str),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::Gone,
            Failure::Ring(what) => Self::Ring(what),
        }
    }
}

impl<M: DeviceMemory, N: Notifier> CommandQueue<M, N> {
    /// Starts a ring at `layout`, with requests and responses in `arena`.
    ///
    /// # Errors
    /// [`Error::Ring`] when the layout does not fit the memory.
    pub fn new(
        memory: Arc<M>,
        layout: RingLayout,
        arena: Range<usize>,
        features: QueueFeatures,
        notifier: N,
    ) -> Result<Self> {
        let ring = Virtqueue::new(memory.bytes(), layout, features.event_idx)?;
        let state = State {
            ring,
            arena: Arena::new(arena),
            next_id: 0,
            in_flight: HashMap::new(),
            results: HashMap::new(),
            sleeping: false,
            failure: None,
            raw: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(Self { memory, notifier, features, ring_size: layout.size, state, changed })
    }

    /// Queues a request; see [`crate::Transport::submit`]. Returns its id.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Gone`], [`Error::Ring`].
    pub fn submit(&self, request: &[&[u8]], response_capacity: usize) -> Result<u64> {
        let request_bytes: usize = request.iter().map(|part| part.len()).sum();
        // A chain never has more pieces than the device allows, so a table of that many always fits.
        let table_bytes = if self.features.indirect { self.features.max_chain * DESCRIPTOR_BYTES } else { 0 };
        let request_at = table_bytes.next_multiple_of(64);
        let response_at = (request_at + request_bytes).next_multiple_of(64);
        let total = response_at.saturating_add(response_capacity);

        let mut state = self.lock();
        let (block, request_range, response, chain) = loop {
            self.reap(&mut state);
            if let Some(failure) = state.failure {
                return Err(failure.into());
            }
            if let Some(block) = state.arena.allocate(total) {
                let request_range = block.start + request_at..block.start + request_at + request_bytes;
                let response = block.start + response_at..block.start + total;
                let chain = self.chain(request_range.clone(), response.clone());
                let slots = if self.features.indirect { 1 } else { chain.as_ref().map_or(0, Vec::len) };
                if state.ring.free_descriptors() >= slots {
                    break (block, request_range, response, chain);
                }
                state.arena.release(block);
            }
            if state.in_flight.is_empty() {
                return Err(Error::TooLarge { bytes: total, available: state.arena.capacity() });
            }
            state = self.sleep(state, None)?;
        };
        let published =
            chain.and_then(|chain| self.write(&mut state, block.start, request, request_range, &chain));
        let head = match published {
            Ok(head) => head,
            Err(error) => {
                state.arena.release(block);
                return Err(error);
            }
        };
        let id = state.next_id;
        state.next_id += 1;
        state.in_flight.insert(head, InFlight { id, block, response });
        state.results.insert(id, Outcome::Waiting);
        let kick = state.ring.publish(self.memory.bytes(), head)?;
        drop(state);
        if kick {
            self.notifier.kick()?;
        }
        Ok(id)
    }

    /// Sleeps until the response is there; see [`crate::Transport::wait`].
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Gone`], [`Error::Ring`], [`Error::UnknownToken`].
    pub fn wait(&self, id: u64, timeout: Option<Duration>) -> Result<Vec<u8>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            self.reap(&mut state);
            match state.results.get(&id) {
                None | Some(Outcome::Forgotten) => return Err(Error::UnknownToken),
                Some(Outcome::Waiting) => {}
                Some(Outcome::Done(_)) => {
                    if let Some(Outcome::Done(response)) = state.results.remove(&id) {
                        return Ok(response);
                    }
                }
            }
            if let Some(failure) = state.failure {
                return Err(failure.into());
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Error::TimedOut(timeout.unwrap_or_default()));
            }
            state = self.sleep(state, deadline)?;
        }
    }

    /// Drops interest in a request.
    pub fn forget(&self, id: u64) {
        let mut state = self.lock();
        match state.results.get_mut(&id) {
            Some(outcome @ Outcome::Waiting) => *outcome = Outcome::Forgotten,
            Some(_) => drop(state.results.remove(&id)),
            None => {}
        }
    }

    /// Copies the request into its place and writes its chain; returns the head.
    fn write(
        &self,
        state: &mut State,
        table: usize,
        request: &[&[u8]],
        request_range: Range<usize>,
        chain: &[Descriptor],
    ) -> Result<u16> {
        let memory = self.memory.bytes();
        let mut at = request_range.start;
        for part in request {
            memory
                .write_slice(part, at)
                .map_err(|_| Error::Ring("the arena lies outside the shared memory"))?;
            at += part.len();
        }
        if !self.features.indirect {
            return state.ring.add(memory, chain);
        }
        for (index, piece) in chain.iter().enumerate() {
            let next = (index + 1 < chain.len()).then_some(index as u16 + 1);
            write_descriptor(memory, table + index * DESCRIPTOR_BYTES, piece, next)?;
        }
        let (address, contiguous) = self.memory.device_address(table);
        if contiguous < chain.len() * DESCRIPTOR_BYTES {
            return Err(Error::Ring("the indirect table is not contiguous for the device"));
        }
        state.ring.add_indirect(memory, address, chain.len())
    }

    /// Descriptors of a request and its response: pieces of 1 MiB, or longer where that would be more than
    /// the device allows.
    fn chain(&self, request: Range<usize>, response: Range<usize>) -> Result<Vec<Descriptor>> {
        let ring = if self.features.indirect { usize::MAX } else { usize::from(self.ring_size) };
        let limit = self.features.max_chain.min(ring);
        let mut piece = PIECE;
        loop {
            let mut chain = Vec::new();
            self.pieces(request.clone(), piece, false, &mut chain);
            self.pieces(response.clone(), piece, true, &mut chain);
            if chain.len() <= limit {
                return Ok(chain);
            }
            if piece > request.len().max(response.len()) {
                return Err(Error::Ring("the request needs more descriptors than the device allows"));
            }
            piece *= 2;
        }
    }

    /// Appends the device's view of a range.
    fn pieces(&self, range: Range<usize>, piece: usize, writable: bool, chain: &mut Vec<Descriptor>) {
        let mut at = range.start;
        while at < range.end {
            let (address, contiguous) = self.memory.device_address(at);
            let len = (range.end - at).min(contiguous).min(piece).min(1 << 30);
            chain.push(Descriptor { address, len: len as u32, writable });
            at += len.max(1);
        }
    }

    /// Takes every used element; what the device does wrong becomes the queue's failure.
    fn reap(&self, state: &mut State) {
        let mut any = false;
        while state.failure.is_none() {
            match state.ring.pop_used(self.memory.bytes()) {
                Ok(None) => break,
                Ok(Some(used)) => {
                    any = true;
                    self.finish(state, used);
                }
                Err(Error::Ring(what)) => state.failure = Some(Failure::Ring(what)),
                Err(_) => state.failure = Some(Failure::Ring("the used ring cannot be read")),
            }
        }
        if any || state.failure.is_some() {
            self.changed.notify_all();
        }
    }

    fn finish(&self, state: &mut State, used: Used) {
        let request = u16::try_from(used.head).ok().and_then(|head| state.in_flight.remove(&head));
        let Some(request) = request else {
            match &mut state.raw {
                Some(raw) => raw.push_back(used),
                None => state.failure = Some(Failure::Ring("it returned a chain that was not in flight")),
            }
            return;
        };
        state.ring.release(used.head as u16);
        if used.len as usize > request.response.len() {
            state.failure = Some(Failure::Ring("it claims to have written more than the chain has room for"));
            return;
        }
        if matches!(state.results.get(&request.id), Some(Outcome::Forgotten)) {
            state.results.remove(&request.id);
        } else {
            let mut response = vec![0; used.len as usize];
            match self.memory.bytes().read_slice(&mut response, request.response.start) {
                Ok(()) => drop(state.results.insert(request.id, Outcome::Done(response))),
                Err(_) => state.failure = Some(Failure::Ring("the arena lies outside the shared memory")),
            }
        }
        state.arena.release(request.block);
    }

    /// Sleeps until something may have changed or the deadline passed.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, State>> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if state.sleeping {
            return Ok(match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            });
        }
        // Only the thread that is about to sleep in the notifier arms it. Armed by another, a response
        // that this one waits for could be reaped without ever waking it.
        if state.ring.arm(self.memory.bytes())? {
            return Ok(state);
        }
        state.sleeping = true;
        drop(state);
        let woken = self.notifier.sleep(left);
        let mut state = self.lock();
        state.sleeping = false;
        self.reap(&mut state);
        if matches!(woken, Ok(Wake::Gone)) {
            state.failure.get_or_insert(Failure::Gone);
        }
        // Also after a timeout: one of the others has to take over.
        self.changed.notify_all();
        woken.map(|_| state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that a test placed.
#[derive(Clone, Copy, Debug)]
pub struct RawBlock {
    /// The device's address.
    pub address: u64,
    at: usize,
    len: usize,
}

/// Raw access to a ring, for tests that attack a device. Not to be mixed with requests on the same queue:
/// descriptors are written wherever the test says.
impl<M: DeviceMemory, N: Notifier> CommandQueue<M, N> {
    /// Copies `bytes` into fresh memory.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn raw_place(&self, bytes: &[u8]) -> Result<RawBlock> {
        let mut state = self.lock();
        state.raw.get_or_insert_default();
        let too_large = Error::TooLarge { bytes: bytes.len(), available: state.arena.capacity() };
        let block = state.arena.allocate(bytes.len()).ok_or(too_large)?;
        self.memory
            .bytes()
            .write_slice(bytes, block.start)
            .map_err(|_| Error::Ring("the arena lies outside the shared memory"))?;
        Ok(RawBlock { address: self.memory.device_address(block.start).0, at: block.start, len: bytes.len() })
    }

    /// What a block holds now.
    ///
    /// # Errors
    /// [`Error::Ring`] when the block is of another queue's memory.
    pub fn raw_read(&self, block: &RawBlock) -> Result<Vec<u8>> {
        let mut bytes = vec![0; block.len];
        self.memory
            .bytes()
            .read_slice(&mut bytes, block.at)
            .map_err(|_| Error::Ring("the arena lies outside the shared memory"))?;
        Ok(bytes)
    }

    /// Writes one entry of the descriptor table, fields as they are.
    ///
    /// # Errors
    /// [`Error::Ring`] when the index lies outside the shared memory.
    pub fn raw_descriptor(&self, index: u16, address: u64, len: u32, flags: u16, next: u16) -> Result<()> {
        let mut state = self.lock();
        state.raw.get_or_insert_default();
        state.ring.write_raw(self.memory.bytes(), index, address, len, flags, next)
    }

    /// Publishes `head`, advances the available index by `advance` (1 is honest) and kicks.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn raw_publish(&self, head: u16, advance: u16) -> Result<()> {
        let mut state = self.lock();
        state.raw.get_or_insert_default();
        state.ring.publish_raw(self.memory.bytes(), head, advance)?;
        drop(state);
        self.notifier.kick()
    }

    /// The next used element, or `None` when none comes in time.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Ring`].
    pub fn raw_used(&self, timeout: Duration) -> Result<Option<Used>> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        state.raw.get_or_insert_default();
        loop {
            self.reap(&mut state);
            if let Some(used) = state.raw.get_or_insert_default().pop_front() {
                return Ok(Some(used));
            }
            if let Some(failure) = state.failure {
                return Err(failure.into());
            }
            if deadline <= Instant::now() {
                return Ok(None);
            }
            state = self.sleep(state, Some(deadline))?;
        }
    }
}
