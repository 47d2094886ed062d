//! SUBMIT and EXECUTE: admission, hand-over to the backend, and the end of the work.

use std::sync::Arc;
use std::time::Duration;

use accel_proto::Status;

use crate::answer::{Answer, Responder};
use crate::backend::{Backend, Bound, Finished, OnFinish, Outcome};
use crate::command::Submission;
use crate::device::Device;
use crate::events::{WaitFor, Waiter};
use crate::state::Admitted;

impl<B: Backend> Device<B> {
    pub(crate) fn submit(self: &Arc<Self>, submission: &Submission) -> Result<Answer, Status> {
        Ok(Answer::id(self.start(submission, true)?))
    }

    /// EXECUTE is a submission that the guest has no event of, and a wait for it.
    pub(crate) fn execute(self: &Arc<Self>, submission: &Submission, responder: Responder) {
        match self.start(submission, false) {
            Ok(job) => self.attach(job, Waiter::new(WaitFor::Execution, responder)),
            Err(status) => responder.send(Err(status)),
        }
    }

    /// Starts a submission; returns the id of its job.
    fn start(self: &Arc<Self>, submission: &Submission, is_event: bool) -> Result<u64, Status> {
        let admitted = self.lock().admit(submission, self.config.max_events_per_context, is_event)?;
        let Admitted { job, queue, program, memories } = admitted;
        let bindings: Vec<_> = submission
            .bindings
            .iter()
            .zip(&memories)
            .map(|(binding, memory)| Bound {
                buffer: &memory.handle,
                offset: binding.range.offset,
                bytes: binding.range.bytes,
                slot: binding.slot,
                read: binding.access.reads(),
                write: binding.access.writes(),
            })
            .collect();
        let timeout = (submission.timeout_ns != 0).then(|| Duration::from_nanos(submission.timeout_ns));
        // The memory stays charged to the guest until the work ends, also when a reset comes first.
        let held = (Arc::clone(&program), memories.clone());
        let device = Arc::downgrade(self);
        let on_finish: OnFinish = Box::new(move |finished| {
            drop(held);
            if let Some(device) = device.upgrade() {
                device.finished(job, finished);
            }
        });
        match self.backend.submit(&queue, &program.handle, &bindings, timeout, on_finish) {
            Ok(handle) => {
                let handle = Arc::new(handle);
                if let Ok(job) = self.lock().jobs.get_mut(job) {
                    job.submission = Some(handle);
                } else {
                    // A reset came between: nobody else can cancel it.
                    self.backend.cancel(&handle);
                }
                Ok(job)
            }
            Err(status) => {
                self.lock().release(job);
                Err(self.failure(status))
            }
        }
    }

    /// Takes the end of a job from the backend and answers who waits for it.
    fn finished(&self, id: u64, finished: Finished) {
        let mut state = self.lock();
        let Some(waiters) = state.finish(id, finished) else { return };
        if finished.outcome == Outcome::Failed(Status::DeviceLost) {
            state.needs_reset = true;
        }
        if waiters.iter().any(Waiter::ends_job) {
            state.release(id);
        }
        drop(state);
        for waiter in waiters {
            self.resolve(waiter, finished);
        }
    }
}
