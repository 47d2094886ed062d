//! The device with its queues and allocator: what every other object holds on to.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ash::vk;
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};

use crate::features::Properties;
use crate::instance::{Instance, lock};
use crate::memory::Accounting;
use crate::select::Candidate;
use crate::staging::Staging;
use crate::{EngineOptions, Error};

/// A `VkQueue` with a timeline of its own; two lanes may share one queue.
pub(crate) struct Lane {
    queue: Arc<Mutex<vk::Queue>>,
    pub(crate) family: u32,
    timeline: vk::Semaphore,
    /// Highest timeline value that the host has seen reached.
    pub(crate) done: AtomicU64,
}

/// An open device.
pub(crate) struct Core {
    pub(crate) device: ash::Device,
    pub(crate) properties: Properties,
    /// Valid bits of a timestamp written by the compute lane; 0 when there are none.
    pub(crate) timestamp_bits: u32,
    /// Runs programs.
    pub(crate) compute: Lane,
    /// Copies to and from memory that the host cannot map.
    pub(crate) transfer: Lane,
    pub(crate) allocator: Mutex<Option<Allocator>>,
    pub(crate) accounting: Accounting,
    pub(crate) staging: Mutex<Option<Staging>>,
    /// Longest wait for one piece of work.
    pub(crate) watchdog: Duration,
    /// Treat device and shared memory as if it could not be mapped.
    pub(crate) staged: bool,
    lost: AtomicBool,
    hung: AtomicBool,
    // Leaked, like the device, when work was given up.
    pub(crate) instance: ManuallyDrop<Instance>,
}

impl Core {
    /// Opens the device of `candidate`.
    pub(crate) fn open(
        instance: Instance,
        candidate: Candidate,
        options: &EngineOptions,
    ) -> Result<Self, Error> {
        let Candidate { handle, features, properties, families } = candidate;
        let Some((compute, transfer)) = families else {
            return Err(Error::Plan("the device has no queue for compute".into()));
        };
        let priorities = [1.0];
        let queue_info = |family| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)
        };
        let queues: Vec<_> = [Some(compute.index), transfer].into_iter().flatten().map(queue_info).collect();
        let mut features = features.restrict();
        let extensions = features.extensions();
        let device = features
            .chain(|chain| {
                let info = vk::DeviceCreateInfo::default()
                    .queue_create_infos(&queues)
                    .enabled_extension_names(&extensions)
                    .push_next(chain);
                // SAFETY: well-formed; features and extensions were reported by this device.
                unsafe { instance.raw.create_device(handle, &info, None) }
            })
            .map_err(Error::of("vkCreateDevice"))?;

        let rest = || {
            let allocator = Allocator::new(&AllocatorCreateDesc {
                instance: instance.raw.clone(),
                device: device.clone(),
                physical_device: handle,
                debug_settings: Default::default(),
                buffer_device_address: true,
                allocation_sizes: Default::default(),
            })
            .map_err(Error::Allocator)?;
            // SAFETY: alive; queue 0 of both families was created.
            let queue = |family| Arc::new(Mutex::new(unsafe { device.get_device_queue(family, 0) }));
            let compute_queue = queue(compute.index);
            let (transfer_queue, transfer_family) = match transfer {
                Some(family) => (queue(family), family),
                None => (Arc::clone(&compute_queue), compute.index),
            };
            let compute = Lane::new(&device, compute_queue, compute.index)?;
            match Lane::new(&device, transfer_queue, transfer_family) {
                Ok(transfer) => Ok((allocator, compute, transfer)),
                Err(error) => {
                    // SAFETY: just made and never used.
                    unsafe { device.destroy_semaphore(compute.timeline, None) };
                    Err(error)
                }
            }
        };
        let (allocator, compute_lane, transfer_lane) = match rest() {
            Ok(parts) => parts,
            Err(error) => {
                // SAFETY: everything made from the device was destroyed by `rest`.
                unsafe { device.destroy_device(None) };
                return Err(error);
            }
        };
        Ok(Self {
            timestamp_bits: compute.timestamp_bits,
            compute: compute_lane,
            transfer: transfer_lane,
            allocator: Mutex::new(Some(allocator)),
            accounting: Accounting::new(options.memory_limit_bytes),
            staging: Mutex::new(None),
            watchdog: options.watchdog_for(properties.caps.kind),
            staged: options.staged,
            lost: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            device,
            properties,
            instance: ManuallyDrop::new(instance),
        })
    }

    /// Whether the device was lost or hung.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether work may still run although it was given up: then nothing is destroyed any more.
    pub(crate) fn is_hung(&self) -> bool {
        self.hung.load(Ordering::Acquire)
    }

    /// Notes that the device was lost; `hung` when it never answered.
    pub(crate) fn mark_lost(&self, hung: bool) {
        self.hung.fetch_or(hung, Ordering::AcqRel);
        if !self.lost.swap(true, Ordering::AcqRel) {
            let how = if hung { "did not finish its work in time" } else { "was lost" };
            log::error!("the device {} {how}", self.properties.caps.name);
        }
    }

    /// Families that buffers are shared between; one entry when the lanes share a queue.
    pub(crate) fn families(&self) -> Vec<u32> {
        let mut families = vec![self.compute.family];
        if self.separate() {
            families.push(self.transfer.family);
        }
        families
    }

    fn separate(&self) -> bool {
        self.compute.family != self.transfer.family
    }

    /// Submits command buffers to a lane; its timeline reaches `value` when they are done.
    pub(crate) fn submit(
        &self,
        lane: &Lane,
        commands: &[vk::CommandBuffer],
        value: u64,
    ) -> Result<(), Error> {
        let commands: Vec<_> =
            commands.iter().map(|c| vk::CommandBufferSubmitInfo::default().command_buffer(*c)).collect();
        let point = |lane: &Lane, value| {
            vk::SemaphoreSubmitInfo::default()
                .semaphore(lane.timeline)
                .value(value)
                .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        };
        let signals = [point(lane, value)];
        // What the host saw finished on the other queue is visible on this one only through its semaphore.
        let other = if std::ptr::eq(lane, &self.compute) { &self.transfer } else { &self.compute };
        let waits = [point(other, other.done.load(Ordering::Acquire))];
        let waits: &[_] = if self.separate() { &waits } else { &[] };
        let info = vk::SubmitInfo2::default()
            .command_buffer_infos(&commands)
            .signal_semaphore_infos(&signals)
            .wait_semaphore_infos(waits);
        let queue = lock(&lane.queue);
        // SAFETY: well-formed; exclusive through the queue's mutex.
        let result = unsafe { self.device.queue_submit2(*queue, &[info], vk::Fence::null()) };
        result.map_err(Error::of("vkQueueSubmit2")).inspect_err(|error| self.note(error))
    }

    /// Blocks until a lane's timeline reaches `value` and gives the value it has then; `None` when `limit`
    /// passes first.
    pub(crate) fn wait(&self, lane: &Lane, value: u64, limit: Duration) -> Result<Option<u64>, Error> {
        let (semaphores, values) = ([lane.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: alive and well-formed.
        let waited = unsafe {
            self.device
                .wait_semaphores(&info, nanoseconds)
                .and_then(|()| self.device.get_semaphore_counter_value(lane.timeline))
        };
        match waited {
            Ok(reached) => {
                lane.done.fetch_max(reached, Ordering::AcqRel);
                Ok(Some(reached))
            }
            Err(vk::Result::TIMEOUT) => Ok(None),
            Err(result) => Err(Error::of("vkWaitSemaphores")(result)).inspect_err(|error| self.note(error)),
        }
    }

    fn note(&self, error: &Error) {
        if matches!(error, Error::DeviceLost) {
            self.mark_lost(false);
        }
    }

    /// Records a memory barrier over everything.
    ///
    /// # Safety
    /// `commands` is being recorded by the caller alone.
    pub(crate) unsafe fn barrier(&self, commands: vk::CommandBuffer, barrier: vk::MemoryBarrier2<'_>) {
        let barriers = [barrier];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: by this function's contract.
        unsafe { self.device.cmd_pipeline_barrier2(commands, &info) };
    }
}

/// Orders everything before it in the queue against everything after it.
pub(crate) fn everything() -> vk::MemoryBarrier2<'static> {
    let access = vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE;
    vk::MemoryBarrier2::default()
        .src_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        .src_access_mask(access)
        .dst_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        .dst_access_mask(access)
}

