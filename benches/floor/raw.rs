//! A fill of 16 bytes by Vulkan alone: no engine, one recorded command buffer.
//!
//! Every handle lives in [`Raw`], which waits for the device and destroys them in reverse order.

use std::time::Instant;

use ash::vk;

use crate::Result;

const BYTES: u64 = 16;

/// A device with one command buffer and a fence.
pub struct Raw {
    _entry: ash::Entry,
    instance: ash::Instance,
    device: ash::Device,
    queue: vk::Queue,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    pool: vk::CommandPool,
    queries: vk::QueryPool,
    fence: vk::Fence,
    commands: vk::CommandBuffer,
    /// Nanoseconds a tick.
    period: f64,
}

impl Raw {
    /// Opens the physical device with this id.
    pub fn open(uuid: [u8; 16]) -> Result<Self> {
        // SAFETY: the loader is a system library; the instance is destroyed with `self`. A failure below leaks
        // what was made, and ends the bench.
        unsafe {
            let entry = ash::Entry::load()?;
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let info = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&info, None)?;
            let is_meant = |physical: &vk::PhysicalDevice| {
                let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
                let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut v11);
                instance.get_physical_device_properties2(*physical, &mut all);
                v11.device_uuid == uuid
            };
            let physical = instance.enumerate_physical_devices()?.into_iter().find(is_meant);
            let physical = physical.ok_or("the device is gone")?;
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = family.ok_or("the device has no queue for compute")? as u32;
            let priorities = [1.0];
            let queues = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&priorities)];
            let device = instance.create_device(
                physical,
                &vk::DeviceCreateInfo::default().queue_create_infos(&queues),
                None,
            )?;
            let info = vk::BufferCreateInfo::default().size(BYTES).usage(vk::BufferUsageFlags::TRANSFER_DST);
            let buffer = device.create_buffer(&info, None)?;
            let needs = device.get_buffer_memory_requirements(buffer);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(needs.memory_type_bits.trailing_zeros());
            let memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(buffer, memory, 0)?;
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            let pool = device.create_command_pool(&info, None)?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info)?[0];
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
            let queries = device.create_query_pool(&info, None)?;
            device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            device.cmd_reset_query_pool(commands, queries, 0, 2);
            device.cmd_write_timestamp(commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, queries, 0);
            device.cmd_fill_buffer(commands, buffer, 0, BYTES, 1);
            device.cmd_write_timestamp(commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, queries, 1);
            device.end_command_buffer(commands)?;
            let fence = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            let period = f64::from(instance.get_physical_device_properties(physical).limits.timestamp_period);
            let queue = device.get_device_queue(family, 0);
            Ok(Self {
                _entry: entry,
                instance,
                device,
                queue,
                buffer,
                memory,
                pool,
                queries,
                fence,
                commands,
                period,
            })
        }
    }

    /// Submits, and waits by asking for the fence's state again and again (`spin`) or by sleeping: time between the
    /// timestamps, and until the fence was seen.
    pub fn run(&mut self, spin: bool) -> Result<(f64, f64)> {
        let commands = [self.commands];
        let submit = [vk::SubmitInfo::default().command_buffers(&commands)];
        let mut ticks = [0u64; 2];
        let start = Instant::now();
        // SAFETY: all handles are alive; the last run has ended, and nobody else uses queue or fence.
        let wall = unsafe {
            self.device.queue_submit(self.queue, &submit, self.fence)?;
            if spin {
                while !self.device.get_fence_status(self.fence)? {
                    std::hint::spin_loop();
                }
            } else {
                self.device.wait_for_fences(&[self.fence], true, u64::MAX)?;
            }
            let wall = start.elapsed().as_secs_f64();
            self.device.reset_fences(&[self.fence])?;
            let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
            self.device.get_query_pool_results(self.queries, 0, &mut ticks, flags)?;
            wall
        };
        Ok((ticks[1].saturating_sub(ticks[0]) as f64 * self.period / 1e9, wall))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: all handles are alive, idle after the wait, and destroyed once, children before parents.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_fence(self.fence, None);
            self.device.destroy_query_pool(self.queries, None);
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_buffer(self.buffer, None);
            self.device.free_memory(self.memory, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
