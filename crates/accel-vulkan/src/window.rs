//! The places on the device: each has commands that stand before and after a program's own.

use std::sync::Arc;

use ash::vk;

use crate::Error;
use crate::core::{Core, everything, to_host};
use crate::record::command_buffers;

/// A place on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// All places. The scheduler's mutex makes access exclusive.
pub(crate) struct Window {
    core: Arc<Core>,
    pool: vk::CommandPool,
    /// Prologue and epilogue of each slot, in turn.
    commands: Vec<vk::CommandBuffer>,
    /// Two timestamps a slot; null where the queue has none.
    queries: vk::QueryPool,
    free: Vec<Slot>,
}

impl Window {
    /// Records the commands of `slots` places.
    pub(crate) fn new(core: &Arc<Core>, slots: u32) -> Result<Self, Error> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(core.compute.family);
        let (pool, commands) = command_buffers(core, &info, slots * 2)?;
        // From here everything is destroyed with `window`.
        let mut window =
            Self { core: Arc::clone(core), pool, commands, queries: vk::QueryPool::null(), free: Vec::new() };
        if core.timestamp_bits > 0 {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(slots * 2);
            // SAFETY: alive and well-formed.
            window.queries = unsafe { core.device.create_query_pool(&info, None) }
                .map_err(Error::of("vkCreateQueryPool"))?;
        }
        for (slot, pair) in (0..slots).zip(window.commands.chunks_exact(2)) {
            if let [prologue, epilogue] = *pair {
                // SAFETY: recording alone; the queries exist where they are used.
                unsafe { window.record(slot * 2, prologue, epilogue)? };
            }
            window.free.push(Slot(slot));
        }
        Ok(window)
    }

    /// Records one slot's pair.
    ///
    /// # Safety
    /// Both command buffers are new.
    unsafe fn record(
        &self,
        query: u32,
        prologue: vk::CommandBuffer,
        epilogue: vk::CommandBuffer,
    ) -> Result<(), Error> {
        let device = &self.core.device;
        let begin = vk::CommandBufferBeginInfo::default();
        let timed = self.queries != vk::QueryPool::null();
        let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
        // SAFETY: by this function's contract.
        unsafe {
            device.begin_command_buffer(prologue, &begin).map_err(Error::of("vkBeginCommandBuffer"))?;
            // Submissions of all execution queues share this queue: arenas are reused, and a buffer that one
            // wrote may be read by the next.
            self.core.barrier(prologue, everything());
            if timed {
                device.cmd_reset_query_pool(prologue, self.queries, query, 2);
                device.cmd_write_timestamp2(prologue, stage, self.queries, query);
            }
            device.end_command_buffer(prologue).map_err(Error::of("vkEndCommandBuffer"))?;

            device.begin_command_buffer(epilogue, &begin).map_err(Error::of("vkBeginCommandBuffer"))?;
            if timed {
                device.cmd_write_timestamp2(epilogue, stage, self.queries, query + 1);
            }
            self.core.barrier(epilogue, to_host());
            device.end_command_buffer(epilogue).map_err(Error::of("vkEndCommandBuffer"))
        }
    }

    /// Takes a free place.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Gives a place back; the device is done with it.
    pub(crate) fn put(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// What to submit around `commands`.
    pub(crate) fn around(
        &self,
        slot: Slot,
        commands: impl Iterator<Item = vk::CommandBuffer>,
    ) -> Vec<vk::CommandBuffer> {
        let at = |index: u32| self.commands.get(index as usize).copied().unwrap_or_default();
        std::iter::once(at(slot.0 * 2)).chain(commands).chain([at(slot.0 * 2 + 1)]).collect()
    }

    /// Nanoseconds that the last work in a place took; 0 where the device does not tell.
    pub(crate) fn nanoseconds(&self, slot: Slot) -> u64 {
        if self.queries == vk::QueryPool::null() {
            return 0;
        }
        let mut ticks = [0u64; 2];
        // SAFETY: alive; the device is done with the slot, so that both timestamps are there.
        let result = unsafe {
            self.core.device.get_query_pool_results(
                self.queries,
                slot.0 * 2,
                &mut ticks,
                vk::QueryResultFlags::TYPE_64,
            )
        };
        let mask = u64::MAX >> (64 - self.core.timestamp_bits.clamp(1, 64));
        let [start, end] = ticks;
        let elapsed = end.wrapping_sub(start) & mask;
        result.map_or(0, |()| (elapsed as f64 * f64::from(self.core.properties.timestamp_period)) as u64)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.core.is_hung() {
            return;
        }
        // SAFETY: idle: the engine waits for the work in flight before it ends.
        unsafe {
            self.core.device.destroy_query_pool(self.queries, None);
            self.core.device.destroy_command_pool(self.pool, None);
        }
    }
}
