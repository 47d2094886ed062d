//! The device: how a request goes through the checks to its command, and reset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accel_proto::{
    ConfigSpace, DeviceInfo, FromBytes, HEADER_BYTES, IntoBytes, RequestHeader, Status, decode_request,
};

use crate::answer::{Answer, Reply, Responder};
use crate::backend::Backend;
use crate::command::Command;
use crate::config::DeviceConfig;
use crate::memory::Budget;
use crate::state::State;
use crate::timer::Timer;

/// A guest's device over a backend.
pub struct Device<B: Backend> {
    pub(crate) backend: Arc<B>,
    pub(crate) config: DeviceConfig,
    config_space: ConfigSpace,
    pub(crate) info: DeviceInfo,
    state: Mutex<State<B>>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) timer: Timer,
    /// Resets so far.
    generation: Arc<AtomicU64>,
}

/// One chain of a command virtqueue.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Index of the virtqueue, for logs.
    pub queue: u16,
    /// The whole readable part, or at least its first 16 bytes where `readable_bytes` exceeds the limit.
    pub bytes: &'a [u8],
    /// Bytes of the readable part.
    pub readable_bytes: u64,
    /// Bytes of the writable part.
    pub writable_bytes: u64,
}

impl<B: Backend> Device<B> {
    /// Makes a device without objects.
    pub fn new(backend: Arc<B>, config: DeviceConfig) -> Arc<Self> {
        let config = config.sanitized();
        Arc::new(Self {
            config_space: config.config_space(),
            info: config.device_info(backend.info()),
            state: Mutex::default(),
            budget: Budget::new(config.memory_limit_bytes),
            timer: Timer::new(),
            generation: Arc::default(),
            backend,
            config,
        })
    }

    /// Configuration space: 64 bytes, constant.
    #[must_use]
    pub fn config_space(&self) -> &[u8] {
        self.config_space.as_bytes()
    }

    /// Bytes that the guest's buffers and programs hold.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        self.budget.used()
    }

    /// Whether nothing but a reset helps any more.
    #[must_use]
    pub fn needs_reset(&self) -> bool {
        self.lock().needs_reset || self.backend.lost()
    }

    /// Carries out a request. `reply` is called exactly once, in this call or later, unless a reset comes first.
    /// Transfers and loads take place in this call; it waits for no submission.
    pub fn handle(self: &Arc<Self>, request: Request<'_>, reply: Reply) {
        let Ok((header, _)) = RequestHeader::read_from_prefix(request.bytes) else {
            return reply(&[]);
        };
        let responder = Responder::new(reply, header.request_id.get(), &self.generation);
        if request.writable_bytes < HEADER_BYTES as u64 {
            return responder.send_nothing();
        }
        let frame = match decode_request(request.bytes, request.readable_bytes, self.config.max_request_bytes)
        {
            Ok(frame) => frame,
            Err(error) => {
                log::debug!("Queue {}: {error}", request.queue);
                return responder.send(Err(error.status().unwrap_or(Status::InvalidArgument)));
            }
        };
        log::trace!("Queue {}: {} request {}", request.queue, frame.opcode, frame.request_id);
        let command = match Command::parse(frame.opcode, frame.payload, &self.info) {
            Ok(command) => command,
            Err(status) => return responder.send(Err(status)),
        };
        let required = command.required_response(frame.opcode);
        if required > u64::from(self.config.max_response_bytes) {
            return responder.send(Err(Status::ResourceLimit));
        }
        if request.writable_bytes < required {
            return responder.send_nothing();
        }
        if self.needs_reset() {
            return responder.send(Err(Status::DeviceLost));
        }
        self.run(command, request.writable_bytes, responder);
    }

    fn run(self: &Arc<Self>, command: Command<'_>, writable: u64, responder: Responder) {
        let answer = match command {
            Command::Execute(submission) => return self.execute(&submission, responder),
            Command::WaitEvent { event, timeout_ns } => return self.wait_event(event, timeout_ns, responder),
            Command::CancelEvent(event) => return self.cancel_event(event, responder),
            Command::GetDeviceInfo => Ok(Answer::of(&[self.info.as_bytes()])),
            Command::CreateContext => self.create_context(),
            Command::DestroyContext(id) => self.destroy_context(id),
            Command::AllocateBuffer(allocation) => self.allocate_buffer(&allocation),
            Command::FreeBuffer(id) => self.free_buffer(id),
            Command::WriteBuffer { at, data } => self.write_buffer(&at, data),
            Command::ReadBuffer(at) => self.read_buffer(&at),
            Command::CopyBuffer { source, destination } => self.copy_buffer(source, destination),
            Command::LoadProgram { program, artifact } => self.load_program(&program, artifact),
            Command::LoadProgramFromBuffer { program, at } => self.load_program_from_buffer(&program, &at),
            Command::UnloadProgram(id) => self.unload_program(id),
            Command::CreateQueue(context) => self.create_queue(context),
            Command::DestroyQueue(id) => self.destroy_queue(id),
            Command::Submit(submission) => self.submit(&submission),
            Command::PollEvent(id) => self.poll_event(id),
            Command::DestroyEvent(id) => self.destroy_event(id),
            Command::Query { topic, object, offset } => self.query(topic, object, offset, writable),
        };
        responder.send(answer);
    }

    /// Drops every object of the guest and every answer still owed, cancels what can be cancelled, and waits for
    /// nothing: what cannot be cancelled ends unheard. An answer that another thread is sending at this very
    /// moment may still come; the caller tells it by its own generation of the rings.
    pub fn reset(&self) {
        let old = {
            let mut state = self.lock();
            self.generation.fetch_add(1, Ordering::AcqRel);
            self.timer.clear();
            let ids = std::mem::take(&mut state.ids);
            std::mem::replace(&mut *state, State { ids, ..State::default() })
        };
        for job in old.jobs.values().filter(|job| job.finished.is_none()) {
            if let Some(submission) = &job.submission {
                self.backend.cancel(submission);
            }
        }
        // Children before parents.
        drop(old.jobs);
        drop(old.queues);
        drop(old.programs);
        drop(old.buffers);
        if self.backend.lost()
            && let Err(status) = self.backend.recover()
        {
            log::error!("The accelerator was lost and could not be made anew: {status}.");
        }
    }

    /// The objects; not to be held while the backend works.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what the backend says, and makes it a status to send.
    pub(crate) fn failure(&self, status: Status) -> Status {
        if status == Status::DeviceLost {
            self.lock().needs_reset = true;
        }
        // A failure that calls itself OK is the backend's own error.
        if status == Status::Ok { Status::InternalError } else { status }
    }
}

impl<B: Backend> Drop for Device<B> {
    fn drop(&mut self) {
        self.reset();
    }
}
