//! The guest's objects and who uses them.

use std::sync::{Arc, RwLock};

use accel_proto::{Access, Status, Usage};

use crate::backend::{Backend, Finished, LoadError};
use crate::command::{Range, Submission};
use crate::events::Waiter;
use crate::memory::Charge;
use crate::table::{Ids, Table};

/// All objects of a guest. Its lock is never held while the backend works.
pub(crate) struct State<B: Backend> {
    pub(crate) ids: Ids,
    pub(crate) contexts: Table<Context>,
    pub(crate) buffers: Table<Buffer<B>>,
    pub(crate) programs: Table<Shared<Program<B>>>,
    pub(crate) queues: Table<Shared<B::Queue>>,
    pub(crate) jobs: Table<Job<B>>,
    /// Only a reset helps any more.
    pub(crate) needs_reset: bool,
}

/// How many objects a context has, places taken for objects in the making included.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) counts: [u32; 4],
    pub(crate) last_load_error: Option<LoadError>,
}

/// Kinds of children of a context: indices of [`Context::counts`].
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Buffer,
    Program,
    Queue,
    Job,
}

/// A buffer and its users.
pub(crate) struct Buffer<B: Backend> {
    pub(crate) context: u64,
    pub(crate) memory: Arc<Memory<B>>,
    /// Events not destroyed and EXECUTE requests not answered that bind it.
    pub(crate) pins: u32,
    /// Transfers between host and buffer now going on.
    pub(crate) transfers: u32,
    /// Execution queues with unfinished work on it.
    active: Vec<Activity>,
}

/// A buffer's memory; transfers and submissions keep it alive through a reset.
pub(crate) struct Memory<B: Backend> {
    pub(crate) handle: B::Buffer,
    pub(crate) bytes: u64,
    pub(crate) usage: Usage,
    /// Held by transfers, so that two never touch the same bytes at once: shared to read, alone to write.
    pub(crate) transfer: RwLock<()>,
    pub(crate) _charge: Charge,
}

/// Unfinished work of one execution queue on a buffer.
struct Activity {
    queue: u64,
    bindings: u32,
    writers: u32,
}

/// A program.
pub(crate) struct Program<B: Backend> {
    pub(crate) handle: B::Program,
    pub(crate) _charge: Charge,
}

/// An object that submissions keep.
pub(crate) struct Shared<T> {
    pub(crate) context: u64,
    pub(crate) object: Arc<T>,
    pub(crate) pins: u32,
}

/// A submission, from its admission until its event is destroyed or its EXECUTE answered.
pub(crate) struct Job<B: Backend> {
    pub(crate) context: u64,
    queue: u64,
    program: u64,
    /// Buffer and whether it is written, once a binding.
    buffers: Vec<(u64, bool)>,
    /// Whether the guest knows the id, as an event. EXECUTE has jobs that it does not know.
    pub(crate) is_event: bool,
    /// Set when the backend took it: what cancels it.
    pub(crate) submission: Option<Arc<B::Submission>>,
    /// Set when it ended.
    pub(crate) finished: Option<Finished>,
    /// Requests to answer when it ends.
    pub(crate) waiters: Vec<Waiter>,
}

/// What an admitted submission runs with.
pub(crate) struct Admitted<B: Backend> {
    pub(crate) job: u64,
    pub(crate) queue: Arc<B::Queue>,
    pub(crate) program: Arc<Program<B>>,
    /// In the order of the submission's bindings.
    pub(crate) memories: Vec<Arc<Memory<B>>>,
}

impl<B: Backend> Default for State<B> {
    fn default() -> Self {
        Self {
            ids: Ids::default(),
            contexts: Table::default(),
            buffers: Table::default(),
            programs: Table::default(),
            queues: Table::default(),
            jobs: Table::default(),
            needs_reset: false,
        }
    }
}

impl<B: Backend> State<B> {
    /// Takes one of a context's places for an object.
    pub(crate) fn reserve(&mut self, context: u64, kind: Kind, limit: u32) -> Result<(), Status> {
        let count = &mut self.contexts.get_mut(context)?.counts[kind as usize];
        if *count >= limit {
            return Err(Status::ResourceLimit);
        }
        *count += 1;
        Ok(())
    }

    /// Gives a place back.
    pub(crate) fn unreserve(&mut self, context: u64, kind: Kind) {
        if let Ok(context) = self.contexts.get_mut(context) {
            context.counts[kind as usize] -= 1;
        }
    }

