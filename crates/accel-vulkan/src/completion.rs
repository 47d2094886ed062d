//! The two threads of an engine: one waits for the device, one for the clock. Both sleep in the kernel;
//! neither polls.
//!
//! They are two because a wait for a timeline semaphore cannot be cut short when a submission with an
//! earlier deadline arrives: waiting for any of two semaphores would do, but Mesa's software timelines
//! spin on that.

use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crate::Error;
use crate::instance::lock;
use crate::submit::{Scheduler, deliver};

/// The running threads.
pub(crate) struct Threads {
    scheduler: Arc<Scheduler>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts both.
    pub(crate) fn start(scheduler: &Arc<Scheduler>) -> Result<Self, Error> {
        // From here `drop` ends the threads that were started.
        let mut threads = Self { scheduler: Arc::clone(scheduler), handles: Vec::new() };
        threads.spawn("accel-complete", wait_for_device)?;
        threads.spawn("accel-deadline", wait_for_clock)?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, body: fn(&Scheduler)) -> Result<(), Error> {
        let scheduler = Arc::clone(&self.scheduler);
        let handle =
            Builder::new().name(name.into()).spawn(move || body(&scheduler)).map_err(Error::Thread)?;
        self.handles.push(handle);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.scheduler.close();
        for handle in self.handles.drain(..) {
            // A callback may drop the engine: then this is the thread itself, and it ends by itself.
            if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
                log::error!("a thread of the engine panicked");
            }
        }
    }
}

/// Waits for the front of the window, until the engine closes and nothing is in flight.
fn wait_for_device(scheduler: &Scheduler) {
    loop {
        let mut state = lock(&scheduler.state);
        let (value, left) = loop {
            match scheduler.front(&state) {
                Some(front) => break front,
                None if state.closing => return,
                None => state = scheduler.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        match scheduler.core.wait(&scheduler.core.compute, value, left) {
            Ok(Some(reached)) => scheduler.reached(reached),
            Ok(None) => scheduler.lose(true),
            Err(error) => {
                log::error!("waiting for the device failed: {error}");
                // Only a lost device is known to be idle.
                scheduler.lose(!matches!(error, Error::DeviceLost));
            }
        }
    }
}

/// Reports deadlines as they pass, until the engine closes.
fn wait_for_clock(scheduler: &Scheduler) {
    let mut state = lock(&scheduler.state);
    while !state.closing {
        let now = Instant::now();
        let expired = Scheduler::expire(&mut state, now);
        if !expired.is_empty() {
            drop(state);
            deliver(expired);
            state = lock(&scheduler.state);
            continue;
        }
        state = match Scheduler::next_deadline(&state) {
            None => scheduler.timer.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now);
                scheduler.timer.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}
