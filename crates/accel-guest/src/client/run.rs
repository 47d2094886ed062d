//! Running programs.

use std::time::{Duration, Instant};

use accel_proto::{
    Access, Binding, EventPhase, EventState, ExecuteResult, Extensions, IntoBytes, ObjectId, Opcode, Status,
    Submit, WaitEvent, WaitResult,
};

use super::flight::Flight;
use super::{Buffer, Client, Event, Program, Queue, Reply};
use crate::transport::Transport;
use crate::{Error, Result};

/// First and longest pause between two looks at an event of a device that cannot wake us.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));

/// A range of a buffer at a slot of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotBinding {
    /// Slot.
    pub slot: u32,
    /// Buffer.
    pub buffer: Buffer,
    /// First byte.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
    /// What the program does with it.
    pub access: Access,
}

/// A run that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Nanoseconds on the accelerator; `None` where the device does not tell.
    pub gpu_ns: Option<u64>,
}

/// State of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStatus {
    /// Not ended yet.
    Pending,
    /// Results are visible.
    Complete,
    /// It failed.
    Failed(Status),
    /// Cancellation won.
    Cancelled,
}

/// A run in flight. Dropped unfinished, the run goes on and its result is ignored.
pub struct Pending<'a, T: Transport> {
    client: &'a Client<T>,
    kind: Kind<'a, T>,
}

enum Kind<'a, T: Transport> {
    /// EXECUTE: the answer is the end of the run.
    Execute(Flight<'a, T>),
    /// SUBMIT to a plain 1.0 device.
    Event(Event),
}

impl<T: Transport> Client<T> {
    /// Starts a run and returns at once. Runs of one queue happen in order; any number may be in flight.
    /// `timeout` is the device's limit for the run.
    ///
    /// # Errors
    /// As every call. With EXECUTE most of them come from [`Pending::wait`].
    pub fn execute_async(
        &self,
        queue: Queue,
        program: Program,
        bindings: &[SlotBinding],
        timeout: Option<Duration>,
    ) -> Result<Pending<'_, T>> {
        let kind = if self.extensions().contains(Extensions::EXECUTE) {
            Kind::Execute(self.start_submission(Opcode::Execute, queue, program, bindings, timeout)?)
        } else {
            Kind::Event(self.submit(queue, program, bindings, timeout)?)
        };
        Ok(Pending { client: self, kind })
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// As every call; the status of the run where it failed.
    pub fn execute(&self, queue: Queue, program: Program, bindings: &[SlotBinding]) -> Result<Execution> {
        self.execute_async(queue, program, bindings, None)?.wait()
    }

    /// SUBMIT: the answer comes when the run is admitted.
    ///
    /// # Errors
    /// As every call.
    pub fn submit(
        &self,
        queue: Queue,
        program: Program,
        bindings: &[SlotBinding],
        timeout: Option<Duration>,
    ) -> Result<Event> {
        let flight = self.start_submission(Opcode::Submit, queue, program, bindings, timeout)?;
        flight.finish(self.timeout)?.id().map(Event)
    }