    /// Checks a submission against the objects that it names, in the documented order, and makes its job.
    pub(crate) fn admit(
        &mut self,
        submission: &Submission,
        max_jobs: u32,
        is_event: bool,
    ) -> Result<Admitted<B>, Status> {
        let queue = self.queues.get(submission.queue)?;
        let program = self.programs.get(submission.program)?;
        let context = queue.context;
        if program.context != context {
            return Err(Status::StaleObject);
        }
        for binding in &submission.bindings {
            let buffer = self.buffers.get(binding.range.buffer)?;
            if buffer.context != context {
                return Err(Status::StaleObject);
            }
        }
        if self.contexts.get(context)?.counts[Kind::Job as usize] >= max_jobs {
            return Err(Status::ResourceLimit);
        }
        let mut memories = Vec::with_capacity(submission.bindings.len());
        for binding in &submission.bindings {
            let memory = &self.buffers.get(binding.range.buffer)?.memory;
            memory.check_range(&binding.range)?;
            if !binding.access.allowed_by(memory.usage) {
                return Err(Status::PermissionDenied);
            }
            memories.push(Arc::clone(memory));
        }
        for binding in &submission.bindings {
            if self.buffers.get(binding.range.buffer)?.is_taken_for(submission.queue, binding.access) {
                return Err(Status::Busy);
            }
        }
        let (queue, program) = (Arc::clone(&queue.object), Arc::clone(&program.object));

        // Nothing can fail from here on.
        self.reserve(context, Kind::Job, max_jobs)?;
        let job = Job {
            context,
            queue: submission.queue,
            program: submission.program,
            buffers: submission.bindings.iter().map(|b| (b.range.buffer, b.access.writes())).collect(),
            is_event,
            submission: None,
            finished: None,
            waiters: Vec::new(),
        };
        self.queues.get_mut(job.queue)?.pins += 1;
        self.programs.get_mut(job.program)?.pins += 1;
        for &(buffer, writes) in &job.buffers {
            let buffer = self.buffers.get_mut(buffer)?;
            buffer.pins += 1;
            buffer.begin(job.queue, writes);
        }
        let id = self.ids.fresh();
        self.jobs.insert(id, job);
        Ok(Admitted { job: id, queue, program, memories })
    }

    /// Marks a job's work as ended; its objects stay pinned. Returns who waits for it, or `None` where the job
    /// is of before a reset.
    pub(crate) fn finish(&mut self, id: u64, finished: Finished) -> Option<Vec<Waiter>> {
        let job = self.jobs.get_mut(id).ok()?;
        job.finished = Some(finished);
        for &(buffer, writes) in &job.buffers {
            if let Ok(buffer) = self.buffers.get_mut(buffer) {
                buffer.end(job.queue, writes);
            }
        }
        Some(std::mem::take(&mut job.waiters))
    }

    /// Drops a job and lets go of its objects. A job whose work has not begun or ended is ended first.
    pub(crate) fn release(&mut self, id: u64) {
        let Some(job) = self.jobs.remove(id) else { return };
        if let Ok(queue) = self.queues.get_mut(job.queue) {
            queue.pins -= 1;
        }
        if let Ok(program) = self.programs.get_mut(job.program) {
            program.pins -= 1;
        }
        for &(buffer, writes) in &job.buffers {
            if let Ok(buffer) = self.buffers.get_mut(buffer) {
                buffer.pins -= 1;
                if job.finished.is_none() {
                    buffer.end(job.queue, writes);
                }
            }
        }
        self.unreserve(job.context, Kind::Job);
    }

    /// An event that the guest knows.
    pub(crate) fn event(&mut self, id: u64) -> Result<&mut Job<B>, Status> {
        self.jobs.get_mut(id).ok().filter(|job| job.is_event).ok_or(Status::StaleObject)
    }
}

impl<B: Backend> Buffer<B> {
    pub(crate) fn new(context: u64, memory: Memory<B>) -> Self {
        Self { context, memory: Arc::new(memory), pins: 0, transfers: 0, active: Vec::new() }
    }

    /// Whether a submission of `queue` with this access would race: with a transfer, or with unfinished work of
    /// another queue where either writes. Work of one queue runs in order.
    fn is_taken_for(&self, queue: u64, access: Access) -> bool {
        let races = |other: &Activity| other.queue != queue && (other.writers > 0 || access.writes());
        self.transfers > 0 || self.active.iter().any(races)
    }

    fn begin(&mut self, queue: u64, writes: bool) {
        let writers = u32::from(writes);
        match self.active.iter_mut().find(|activity| activity.queue == queue) {
            Some(activity) => {
                activity.bindings += 1;
                activity.writers += writers;
            }
            None => self.active.push(Activity { queue, bindings: 1, writers }),
        }
    }

    fn end(&mut self, queue: u64, writes: bool) {
        if let Some(at) = self.active.iter().position(|activity| activity.queue == queue) {
            let activity = &mut self.active[at];
            activity.bindings -= 1;
            activity.writers -= u32::from(writes);
            if activity.bindings == 0 {
                self.active.swap_remove(at);
            }
        }
    }
}

impl<B: Backend> Memory<B> {
    /// Refuses a range that ends past the buffer.
    pub(crate) fn check_range(&self, range: &Range) -> Result<(), Status> {
        let fits = range.offset.checked_add(range.bytes).is_some_and(|end| end <= self.bytes);
        if fits { Ok(()) } else { Err(Status::OutOfBounds) }
    }
}
