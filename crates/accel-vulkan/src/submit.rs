//! The scheduler: software queues in front of a bounded window on the device.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::Error;
use crate::core::Core;
use crate::instance::lock;
use crate::memory::Buffer;
use crate::program::Program;
use crate::queue::ExecQueue;
use crate::record::Recorded;
use crate::window::{Slot, Window};

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
    /// Its time ran out, before it started or while it ran; or it goes round longer than the watchdog lets any work run.
    DeadlineExpired,
    /// The device was lost, or did not answer within the watchdog's time.
    DeviceLost,
    /// The driver had no memory to submit it.
    OutOfMemory,
}

/// Called exactly once, from any thread, with no lock held.
pub type OnFinish = Box<dyn FnOnce(Finished) + Send>;

/// A submission from admission to its end on the device. That of a program that decides is on the device stretch by
/// stretch, and waits in its queue in between.
pub(crate) struct Job {
    pub(crate) queue: u64,
    pub(crate) recorded: Arc<Recorded>,
    pub(crate) program: Arc<Program>,
    pub(crate) buffers: Vec<Arc<Buffer>>,
    pub(crate) deadline: Option<Instant>,
    /// The first segment of the stretch that is on the device, or is to be next.
    pub(crate) segment: u32,
    /// Device time of the stretches that are done.
    pub(crate) gpu_ns: u64,
    /// Its timeline value, once the device has it.
    pub(crate) on_device: Option<u64>,
    // None once called.
    pub(crate) on_finish: Option<OnFinish>,
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
    /// Execution queues whose next job has to wait for the stretch of another that is on the device.
    held: HashSet<u64>,
    /// Programs that decide and have begun, by address, and the job of each.
    deciding: HashMap<usize, u64>,
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
            held: HashSet::new(),
            deciding: HashMap::new(),
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
        Ok(ExecQueue::new(lock(&self.state).next_id(), Arc::clone(self)))
    }

    /// Admits a job and gives its id.
    pub(crate) fn admit(&self, job: Job) -> Result<u64, Error> {
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
            self.begin(state, id);
            let Some(job) = state.jobs.get_mut(&id) else {
                state.window.put(slot);
                continue;
            };
            let value = state.last_value + 1;
            let stretch = job.program.stretch(job.segment).map(|segment| job.recorded.commands(segment));
            let commands = state.window.around(slot, stretch);
            match self.core.submit(&self.core.compute, &commands, value) {
                Ok(()) => {
                    job.on_device = Some(value);
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

    /// Prepares a job of a program that decides for its next stretch: later jobs of its queue, and others of its
    /// program, wait until it has ended. However many stretches there are, together they have the time of the watchdog.
    fn begin(&self, state: &mut State, id: u64) {
        let Some(job) = state.jobs.get_mut(&id).filter(|job| job.program.decides()) else { return };
        state.held.insert(job.queue);
        if state.deciding.insert(job.key(), id).is_some() {
            return;
        }
        let Some(bound) = Instant::now().checked_add(self.core.watchdog) else { return };
        if job.deadline.is_some_and(|deadline| deadline <= bound) {
            return;
        }
        if let Some(later) = job.deadline.replace(bound) {
            state.deadlines.remove(&(later, id));
        }
        state.deadlines.insert((bound, id));
        if state.deadlines.first() == Some(&(bound, id)) {
            self.timer.notify_one();
        }
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
            ended.extend(state.advance(flight.job, gpu_ns));
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
            ended.extend(state.abandon(id, Outcome::Failed(Failure::DeadlineExpired)));
        }
        ended
    }

    /// Tries to cancel a job: wins while it has no outcome.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let mut state = lock(&self.state);
        let ended: Vec<_> = state.abandon(id, Outcome::Cancelled).into_iter().collect();
        drop(state);
        let won = !ended.is_empty();
        deliver(ended);
        won
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
        let mut queues = self.waiting.range(after).chain(self.waiting.range(..=self.served));
        let queue = *queues.find(|(queue, jobs)| self.may_run(**queue, jobs))?.0;
        self.served = queue;
        let jobs = self.waiting.get_mut(&queue)?;
        let id = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&queue);
        }
        id
    }

    /// Whether the first job of a queue may go onto the device.
    fn may_run(&self, queue: u64, jobs: &VecDeque<u64>) -> bool {
        if self.deciding.is_empty() {
            return true;
        }
        let Some((id, job)) = jobs.front().and_then(|id| Some((id, self.jobs.get(id)?))) else { return true };
        !self.held.contains(&queue) && self.deciding.get(&job.key()).is_none_or(|deciding| deciding == id)
    }

    /// The device has finished a stretch of a job: ends the job, or puts it where its queue goes on.
    fn advance(&mut self, id: u64, gpu_ns: u64) -> Option<Ended> {
        let job = self.jobs.get_mut(&id)?;
        job.gpu_ns += gpu_ns;
        job.on_device = None;
        let gpu_ns = job.gpu_ns;
        if !job.program.decides() {
            return self.end(id, Outcome::Complete, gpu_ns);
        }
        self.held.remove(&job.queue);
        match job.program.after(job.segment) {
            None => self.end(id, Outcome::Complete, gpu_ns),
            // It has an outcome already, or nothing begins any more.
            Some(_) if job.on_finish.is_none() || self.closing => self.end(id, Outcome::Cancelled, gpu_ns),
            Some(segment) => {
                job.segment = segment;
                // It is older than all that wait there.
                self.waiting.entry(job.queue).or_default().push_front(id);
                None
            }
        }
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

    /// Gives a job without an outcome this one. What the device has goes on with all it holds, and the host
    /// keeps off its buffers until the device is done (Buffer::busy_until).
    fn abandon(&mut self, id: u64, outcome: Outcome) -> Option<Ended> {
        let job = self.jobs.get_mut(&id)?;
        let Some(value) = job.on_device else {
            self.unqueue(id);
            return self.end(id, outcome, 0);
        };
        let on_finish = job.on_finish.take()?;
        for buffer in &job.buffers {
            buffer.busy_until(value);
        }
        Some(Ended { on_finish: Some(on_finish), job: None, finished: Finished { outcome, gpu_ns: 0 } })
    }

    /// Removes a job that neither waits nor runs any more.
    fn end(&mut self, id: u64, outcome: Outcome, gpu_ns: u64) -> Option<Ended> {
        let mut job = self.jobs.remove(&id)?;
        if self.deciding.get(&job.key()) == Some(&id) {
            self.deciding.remove(&job.key());
            self.held.remove(&job.queue);
        }
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
        self.held.clear();
        self.flights.clear();
        let mut ids: Vec<u64> = self.jobs.keys().copied().collect();
        ids.sort_unstable();
        let lost = Outcome::Failed(Failure::DeviceLost);
        ids.into_iter().filter_map(|id| self.end(id, lost, 0)).collect()
    }
}

impl Job {
    /// What tells its program from others.
    fn key(&self) -> usize {
        Arc::as_ptr(&self.program).addr()
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