    fn start_submission(
        &self,
        opcode: Opcode,
        queue: Queue,
        program: Program,
        bindings: &[SlotBinding],
        timeout: Option<Duration>,
    ) -> Result<Flight<'_, T>> {
        let head = Submit {
            queue_id: queue.id.into(),
            program_id: program.0.into(),
            binding_count: u32::try_from(bindings.len()).unwrap_or(u32::MAX).into(),
            flags: 0.into(),
            timeout_ns: timeout.map_or(0, nanoseconds).into(),
        };
        let table: Vec<Binding> = bindings
            .iter()
            .map(|binding| Binding {
                buffer_id: binding.buffer.0.into(),
                offset: binding.offset.into(),
                bytes: binding.bytes.into(),
                slot: binding.slot.into(),
                access: binding.access.code(),
                reserved: [0; 3],
            })
            .collect();
        let asked = format!("program {program} on queue {:#x} with {} bindings", queue.id, bindings.len());
        self.start(queue.ring, opcode, &[head.as_bytes(), table.as_bytes()], 0, asked)
    }

    /// POLL_EVENT.
    ///
    /// # Errors
    /// As every call.
    pub fn poll_event(&self, event: Event) -> Result<EventStatus> {
        let request = ObjectId { id: event.0.into() };
        let reply = self.call(Opcode::PollEvent, &[request.as_bytes()], 0, || format!("event {event}"))?;
        status_of(&reply, &reply.read()?)
    }

    /// WAIT_EVENT (extension): sleeps until the event ends.
    ///
    /// # Errors
    /// As every call; DEADLINE_EXPIRED when it has not ended within `timeout`.
    pub fn wait_event(&self, event: Event, timeout: Option<Duration>) -> Result<(EventStatus, Execution)> {
        self.require(Extensions::WAIT_EVENT, Opcode::WaitEvent)?;
        let request =
            WaitEvent { event_id: event.0.into(), timeout_ns: timeout.map_or(0, nanoseconds).into() };
        let asked = format!("event {event}");
        // The device's own limit ends this; ours would only be in its way.
        let reply = self.start(0, Opcode::WaitEvent, &[request.as_bytes()], 0, asked)?.finish(None)?;
        let result: WaitResult = reply.read()?;
        Ok((status_of(&reply, &result.event)?, execution(result.gpu_ns.get())))
    }

    /// CANCEL_EVENT: OK when cancellation won.
    ///
    /// # Errors
    /// As every call; BUSY when completion won.
    pub fn cancel_event(&self, event: Event) -> Result<()> {
        self.on_object(Opcode::CancelEvent, event.0, "event")
    }

    /// DESTROY_EVENT.
    ///
    /// # Errors
    /// As every call; BUSY while it is pending.
    pub fn destroy_event(&self, event: Event) -> Result<()> {
        self.on_object(Opcode::DestroyEvent, event.0, "event")
    }

    /// Sleeps until an event ends, by whatever means the device has.
    fn end_of(&self, event: Event, timeout: Option<Duration>) -> Result<(EventStatus, Execution)> {
        if self.extensions().contains(Extensions::WAIT_EVENT) {
            return self.wait_event(event, timeout).map_err(|error| match (error.status(), timeout) {
                (Some(Status::DeadlineExpired), Some(timeout)) => Error::TimedOut(timeout),
                _ => error,
            });
        }
        let start = Instant::now();
        let mut pause = PAUSE.0;
        loop {
            let status = self.poll_event(event)?;
            if status != EventStatus::Pending {
                return Ok((status, Execution { gpu_ns: None }));
            }
            if let Some(timeout) = timeout.filter(|timeout| start.elapsed() >= *timeout) {
                return Err(Error::TimedOut(timeout));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

impl<T: Transport> Pending<'_, T> {
    /// Sleeps until the run ends, however long it takes.
    ///
    /// # Errors
    /// The status of the run where it failed; [`Error::Gone`] when the device vanishes.
    pub fn wait(mut self) -> Result<Execution> {
        self.wait_timeout(None)
    }

    /// Sleeps until the run ends or the time runs out; may be called again after [`Error::TimedOut`].
    ///
    /// # Errors
    /// As [`Self::wait`], and [`Error::TimedOut`].
    pub fn wait_timeout(&mut self, timeout: Option<Duration>) -> Result<Execution> {
        match &mut self.kind {
            Kind::Execute(flight) => {
                let result: ExecuteResult = flight.poll(timeout)?.read()?;
                Ok(execution(result.gpu_ns.get()))
            }
            Kind::Event(event) => {
                let (status, execution) = self.client.end_of(*event, timeout)?;
                self.client.destroy_event(*event)?;
                let failed = |status| Error::Device {
                    command: Opcode::Submit.name(),
                    status,
                    asked: format!("the run behind event {event}"),
                    reason: None,
                };
                match status {
                    EventStatus::Complete => Ok(execution),
                    EventStatus::Failed(status) => Err(failed(status)),
                    EventStatus::Cancelled | EventStatus::Pending => Err(failed(Status::DeadlineExpired)),
                }
            }
        }
    }
}

fn status_of(reply: &Reply, state: &EventState) -> Result<EventStatus> {
    match EventPhase::from_code(state.state.get()) {
        Some(EventPhase::Pending) => Ok(EventStatus::Pending),
        Some(EventPhase::Complete) => Ok(EventStatus::Complete),
        Some(EventPhase::Cancelled) => Ok(EventStatus::Cancelled),
        Some(EventPhase::Failed) => {
            Ok(EventStatus::Failed(Status::from_code(state.error.get()).unwrap_or(Status::InternalError)))
        }
        None => Err(reply.bad(format!("the event has the unknown state {}", state.state.get()))),
    }
}

fn execution(gpu_ns: u64) -> Execution {
    Execution { gpu_ns: (gpu_ns != 0).then_some(gpu_ns) }
}

/// A duration for the wire, at least 1 because 0 is for ever.
fn nanoseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1)
}