/// Makes what was written visible to the host, once the timeline says that it is done.
pub(crate) fn to_host() -> vk::MemoryBarrier2<'static> {
    vk::MemoryBarrier2::default()
        .src_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        .src_access_mask(vk::AccessFlags2::MEMORY_WRITE)
        .dst_stage_mask(vk::PipelineStageFlags2::HOST)
        .dst_access_mask(vk::AccessFlags2::HOST_READ | vk::AccessFlags2::HOST_WRITE)
}

impl Lane {
    fn new(device: &ash::Device, queue: Arc<Mutex<vk::Queue>>, family: u32) -> Result<Self, Error> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: alive and well-formed; the feature is required of every device.
        let timeline =
            unsafe { device.create_semaphore(&info, None) }.map_err(Error::of("vkCreateSemaphore"))?;
        Ok(Self { queue, family, timeline, done: AtomicU64::new(0) })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let staging = lock(&self.staging).take();
        let mut allocator = lock(&self.allocator).take();
        if self.is_hung() {
            // Work that was given up may still run: leave everything to the end of the process.
            std::mem::forget(staging);
            std::mem::forget(allocator);
            return;
        }
        if let Some(staging) = staging {
            staging.destroy(self, allocator.as_mut());
        }
        drop(allocator);
        // SAFETY: nothing holds the core any more, so everything made from the device is destroyed and idle.
        unsafe {
            self.device.destroy_semaphore(self.compute.timeline, None);
            self.device.destroy_semaphore(self.transfer.timeline, None);
            self.device.destroy_device(None);
            ManuallyDrop::drop(&mut self.instance);
        }
    }
}
