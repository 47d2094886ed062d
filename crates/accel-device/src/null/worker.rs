//! The thread that runs toy programs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use accel_proto::Status;

use super::{KEY_FAILS, KEY_LOSES_DEVICE, lock};
use crate::backend::{Finished, OnFinish, Outcome};

/// Device time that every run reports, so that tests can tell it from 0.
const RUN_NS: u64 = 1000;

/// A submission that has not begun.
pub(super) struct Task {
    pub(super) key: u32,
    pub(super) operands: Vec<Operand>,
    pub(super) deadline: Option<Instant>,
    pub(super) on_finish: OnFinish,
}

/// A bound range.
pub(super) struct Operand {
    pub(super) buffer: Arc<Mutex<Vec<u8>>>,
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) output: bool,
}

/// Tasks in order of admission, and their thread.
#[derive(Default)]
pub(super) struct Worker {
    queue: Mutex<Queue>,
    changed: Condvar,
    pub(super) lost: AtomicBool,
}

#[derive(Default)]
struct Queue {
    tasks: BTreeMap<u64, Task>,
    next: u64,
    held: bool,
    stopped: bool,
}

impl Worker {
    pub(super) fn start() -> Arc<Self> {
        let worker = Arc::new(Self::default());
        let running = Arc::clone(&worker);
        thread::spawn(move || running.run());
        worker
    }

    pub(super) fn stop(&self) {
        lock(&self.queue).stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn set_held(&self, held: bool) {
        lock(&self.queue).held = held;
        self.changed.notify_all();
    }

    pub(super) fn push(&self, task: Task) -> u64 {
        let mut queue = lock(&self.queue);
        let number = queue.next;
        queue.next += 1;
        queue.tasks.insert(number, task);
        self.changed.notify_all();
        number
    }

    /// Cancels a task that has not begun.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let task = lock(&self.queue).tasks.remove(&number);
        task.map(|task| finish(task, Outcome::Cancelled)).is_some()
    }

    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let (task, outcome) = loop {
                if queue.stopped {
                    let tasks = std::mem::take(&mut queue.tasks);
                    drop(queue);
                    return tasks.into_values().for_each(|task| finish(task, Outcome::Cancelled));
                }
                let now = Instant::now();
                let late = queue.tasks.iter().find(|(_, task)| task.deadline.is_some_and(|at| at <= now));
                if let Some(number) = late.map(|(&number, _)| number)
                    && let Some(task) = queue.tasks.remove(&number)
                {
                    break (task, Some(Outcome::Failed(Status::DeadlineExpired)));
                }
                if !queue.held
                    && let Some((_, task)) = queue.tasks.pop_first()
                {
                    break (task, None);
                }
                let earliest = queue.tasks.values().filter_map(|task| task.deadline).min();
                queue = match earliest {
                    None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                    Some(at) => {
                        let woken = self.changed.wait_timeout(queue, at - now);
                        woken.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            };
            drop(queue);
            let outcome = outcome.unwrap_or_else(|| self.compute(&task));
            finish(task, outcome);
        }
    }

    fn compute(&self, task: &Task) -> Outcome {
        if task.key == KEY_LOSES_DEVICE {
            self.lost.store(true, Ordering::Relaxed);
        }
        if self.lost.load(Ordering::Relaxed) {
            return Outcome::Failed(Status::DeviceLost);
        }
        if task.key >= KEY_FAILS {
            return Outcome::Failed(Status::InternalError);
        }
        let copy = |operand: &Operand| lock(&operand.buffer)[operand.start..][..operand.bytes].to_vec();
        let inputs: Vec<_> = task.operands.iter().filter(|operand| !operand.output).map(copy).collect();
        for operand in task.operands.iter().filter(|operand| operand.output) {
            let mut buffer = lock(&operand.buffer);
            for (i, byte) in buffer[operand.start..][..operand.bytes].iter_mut().enumerate() {
                let of_inputs = inputs.iter().filter(|input| !input.is_empty());
                *byte = of_inputs.fold(task.key as u8, |sum, input| sum ^ input[i % input.len()]);
            }
        }
        Outcome::Complete
    }
}

fn finish(task: Task, outcome: Outcome) {
    let gpu_ns = if outcome == Outcome::Complete { RUN_NS } else { 0 };
    // The buffers go first: who hears of the end may free them.
    drop(task.operands);
    (task.on_finish)(Finished { outcome, gpu_ns });
}
