//! Commands of a program with its bindings, recorded once and replayed.

use std::sync::Arc;

use accel_kernels::{Dispatch, Place, Region};
use ash::vk;

use crate::Error;
use crate::core::Core;
use crate::program::Program;

/// Recorded command buffers, with a pool of their own: dropping them needs no lock.
pub(crate) struct Recorded {
    core: Arc<Core>,
    pool: vk::CommandPool,
    /// One a segment.
    segments: Vec<vk::CommandBuffer>,
}

impl Recorded {
    /// Records `program` with the device addresses of its inputs and then its outputs.
    pub(crate) fn new(program: &Program, addresses: &[u64]) -> Result<Self, Error> {
        let core = program.core();
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(core.compute.family);
        let (pool, segments) = command_buffers(core, &info, program.segments().len() as u32)?;
        // From here the pool is destroyed with `recorded`.
        let recorded = Self { core: Arc::clone(core), pool, segments };
        for (number, &commands) in recorded.segments.iter().enumerate() {
            recorded.segment(program, addresses, number, commands)?;
        }
        Ok(recorded)
    }

    /// The commands of a segment.
    pub(crate) fn commands(&self, segment: u32) -> vk::CommandBuffer {
        self.segments.get(segment as usize).copied().unwrap_or_default()
    }

    /// Records a segment.
    fn segment(
        &self,
        program: &Program,
        addresses: &[u64],
        number: usize,
        commands: vk::CommandBuffer,
    ) -> Result<(), Error> {
        let core = &self.core;
        let range = &program.segments()[number].dispatches;
        // Replays may overlap in the window.
        let begin =
            vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        let device = &core.device;
        // SAFETY: recording alone, with pipelines that the program keeps alive; push constants and group
        // counts were checked against the device's limits when the program was loaded.
        unsafe {
            device.begin_command_buffer(commands, &begin).map_err(Error::of("vkBeginCommandBuffer"))?;
            // The one before may be in the same submission.
            if number > 0 {
                core.barrier(commands, between_dispatches());
            }
            let mut bound = None;
            for dispatch in &program.dispatches()[range.start as usize..range.end as usize] {
                if dispatch.barrier {
                    core.barrier(commands, between_dispatches());
                }
                if bound != Some(dispatch.pipeline) {
                    let pipeline = program.pipeline(dispatch.pipeline)?;
                    device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
                    bound = Some(dispatch.pipeline);
                }
                let constants = push_constants(program, dispatch, addresses)?;
                if !constants.is_empty() {
                    let stages = vk::ShaderStageFlags::COMPUTE;
                    device.cmd_push_constants(commands, program.layout(), stages, 0, &constants);
                }
                let [x, y, z] = dispatch.groups;
                device.cmd_dispatch(commands, x, y, z);
            }
            device.end_command_buffer(commands).map_err(Error::of("vkEndCommandBuffer"))
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.core.is_hung() {
            // SAFETY: idle: a job in flight holds its recording.
            unsafe { self.core.device.destroy_command_pool(self.pool, None) };
        }
    }
}

/// Orders the kernels before it against those after it: reads after writes, and writes after reads.
fn between_dispatches() -> vk::MemoryBarrier2<'static> {
    let stage = vk::PipelineStageFlags2::COMPUTE_SHADER;
    vk::MemoryBarrier2::default()
        .src_stage_mask(stage)
        .src_access_mask(vk::AccessFlags2::SHADER_STORAGE_WRITE)
        .dst_stage_mask(stage)
        .dst_access_mask(vk::AccessFlags2::SHADER_STORAGE_READ | vk::AccessFlags2::SHADER_STORAGE_WRITE)
}

/// Addresses of the operands, then the parameters.
fn push_constants(program: &Program, dispatch: &Dispatch, addresses: &[u64]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(dispatch.operands.len() * 8 + dispatch.params.len() * 4);
    for place in &dispatch.operands {
        bytes.extend(address(program, *place, addresses)?.to_ne_bytes());
    }
    for word in &dispatch.params {
        bytes.extend(word.to_ne_bytes());
    }
    Ok(bytes)
}

fn address(program: &Program, place: Place, addresses: &[u64]) -> Result<u64, Error> {
    let base = match place.region {
        Region::Input(slot) => addresses.get(slot as usize).copied(),
        Region::Output(slot) => addresses.get(program.inputs().len() + slot as usize).copied(),
        Region::Arena => program.arena_address(),
        Region::State => program.state_address(),
        Region::Decisions => program.decisions_address(),
        Region::Constants => program.constants_address(),
    };
    // Checked at load; an address must never be made up.
    base.map(|base| base + place.offset)
        .ok_or_else(|| Error::Plan(format!("{:?} is not bound", place.region)))
}

/// Makes a pool with `count` command buffers.
pub(crate) fn command_buffers(
    core: &Core,
    info: &vk::CommandPoolCreateInfo<'_>,
    count: u32,
) -> Result<(vk::CommandPool, Vec<vk::CommandBuffer>), Error> {
    // SAFETY: alive and well-formed.
    let pool =
        unsafe { core.device.create_command_pool(info, None) }.map_err(Error::of("vkCreateCommandPool"))?;
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(count);
    // SAFETY: alive and well-formed; on failure the pool is destroyed unused.
    unsafe {
        core.device.allocate_command_buffers(&info).map(|buffers| (pool, buffers)).map_err(|result| {
            core.device.destroy_command_pool(pool, None);
            Error::of("vkAllocateCommandBuffers")(result)
        })
    }
}
