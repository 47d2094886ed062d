//! Contexts, buffers, execution queues: their making and their end.

use std::sync::{Arc, RwLock};

use accel_proto::Status;

use crate::answer::Answer;
use crate::backend::Backend;
use crate::command::Allocation;
use crate::device::Device;
use crate::state::{Buffer, Context, Kind, Memory, Shared, State};

impl<B: Backend> Device<B> {
    pub(crate) fn create_context(&self) -> Result<Answer, Status> {
        let mut state = self.lock();
        if state.contexts.len() as u64 >= u64::from(self.config.max_contexts) {
            return Err(Status::ResourceLimit);
        }
        let id = state.ids.fresh();
        state.contexts.insert(id, Context::default());
        Ok(Answer::id(id))
    }

    pub(crate) fn destroy_context(&self, id: u64) -> Result<Answer, Status> {
        let mut state = self.lock();
        if state.contexts.get(id)?.counts != [0; 4] {
            return Err(Status::Busy);
        }
        state.contexts.remove(id);
        Ok(Answer::empty())
    }

    pub(crate) fn allocate_buffer(&self, wanted: &Allocation) -> Result<Answer, Status> {
        let make = || {
            let charge = self.budget.charge(wanted.bytes).ok_or(Status::ResourceLimit)?;
            let handle = self
                .backend
                .allocate(wanted.bytes, wanted.alignment, wanted.domain, wanted.usage)
                .map_err(|status| self.failure(status))?;
            let transfer = RwLock::new(());
            Ok(Memory { handle, bytes: wanted.bytes, usage: wanted.usage, transfer, _charge: charge })
        };
        self.create(wanted.context, Kind::Buffer, make, |state, id, memory| {
            state.buffers.insert(id, Buffer::new(wanted.context, memory));
        })
    }

    pub(crate) fn free_buffer(&self, id: u64) -> Result<Answer, Status> {
        let mut state = self.lock();
        let buffer = state.buffers.get(id)?;
        if buffer.pins > 0 || buffer.transfers > 0 {
            return Err(Status::Busy);
        }
        let context = buffer.context;
        let freed = state.buffers.remove(id);
        state.unreserve(context, Kind::Buffer);
        drop(state);
        drop(freed);
        Ok(Answer::empty())
    }

    pub(crate) fn unload_program(&self, id: u64) -> Result<Answer, Status> {
        self.drop_shared(id, Kind::Program, |state| &mut state.programs)
    }

    pub(crate) fn create_queue(&self, context: u64) -> Result<Answer, Status> {
        let make = || self.backend.create_queue().map_err(|status| self.failure(status));
        self.create(context, Kind::Queue, make, |state, id, queue| {
            state.queues.insert(id, Shared { context, object: Arc::new(queue), pins: 0 });
        })
    }

    pub(crate) fn destroy_queue(&self, id: u64) -> Result<Answer, Status> {
        self.drop_shared(id, Kind::Queue, |state| &mut state.queues)
    }

    /// Takes a place in a context, makes an object with no lock held, and enters it; whatever fails, the place
    /// is given back.
    pub(crate) fn create<T>(
        &self,
        context: u64,
        kind: Kind,
        make: impl FnOnce() -> Result<T, Status>,
        enter: impl FnOnce(&mut State<B>, u64, T),
    ) -> Result<Answer, Status> {
        self.lock().reserve(context, kind, self.limit(kind))?;
        let made = make();
        let mut state = self.lock();
        match made {
            // The context can only be gone by a reset: its place is taken.
            Ok(object) if state.contexts.get(context).is_ok() => {
                let id = state.ids.fresh();
                enter(&mut state, id, object);
                Ok(Answer::id(id))
            }
            unused => {
                state.unreserve(context, kind);
                drop(state);
                Err(unused.err().unwrap_or(Status::StaleObject))
            }
        }
    }

    fn drop_shared<T>(
        &self,
        id: u64,
        kind: Kind,
        table: impl Fn(&mut State<B>) -> &mut crate::table::Table<Shared<T>>,
    ) -> Result<Answer, Status> {
        let mut state = self.lock();
        let object = table(&mut state).get(id)?;
        if object.pins > 0 {
            return Err(Status::Busy);
        }
        let context = object.context;
        let dropped = table(&mut state).remove(id);
        state.unreserve(context, kind);
        drop(state);
        drop(dropped);
        Ok(Answer::empty())
    }

    fn limit(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Buffer => self.config.max_buffers_per_context,
            Kind::Program => self.config.max_programs_per_context,
            Kind::Queue => self.config.max_queues_per_context,
            Kind::Job => self.config.max_events_per_context,
        }
    }
}
