//! Responses on their way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accel_proto::{HEADER_BYTES, IntoBytes, ObjectId, ResponseHeader, Status};

/// Takes the bytes to write from writable offset 0 on; an empty slice means that nothing is written and the chain
/// is used with length 0. Called at most once, from any thread, with no lock of the device model held: exactly
/// once unless the device is reset or dropped first.
pub type Reply = Box<dyn FnOnce(&[u8]) + Send>;

/// An OK response: its payload behind room for the header.
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// No payload.
    pub(crate) fn empty() -> Self {
        Self::zeroed(0)
    }

    /// A payload of zeros, to be filled.
    pub(crate) fn zeroed(payload_bytes: usize) -> Self {
        Self(vec![0; HEADER_BYTES + payload_bytes])
    }

    /// The concatenation of `parts`.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut answer = Self::empty();
        for part in parts {
            answer.0.extend_from_slice(part);
        }
        answer
    }

    /// An object id.
    pub(crate) fn id(id: u64) -> Self {
        Self::of(&[ObjectId { id: id.into() }.as_bytes()])
    }

    /// The payload.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0[HEADER_BYTES..]
    }
}

/// The answer that a request still waits for. Dropped unsent by a reset.
pub(crate) struct Responder {
    reply: Reply,
    request_id: u64,
    generation: u64,
    /// The device's generation: a reset moves it on, and older requests are no longer answered.
    current: Arc<AtomicU64>,
}

impl Responder {
    pub(crate) fn new(reply: Reply, request_id: u64, current: &Arc<AtomicU64>) -> Self {
        let generation = current.load(Ordering::Acquire);
        Self { reply, request_id, generation, current: Arc::clone(current) }
    }

    /// Answers.
    pub(crate) fn send(self, result: Result<Answer, Status>) {
        if self.current.load(Ordering::Acquire) != self.generation {
            return;
        }
        let (status, Answer(mut frame)) = match result {
            Ok(answer) => (Status::Ok, answer),
            Err(status) => (status, Answer::empty()),
        };
        let payload_bytes = frame.len() - HEADER_BYTES;
        let header = ResponseHeader {
            status: status.code().into(),
            flags: 0.into(),
            payload_bytes: u32::try_from(payload_bytes).unwrap_or(u32::MAX).into(),
            request_id: self.request_id.into(),
        };
        frame[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        (self.reply)(&frame);
    }

    /// Uses the chain with nothing written.
    pub(crate) fn send_nothing(self) {
        (self.reply)(&[]);
    }
}
