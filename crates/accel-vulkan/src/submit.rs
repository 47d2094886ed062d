//! Submission: software queues in front of a bounded window on the device.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use accel_kernels::{BINDING_ALIGNMENT, Slot as ProgramSlot};

use crate::Error;
use crate::core::Core;
use crate::instance::lock;
use crate::memory::Buffer;
use crate::program::Program;
use crate::record::Recorded;
use crate::window::{Slot, Window};

/// A buffer bound to a slot, and the offset of its first byte.
pub type Binding = (Arc<Buffer>, u64);

/// How a submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Terminal state.
    pub outcome: Outcome,
    /// Device time in nanoseconds, 0 where it is unknown.
    pub gpu_ns: u64,
}

/// Terminal state of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All results are visible to [`Buffer::read`].
    Complete,
    /// It failed.
    Failed(Failure),
    /// Cancellation won.
    Cancelled,
}

/// Why a submission failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its time ran out, before it started or while it ran.
    DeadlineExpired,
    /// The device was lost, or did not answer within the watchdog's time.
    DeviceLost,
    /// The driver had no memory to submit it.
    OutOfMemory,
}

/// Called exactly once, from any thread, with no lock held.
pub type OnFinish = Box<dyn FnOnce(Finished) + Send>;

/// A submission from admission to its end on the device.
pub(crate) struct Job {
    queue: u64,
    recorded: Arc<Recorded>,
    // Held for the device's sake only.
    _program: Arc<Program>,
    _buffers: Vec<Arc<Buffer>>,
    deadline: Option<Instant>,
    on_device: bool,
    // None once called.
    on_finish: Option<OnFinish>,
}

/// Work on the device, in the order of its timeline values.
struct Flight {
    value: u64,
    job: u64,
    slot: Slot,
}

/// A callback that is due, with what the job held (`None` while the device still needs it).
pub(crate) struct Ended {
    on_finish: Option<OnFinish>,
    job: Option<Job>,
    finished: Finished,
}

/// Everything under the scheduler's mutex.
pub(crate) struct State {
    jobs: HashMap<u64, Job>,
    /// Waiting jobs of each execution queue that has any; ids ascend in each.
    waiting: BTreeMap<u64, VecDeque<u64>>,
    /// Execution queue that was served last.
    served: u64,
    flights: VecDeque<Flight>,
    /// When the front flight became the front.
    front_since: Instant,
    deadlines: BTreeSet<(Instant, u64)>,
    window: Window,
    last_id: u64,
    last_value: u64,
    pub(crate) closing: bool,
}

/// Orders submissions; shared by the engine, its queues and its threads.
pub(crate) struct Scheduler {
    pub(crate) core: Arc<Core>,
    pub(crate) state: Mutex<State>,
    /// The device has work, or the engine closes.
    pub(crate) work: Condvar,
    /// There is an earlier deadline, or the engine closes.
    pub(crate) timer: Condvar,
}

impl Scheduler {
    pub(crate) fn new(core: &Arc<Core>, window: u32) -> Result<Self, Error> {
        let state = State {
            jobs: HashMap::new(),
            waiting: BTreeMap::new(),
            served: 0,
            flights: VecDeque::new(),
            front_since: Instant::now(),
            deadlines: BTreeSet::new(),
            window: Window::new(core, window)?,
            last_id: 0,
            last_value: 0,
            closing: false,
        };
        Ok(Self {
            core: Arc::clone(core),
            state: Mutex::new(state),
            work: Condvar::new(),
            timer: Condvar::new(),
        })
    }

    /// A new execution queue.
    pub(crate) fn queue(self: &Arc<Self>) -> Result<ExecQueue, Error> {
        if self.core.is_lost() {
            return Err(Error::DeviceLost);
        }
        Ok(ExecQueue { id: lock(&self.state).next_id(), scheduler: Arc::clone(self) })
    }

    /// Admits a job and gives its id.
    fn admit(&self, job: Job) -> Result<u64, Error> {
        let mut state = lock(&self.state);
        if self.core.is_lost() || state.closing {
            return Err(Error::DeviceLost);
        }
        let id = state.next_id();
        if let Some(deadline) = job.deadline {
            state.deadlines.insert((deadline, id));
            if state.deadlines.first() == Some(&(deadline, id)) {
                self.timer.notify_one();
            }
        }
        state.waiting.entry(job.queue).or_default().push_back(id);
        state.jobs.insert(id, job);
        let ended = self.pump(&mut state);
        drop(state);
        deliver(ended);
        Ok(id)
    }

