//! Events, and requests that are answered when a submission ends.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accel_proto::{EventPhase, EventState, ExecuteResult, IntoBytes, Status, WaitResult};

use crate::answer::{Answer, Responder};
use crate::backend::{Backend, Finished, Outcome};
use crate::device::Device;
use crate::state::Job;

/// A request that is answered when a job ends.
pub(crate) struct Waiter {
    what: WaitFor,
    responder: Responder,
    /// Deadline and its key in the timer.
    deadline: Option<(Instant, u64)>,
}

/// What a waiting request asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// EXECUTE: the job is dropped with its answer.
    Execution,
    /// WAIT_EVENT.
    Event,
    /// CANCEL_EVENT: answered when the job is really over, so that its buffers are free of it.
    Cancellation(u64),
}

impl Waiter {
    pub(crate) fn new(what: WaitFor, responder: Responder) -> Self {
        Self { what, responder, deadline: None }
    }

    /// Whether its answer ends the job's life.
    pub(crate) fn ends_job(&self) -> bool {
        self.what == WaitFor::Execution
    }
}

impl<B: Backend> Device<B> {
    pub(crate) fn poll_event(&self, id: u64) -> Result<Answer, Status> {
        let finished = self.lock().event(id)?.finished;
        Ok(Answer::of(&[event_state(finished).as_bytes()]))
    }

    pub(crate) fn destroy_event(&self, id: u64) -> Result<Answer, Status> {
        let mut state = self.lock();
        if state.event(id)?.finished.is_none() {
            return Err(Status::Busy);
        }
        state.release(id);
        Ok(Answer::empty())
    }

    pub(crate) fn wait_event(self: &Arc<Self>, id: u64, timeout_ns: u64, responder: Responder) {
        let mut state = self.lock();
        if let Err(status) = state.event(id) {
            drop(state);
            return responder.send(Err(status));
        }
        let key = state.ids.fresh();
        drop(state);
        let mut waiter = Waiter::new(WaitFor::Event, responder);
        // A deadline beyond the clock's range is none.
        let deadline =
            (timeout_ns != 0).then(|| Instant::now().checked_add(Duration::from_nanos(timeout_ns))).flatten();
        waiter.deadline = deadline.map(|deadline| (deadline, key));
        self.attach(id, waiter);
    }

    pub(crate) fn cancel_event(self: &Arc<Self>, id: u64, responder: Responder) {
        let mut state = self.lock();
        let key = state.ids.fresh();
        let submission = match state.event(id) {
            Err(status) => Err(status),
            Ok(Job { finished: None, submission: Some(submission), .. }) => Ok(Arc::clone(submission)),
            // It ended, or its SUBMIT is not answered yet.
            Ok(_) => Err(Status::Busy),
        };
        drop(state);
        let submission = match submission {
            Ok(submission) => submission,
            Err(status) => return responder.send(Err(status)),
        };
        // Attached first: the backend may end the job within the call.
        self.attach(id, Waiter::new(WaitFor::Cancellation(key), responder));
        if !self.backend.cancel(&submission)
            && let Some(waiter) = self.detach(id, |waiter| waiter.what == WaitFor::Cancellation(key))
        {
            waiter.responder.send(Err(Status::Busy));
        }
    }

    /// Answers a request when a job ends, at once where it has ended.
    pub(crate) fn attach(self: &Arc<Self>, id: u64, waiter: Waiter) {
        let mut state = self.lock();
        let Ok(job) = state.jobs.get_mut(id) else {
            drop(state);
            return waiter.responder.send(Err(Status::StaleObject));
        };
        match job.finished {
            None => {
                let deadline = waiter.deadline;
                job.waiters.push(waiter);
                // With the lock still held: the job cannot end before its deadline is known to the timer.
                let scheduled = deadline.map_or(Ok(()), |deadline| self.schedule_expiry(id, deadline));
                drop(state);
                if let (Some((_, key)), Err(error)) = (deadline, scheduled) {
                    log::error!("The timer thread does not start: {error}.");
                    self.expire(id, key);
                }
            }
            Some(finished) => {
                if waiter.ends_job() {
                    state.release(id);
                }
                drop(state);
                self.resolve(waiter, finished);
            }
        }
    }

    /// Answers a waiting request with a job's end.
    pub(crate) fn resolve(&self, waiter: Waiter, finished: Finished) {
        if let Some((deadline, key)) = waiter.deadline {
            self.timer.cancel(deadline, key);
        }
        waiter.responder.send(match (waiter.what, finished.outcome) {
            (WaitFor::Event, _) => {
                let event = event_state(Some(finished));
                Ok(Answer::of(&[WaitResult { event, gpu_ns: finished.gpu_ns.into() }.as_bytes()]))
            }
            (WaitFor::Cancellation(_), Outcome::Cancelled) => Ok(Answer::empty()),
            (WaitFor::Cancellation(_), _) => Err(Status::Busy),
            (WaitFor::Execution, Outcome::Complete) => {
                Ok(Answer::of(&[ExecuteResult { gpu_ns: finished.gpu_ns.into() }.as_bytes()]))
            }
            (WaitFor::Execution, Outcome::Failed(status)) => Err(failed(status)),
            // Only a reset cancels an EXECUTE, and then nobody waits.
            (WaitFor::Execution, Outcome::Cancelled) => Err(Status::InternalError),
        });
    }

    fn schedule_expiry(self: &Arc<Self>, id: u64, (deadline, key): (Instant, u64)) -> io::Result<()> {
        let device = Arc::downgrade(self);
        let expire = move || {
            if let Some(device) = device.upgrade() {
                device.expire(id, key);
            }
        };
        self.timer.schedule(deadline, key, Box::new(expire))
    }

    fn expire(&self, id: u64, key: u64) {
        let is_it = |waiter: &Waiter| waiter.deadline.is_some_and(|(_, its)| its == key);
        if let Some(waiter) = self.detach(id, is_it) {
            waiter.responder.send(Err(Status::DeadlineExpired));
        }
    }

    /// Takes a waiting request back, where its job has not ended before.
    fn detach(&self, id: u64, is_it: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        let mut state = self.lock();
        let waiters = &mut state.jobs.get_mut(id).ok()?.waiters;
        let at = waiters.iter().position(is_it)?;
        Some(waiters.swap_remove(at))
    }
}

/// Status of a failed job: never OK.
fn failed(status: Status) -> Status {
    if status == Status::Ok { Status::InternalError } else { status }
}

fn event_state(finished: Option<Finished>) -> EventState {
    let (phase, error) = match finished.map(|finished| finished.outcome) {
        None => (EventPhase::Pending, Status::Ok),
        Some(Outcome::Complete) => (EventPhase::Complete, Status::Ok),
        Some(Outcome::Failed(status)) => (EventPhase::Failed, failed(status)),
        Some(Outcome::Cancelled) => (EventPhase::Cancelled, Status::Ok),
    };
    EventState { state: phase.code().into(), error: error.code().into(), reserved: 0.into() }
}
