//! A backend without an accelerator, for tests of the device model and of what stands on it.
//!
//! Its programs are toys: format id [`FORMAT`], an artifact of little-endian u32 words. Word 0 is the key, and one
//! word a slot follows: its bytes, with bit 31 set for an output. A run makes byte `i` of every output the
//! exclusive or of all inputs' bytes `i` (modulo their lengths) and the key, so key 0 and one input copy. Keys
//! above 255 fail: [`KEY_FAILS`] with INTERNAL_ERROR, [`KEY_LOSES_DEVICE`] by losing the device.
//!
//! One worker thread runs submissions in order of admission. [`NullBackend::hold`] keeps it from beginning any,
//! so that tests can look at work in flight; deadlines and cancellation act on held work.

mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use accel_proto::{MemoryDomain, Status, Usage};

use crate::backend::{Backend, BackendInfo, Bound, LoadError, OnFinish, ProgramSource, SlotInfo};
use worker::{Operand, Task, Worker};

/// Format id of toy programs: "NULL".
pub const FORMAT: u32 = 0x4c4c_554e;
/// Key of a program whose runs fail.
pub const KEY_FAILS: u32 = 0x100;
/// Key of a program whose run loses the device.
pub const KEY_LOSES_DEVICE: u32 = 0x101;
/// Marks an output in a slot's word.
pub const OUTPUT: u32 = 1 << 31;

/// The backend. Dropping it ends its thread; submissions that have not begun then end as cancelled.
pub struct NullBackend {
    info: BackendInfo,
    worker: Arc<Worker>,
    /// What the next allocation, transfer, queue or submission fails with.
    fails_next: Mutex<Option<Status>>,
    loads: Gate,
    reads: Gate,
    refuses_cancel: AtomicBool,
}

/// Where calls wait while a test holds them.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    held: bool,
    waiting: usize,
}

impl Gate {
    fn set_held(&self, held: bool) {
        lock(&self.state).held = held;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let held = self.changed.wait_while(state, |state| state.held);
        held.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }
}

/// Bytes in host memory.
pub struct NullBuffer(Arc<Mutex<Vec<u8>>>);

/// A toy program.
pub struct NullProgram {
    key: u32,
    slots: Vec<SlotInfo>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Artifact of a toy program: its key, and bytes of every slot (or [`OUTPUT`]ed for outputs).
#[must_use]
pub fn artifact(key: u32, slots: &[u32]) -> Vec<u8> {
    [key].iter().chain(slots).flat_map(|word| word.to_le_bytes()).collect()
}

impl NullBackend {
    /// Makes a backend whose largest buffer is 64 MiB.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::with_domains(&[MemoryDomain::Host, MemoryDomain::Device, MemoryDomain::Shared])
    }

    /// Makes a backend that serves these domains only.
    #[must_use]
    pub fn with_domains(domains: &[MemoryDomain]) -> Arc<Self> {
        Arc::new(Self {
            info: BackendInfo {
                uuid: *b"null-accelerator",
                name: "Null accelerator".to_owned(),
                vendor_id: 0x4e,
                device_id: 0x4c,
                class: 0,
                domains: domains.to_vec(),
                max_buffer_bytes: 64 << 20,
                operators_json: "[]".to_owned(),
            },
            worker: Worker::start(),
            fails_next: Mutex::default(),
            loads: Gate::default(),
            reads: Gate::default(),
            refuses_cancel: AtomicBool::new(false),
        })
    }

    /// Keeps submissions from beginning, until `release`.
    pub fn hold(&self) {
        self.worker.set_held(true);
    }

    /// Lets submissions run.
    pub fn release(&self) {
        self.worker.set_held(false);
    }

    /// Keeps loads from returning, or lets them.
    pub fn hold_loads(&self, held: bool) {
        self.loads.set_held(held);
    }

    /// Keeps reads of buffers from returning, or lets them.
    pub fn hold_reads(&self, held: bool) {
        self.reads.set_held(held);
    }

    /// Reads that are kept from returning now.
    pub fn reads_waiting(&self) -> usize {
        lock(&self.reads.state).waiting
    }

    /// Whether cancellation always loses.
    pub fn refuse_cancel(&self, refuses: bool) {
        self.refuses_cancel.store(refuses, Ordering::Relaxed);
    }

    /// Makes the next allocation, transfer, queue or submission fail.
    pub fn fail_next(&self, status: Status) {
        *lock(&self.fails_next) = Some(status);
    }

    fn may_fail(&self) -> Result<(), Status> {
        if self.lost() {
            return Err(Status::DeviceLost);
        }
        lock(&self.fails_next).take().map_or(Ok(()), Err)
    }
}