    /// Moves waiting jobs onto the device while there is room.
    fn pump(&self, state: &mut State) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(slot) = state.window.take() {
            let Some(id) = state.next_waiting() else {
                state.window.put(slot);
                break;
            };
            let Some(job) = state.jobs.get_mut(&id) else {
                state.window.put(slot);
                continue;
            };
            let value = state.last_value + 1;
            let commands = state.window.around(slot, job.recorded.commands);
            match self.core.submit(&self.core.compute, &commands, value) {
                Ok(()) => {
                    job.on_device = true;
                    state.last_value = value;
                    if state.flights.is_empty() {
                        state.front_since = Instant::now();
                        self.work.notify_one();
                    }
                    state.flights.push_back(Flight { value, job: id, slot });
                }
                Err(Error::OutOfMemory { .. }) => {
                    state.window.put(slot);
                    ended.extend(state.end(id, Outcome::Failed(Failure::OutOfMemory), 0));
                }
                Err(error) => {
                    log::error!("a submission failed: {error}");
                    self.core.mark_lost(false);
                    ended.extend(state.end_all());
                    break;
                }
            }
        }
        ended
    }

    /// What the completion thread waits for: the front value, and the time that is left to it.
    pub(crate) fn front(&self, state: &State) -> Option<(u64, Duration)> {
        let front = state.flights.front()?;
        Some((front.value, self.core.watchdog.saturating_sub(state.front_since.elapsed())))
    }

    /// The timeline reached `value`.
    pub(crate) fn reached(&self, value: u64) {
        let mut state = lock(&self.state);
        let mut ended = Vec::new();
        while state.flights.front().is_some_and(|flight| flight.value <= value) {
            let Some(flight) = state.flights.pop_front() else { break };
            let gpu_ns = state.window.nanoseconds(flight.slot);
            state.window.put(flight.slot);
            ended.extend(state.end(flight.job, Outcome::Complete, gpu_ns));
        }
        state.front_since = Instant::now();
        // The device comes before the callbacks: it must not run dry.
        ended.extend(self.pump(&mut state));
        drop(state);
        deliver(ended);
    }

    /// The device was lost, or (`hung`) did not answer.
    pub(crate) fn lose(&self, hung: bool) {
        let mut state = lock(&self.state);
        self.core.mark_lost(hung);
        let ended = state.end_all();
        drop(state);
        deliver(ended);
    }

    /// Takes the jobs whose time has run out by `now`.
    pub(crate) fn expire(state: &mut State, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while Self::next_deadline(state).is_some_and(|deadline| deadline <= now) {
            let Some((_, id)) = state.deadlines.pop_first() else { break };
            let outcome = Outcome::Failed(Failure::DeadlineExpired);
            match state.jobs.get_mut(&id) {
                // The device still uses what the job holds.
                Some(job) if job.on_device => {
                    let finished = Finished { outcome, gpu_ns: 0 };
                    ended.push(Ended { on_finish: job.on_finish.take(), job: None, finished });
                }
                Some(_) => {
                    state.unqueue(id);
                    ended.extend(state.end(id, outcome, 0));
                }
                None => {}
            }
        }
        ended
    }

    /// The next deadline.
    pub(crate) fn next_deadline(state: &State) -> Option<Instant> {
        state.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Cancels what waits and stops admission; what is on the device goes on.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closing = true;
        let waiting: Vec<u64> = std::mem::take(&mut state.waiting).into_values().flatten().collect();
        let ended: Vec<_> =
            waiting.into_iter().filter_map(|id| state.end(id, Outcome::Cancelled, 0)).collect();
        self.work.notify_all();
        self.timer.notify_all();
        drop(state);
        deliver(ended);
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Takes the next waiting job, from the execution queue after the one that was served last.
    fn next_waiting(&mut self) -> Option<u64> {
        let after = (std::ops::Bound::Excluded(self.served), std::ops::Bound::Unbounded);
        let queue = *self.waiting.range(after).next().or_else(|| self.waiting.first_key_value())?.0;
        self.served = queue;
        let jobs = self.waiting.get_mut(&queue)?;
        let id = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&queue);
        }
        id
    }

    /// Takes a waiting job out of its execution queue.
    fn unqueue(&mut self, id: u64) {
        let Some(queue) = self.jobs.get(&id).map(|job| job.queue) else { return };
        let Some(jobs) = self.waiting.get_mut(&queue) else { return };
        if let Ok(index) = jobs.binary_search(&id) {
            jobs.remove(index);
        }
        if jobs.is_empty() {
            self.waiting.remove(&queue);
        }
    }

    /// Removes a job that neither waits nor runs any more.
    fn end(&mut self, id: u64, outcome: Outcome, gpu_ns: u64) -> Option<Ended> {
        let mut job = self.jobs.remove(&id)?;
        if let Some(deadline) = job.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(Ended {
            on_finish: job.on_finish.take(),
            job: Some(job),
            finished: Finished { outcome, gpu_ns },
        })
    }

    /// Fails everything. Where the device hung, dropping what the jobs hold leaks it (see the contract).
    fn end_all(&mut self) -> Vec<Ended> {
        self.waiting.clear();
        self.flights.clear();
        let mut ids: Vec<u64> = self.jobs.keys().copied().collect();
        ids.sort_unstable();
        let lost = Outcome::Failed(Failure::DeviceLost);
        ids.into_iter().filter_map(|id| self.end(id, lost, 0)).collect()
    }
}

