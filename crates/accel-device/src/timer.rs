//! Deadlines: one thread that sleeps until the earliest.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

type Action = Box<dyn FnOnce() + Send>;

/// Runs actions at their deadlines. Its thread starts with the first deadline and ends when the timer is dropped.
pub(crate) struct Timer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

#[derive(Default)]
struct Schedule {
    /// Deadline and key, the earliest first.
    actions: BTreeMap<(Instant, u64), Action>,
    running: bool,
    stopped: bool,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Runs `action` at `deadline`, unless `(deadline, key)` is cancelled before.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn schedule(&self, deadline: Instant, key: u64, action: Action) -> io::Result<()> {
        let mut schedule = self.0.lock();
        if !schedule.running {
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("accel-timer".to_owned()).spawn(move || shared.run())?;
            schedule.running = true;
        }
        schedule.actions.insert((deadline, key), action);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Forgets an action that has not run.
    pub(crate) fn cancel(&self, deadline: Instant, key: u64) {
        self.0.lock().actions.remove(&(deadline, key));
    }

    /// Forgets every action that has not run.
    pub(crate) fn clear(&self) {
        self.0.lock().actions.clear();
    }
}

impl Drop for Timer {
    /// Does not wait for the thread: the last action may be what drops the timer.
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut schedule = self.lock();
        while !schedule.stopped {
            let now = Instant::now();
            schedule = match schedule.actions.first_entry() {
                None => self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner),
                Some(first) if first.key().0 > now => {
                    let wait = first.key().0 - now;
                    let woken = self.changed.wait_timeout(schedule, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(first) => {
                    let action = first.remove();
                    drop(schedule);
                    action();
                    self.lock()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn actions_run_by_deadline_and_cancelled_ones_do_not() {
        let timer = Timer::new();
        let (sender, receiver) = mpsc::channel();
        let now = Instant::now();
        for (key, delay) in [(1, 40), (2, 10), (3, 20), (4, 30)] {
            let sender = sender.clone();
            let action = Box::new(move || sender.send(key).unwrap());
            timer.schedule(now + Duration::from_millis(delay), key, action).unwrap();
        }
        timer.cancel(now + Duration::from_millis(20), 3);
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [2, 4, 1]);
        assert!(now.elapsed() >= Duration::from_millis(40));
    }
}