impl Drop for NullBackend {
    fn drop(&mut self) {
        self.worker.stop();
    }
}

fn malformed(message: &str) -> LoadError {
    LoadError { status: Status::Incompatible, class: 1, message: message.to_owned() }
}

impl Backend for NullBackend {
    type Buffer = NullBuffer;
    type Program = NullProgram;
    type Queue = ();
    type Submission = u64;

    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn allocate(
        &self,
        bytes: u64,
        _alignment: u64,
        _domain: MemoryDomain,
        _usage: Usage,
    ) -> Result<NullBuffer, Status> {
        self.may_fail()?;
        let bytes = usize::try_from(bytes).map_err(|_| Status::OutOfMemory)?;
        Ok(NullBuffer(Arc::new(Mutex::new(vec![0; bytes]))))
    }

    fn write(&self, buffer: &NullBuffer, offset: u64, data: &[u8]) -> Result<(), Status> {
        self.may_fail()?;
        let offset = offset as usize;
        let mut bytes = lock(&buffer.0);
        let range = bytes.get_mut(offset..offset + data.len()).ok_or(Status::InternalError)?;
        range.copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &NullBuffer, offset: u64, data: &mut [u8]) -> Result<(), Status> {
        self.reads.pass();
        self.may_fail()?;
        let offset = offset as usize;
        let bytes = lock(&buffer.0);
        data.copy_from_slice(bytes.get(offset..offset + data.len()).ok_or(Status::InternalError)?);
        Ok(())
    }

    fn load(&self, source: ProgramSource<'_>) -> Result<NullProgram, LoadError> {
        self.loads.pass();
        if source.format != FORMAT {
            let message = format!("The null backend runs no programs of format {:#010x}.", source.format);
            return Err(LoadError { status: Status::Unsupported, class: 4, message });
        }
        let (words, rest) = source.artifact.as_chunks::<4>();
        let [key, slots @ ..] = words else {
            return Err(malformed("The artifact is empty; it begins with a key."));
        };
        if slots.is_empty() || !rest.is_empty() {
            return Err(malformed("The artifact is not a key and at least one slot of four bytes each."));
        }
        let slot = |(index, word): (usize, &[u8; 4])| {
            let (bytes, output) =
                (u32::from_le_bytes(*word) & !OUTPUT, u32::from_le_bytes(*word) & OUTPUT != 0);
            let name = format!("{}{index}", if output { "out" } else { "in" });
            SlotInfo { name, dtype: "UINT8".to_owned(), shape: vec![bytes], bytes: bytes.into(), output }
        };
        Ok(NullProgram { key: u32::from_le_bytes(*key), slots: slots.iter().enumerate().map(slot).collect() })
    }

    fn slots(&self, program: &NullProgram) -> Vec<SlotInfo> {
        program.slots.clone()
    }

    fn create_queue(&self) -> Result<(), Status> {
        self.may_fail()
    }

    fn submit(
        &self,
        _queue: &(),
        program: &NullProgram,
        bindings: &[Bound<'_, NullBuffer>],
        timeout: Option<Duration>,
        on_finish: OnFinish,
    ) -> Result<u64, Status> {
        self.may_fail()?;
        let fits = |(slot, bound): (&SlotInfo, &Bound<'_, NullBuffer>)| {
            slot.bytes == bound.bytes && if slot.output { bound.write } else { bound.read }
        };
        let numbered = bindings.iter().enumerate().all(|(slot, bound)| bound.slot as usize == slot);
        if !numbered || bindings.len() != program.slots.len() || !program.slots.iter().zip(bindings).all(fits)
        {
            return Err(Status::InvalidArgument);
        }
        let operand = |(slot, bound): (&SlotInfo, &Bound<'_, NullBuffer>)| Operand {
            buffer: Arc::clone(&bound.buffer.0),
            start: bound.offset as usize,
            bytes: bound.bytes as usize,
            output: slot.output,
        };
        Ok(self.worker.push(Task {
            key: program.key,
            operands: program.slots.iter().zip(bindings).map(operand).collect(),
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            on_finish,
        }))
    }

    fn cancel(&self, submission: &u64) -> bool {
        !self.refuses_cancel.load(Ordering::Relaxed) && self.worker.cancel(*submission)
    }

    fn lost(&self) -> bool {
        self.worker.lost.load(Ordering::Relaxed)
    }

    fn recover(&self) -> Result<(), Status> {
        self.worker.lost.store(false, Ordering::Relaxed);
        Ok(())
    }
}