/// Releases what jobs held and calls back; no lock may be held.
pub(crate) fn deliver(ended: Vec<Ended>) {
    for Ended { on_finish, job, finished } in ended {
        drop(job);
        let Some(on_finish) = on_finish else { continue };
        // A callback that panics must not take the completion thread with it.
        if std::panic::catch_unwind(AssertUnwindSafe(|| on_finish(finished))).is_err() {
            log::error!("the callback of a submission panicked");
        }
    }
}

/// An execution queue: its submissions run in order.
pub struct ExecQueue {
    id: u64,
    scheduler: Arc<Scheduler>,
}

impl ExecQueue {
    /// Submits `program`; `inputs` and `outputs` are in slot order. `timeout` counts from now. On `Err`
    /// nothing is retained and `on_finish` is dropped uncalled.
    ///
    /// # Errors
    /// [`Error::Binding`] or [`Error::OutOfRange`] where the bindings do not fit, [`Error::DeviceLost`],
    /// [`Error::OutOfMemory`].
    pub fn submit(
        &self,
        program: &Arc<Program>,
        inputs: &[Binding],
        outputs: &[Binding],
        timeout: Option<Duration>,
        on_finish: OnFinish,
    ) -> Result<Ticket, Error> {
        let core = &self.scheduler.core;
        if core.is_lost() {
            return Err(Error::DeviceLost);
        }
        if !Arc::ptr_eq(program.core(), core) {
            return Err(Error::Binding("the program was loaded by another engine than the queue's".into()));
        }
        let mut addresses = addresses(core, "input", program.inputs(), inputs)?;
        addresses.extend(self::addresses(core, "output", program.outputs(), outputs)?);
        let job = Job {
            queue: self.id,
            recorded: program.recorded(&addresses)?,
            _program: Arc::clone(program),
            _buffers: inputs.iter().chain(outputs).map(|(buffer, _)| Arc::clone(buffer)).collect(),
            // A deadline beyond the clock never comes.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            on_device: false,
            on_finish: Some(on_finish),
        };
        Ok(Ticket { id: self.scheduler.admit(job)?, scheduler: Arc::clone(&self.scheduler) })
    }
}

/// Checks the bindings of one direction and gives their addresses.
fn addresses(
    core: &Arc<Core>,
    direction: &str,
    slots: &[ProgramSlot],
    bindings: &[Binding],
) -> Result<Vec<u64>, Error> {
    if slots.len() != bindings.len() {
        let (has, wants) = (bindings.len(), slots.len());
        return Err(Error::Binding(format!(
            "{has} {direction} buffers are bound and the program has {wants}"
        )));
    }
    let check = |(slot, (buffer, offset)): (&ProgramSlot, &Binding)| {
        if !buffer.belongs_to(core) {
            return Err(Error::Binding(format!(
                "the buffer of {direction} {} is of another engine",
                slot.name
            )));
        }
        if !offset.is_multiple_of(BINDING_ALIGNMENT) {
            return Err(Error::Binding(format!(
                "the offset {offset} of {direction} {} is no multiple of {BINDING_ALIGNMENT}",
                slot.name
            )));
        }
        buffer.contains(*offset, slot.bytes)?;
        Ok(buffer.address() + offset)
    };
    slots.iter().zip(bindings).map(check).collect()
}

/// A submission, for cancellation. Dropping it changes nothing.
pub struct Ticket {
    id: u64,
    scheduler: Arc<Scheduler>,
}

impl Ticket {
    /// Tries to cancel: wins, and calls back with [`Outcome::Cancelled`], while the submission has not
    /// reached the device.
    pub fn cancel(&self) -> bool {
        let mut state = lock(&self.scheduler.state);
        if state.jobs.get(&self.id).is_none_or(|job| job.on_device) {
            return false;
        }
        state.unqueue(self.id);
        let ended: Vec<_> = state.end(self.id, Outcome::Cancelled, 0).into_iter().collect();
        drop(state);
        let won = !ended.is_empty();
        deliver(ended);
        won
    }
}
