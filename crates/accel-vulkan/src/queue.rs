//! Execution queues: the way in to the scheduler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use accel_kernels::{BINDING_ALIGNMENT, Slot as ProgramSlot};

use crate::Error;
use crate::core::Core;
use crate::memory::Buffer;
use crate::program::Program;
use crate::submit::{Job, OnFinish, Scheduler};

/// A buffer bound to a slot, and the offset of its first byte.
pub type Binding = (Arc<Buffer>, u64);

/// An execution queue: its submissions run in order.
pub struct ExecQueue {
    id: u64,
    scheduler: Arc<Scheduler>,
}

impl ExecQueue {
    pub(crate) fn new(id: u64, scheduler: Arc<Scheduler>) -> Self {
        Self { id, scheduler }
    }

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
            program: Arc::clone(program),
            buffers: inputs.iter().chain(outputs).map(|(buffer, _)| Arc::clone(buffer)).collect(),
            // A deadline beyond the clock never comes.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            segment: 0,
            gpu_ns: 0,
            on_device: None,
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
    /// Tries to cancel: wins, and calls back with [`Outcome::Cancelled`](crate::Outcome::Cancelled), while the
    /// submission has not ended. What the device has of it goes on in the background, up to the next decision.
    pub fn cancel(&self) -> bool {
        self.scheduler.cancel(self.id)
    }
}
