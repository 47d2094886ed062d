//! Copies between the host and memory that it cannot map, or can only read slowly: a ring of chunks,
//! so that the host fills or drains one while the device copies others.

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::Allocator;

use crate::Error;
use crate::core::{Core, everything, to_host};
use crate::memory::RawBuffer;

/// Bytes of one chunk.
const CHUNK: usize = 4 << 20;
/// Chunks of the ring.
const CHUNKS: usize = 4;

/// The ring. It is used under a mutex, and every operation ends with all its transfers done.
pub(crate) struct Staging {
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    ring: RawBuffer,
    /// Timeline value of the last transfer.
    value: u64,
}

impl Staging {
    /// Allocates the ring in cached host memory.
    pub(crate) fn new(core: &Core) -> Result<Self, Error> {
        let ring = RawBuffer::new(core, (CHUNK * CHUNKS) as u64, MemoryLocation::GpuToCpu)?;
        match commands(core) {
            Ok((pool, commands)) => Ok(Self { pool, commands, ring, value: 0 }),
            Err(error) => {
                // SAFETY: just made and never used.
                unsafe { ring.destroy(&core.device, crate::instance::lock(&core.allocator).as_mut()) };
                Err(error)
            }
        }
    }

    /// Copies host bytes into a buffer; the range is in bounds.
    pub(crate) fn upload(
        &mut self,
        core: &Core,
        to: vk::Buffer,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Error> {
        let ring = self.mapping()?;
        let first = self.value + 1;
        for (index, chunk) in data.chunks(CHUNK).enumerate() {
            let slot = index % CHUNKS;
            // The transfer that used this slot before.
            if index >= CHUNKS {
                self.wait(core, first + (index - CHUNKS) as u64)?;
            }
            // SAFETY: the slot lies inside the ring, which is ours alone, and its last transfer is done.
            unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), ring.add(slot * CHUNK), chunk.len()) };
            let region = vk::BufferCopy {
                src_offset: (slot * CHUNK) as u64,
                dst_offset: offset + (index * CHUNK) as u64,
                size: chunk.len() as u64,
            };
            let from = self.ring.handle;
            self.submit(core, slot, |device, commands| {
                // SAFETY: recording alone; both ranges are in bounds.
                unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
            })?;
        }
        self.wait(core, self.value)
    }

    /// Copies a buffer's bytes out; the range is in bounds.
    pub(crate) fn download(
        &mut self,
        core: &Core,
        from: vk::Buffer,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), Error> {
        let ring = self.mapping()?;
        let first = self.value + 1;
        let total = data.len();
        let count = total.div_ceil(CHUNK);
        let size = |index: usize| CHUNK.min(total - index * CHUNK);
        let to = self.ring.handle;
        let start = |staging: &mut Self, index: usize| {
            let slot = index % CHUNKS;
            let region = vk::BufferCopy {
                src_offset: offset + (index * CHUNK) as u64,
                dst_offset: (slot * CHUNK) as u64,
                size: size(index) as u64,
            };
            staging.submit(core, slot, |device, commands| {
                // SAFETY: recording alone; both ranges are in bounds.
                unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
            })
        };
        for index in 0..count.min(CHUNKS) {
            start(self, index)?;
        }
        for (index, chunk) in data.chunks_mut(CHUNK).enumerate() {
            self.wait(core, first + index as u64)?;
            let slot = index % CHUNKS;
            // SAFETY: the slot lies inside the ring, which is ours alone, and its transfer is done.
            unsafe { std::ptr::copy_nonoverlapping(ring.add(slot * CHUNK), chunk.as_mut_ptr(), chunk.len()) };
            if index + CHUNKS < count {
                start(self, index + CHUNKS)?;
            }
        }
        Ok(())
    }

    /// Zeroes a whole buffer.
    pub(crate) fn clear(&mut self, core: &Core, buffer: vk::Buffer) -> Result<(), Error> {
        self.submit(core, 0, |device, commands| {
            // SAFETY: recording alone; the whole buffer, whose size is a multiple of 4.
            unsafe { device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, 0) };
        })?;
        self.wait(core, self.value)
    }

    fn mapping(&self) -> Result<*mut u8, Error> {
        self.ring
            .mapping()
            .ok_or_else(|| Error::Plan("the device has no host-coherent memory for staging".into()))
    }

    /// Records and submits one slot's commands; the slot's last transfer is done.
    fn submit(
        &mut self,
        core: &Core,
        slot: usize,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), Error> {
        let commands = self.commands.get(slot).copied().ok_or(Error::DeviceLost)?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: exclusive through `&mut self`; the command buffer is idle and its pool allows the reset.
        unsafe {
            core.device.begin_command_buffer(commands, &begin).map_err(Error::of("vkBeginCommandBuffer"))?;
            core.barrier(commands, everything());
            record(&core.device, commands);
            core.barrier(commands, to_host());
            core.device.end_command_buffer(commands).map_err(Error::of("vkEndCommandBuffer"))?;
        }
        core.submit(&core.transfer, &[commands], self.value + 1)?;
        self.value += 1;
        Ok(())
    }

    fn wait(&self, core: &Core, value: u64) -> Result<(), Error> {
        if core.wait(&core.transfer, value, core.watchdog)?.is_none() {
            core.mark_lost(true);
            return Err(Error::DeviceLost);
        }
        Ok(())
    }

    /// Waits for whatever an operation that failed had submitted.
    pub(crate) fn settle(&self, core: &Core) {
        if let Err(error) = self.wait(core, self.value) {
            log::error!("transfers could not be waited for: {error}");
        }
    }

    /// Destroys the ring; called once the core is dropped.
    pub(crate) fn destroy(self, core: &Core, allocator: Option<&mut Allocator>) {
        // SAFETY: idle: every operation waited for its transfers, or the device is lost.
        unsafe {
            core.device.destroy_command_pool(self.pool, None);
            self.ring.destroy(&core.device, allocator);
        }
    }
}

fn commands(core: &Core) -> Result<(vk::CommandPool, Vec<vk::CommandBuffer>), Error> {
    let info = vk::CommandPoolCreateInfo::default()
        .queue_family_index(core.transfer.family)
        .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
    crate::record::command_buffers(core, &info, CHUNKS as u32)
}
