//! Bytes between frames and buffers, and between buffers.

use std::sync::{Arc, PoisonError};

use accel_proto::{Status, Usage};

use crate::answer::Answer;
use crate::backend::Backend;
use crate::command::Range;
use crate::device::Device;
use crate::state::Memory;

/// Host bytes that COPY_BUFFER goes through at a time.
const COPY_CHUNK: u64 = 1 << 20;

/// A transfer going on: the buffer can be neither freed nor submitted until it is dropped.
pub(crate) struct Transferring<'a, B: Backend> {
    device: &'a Device<B>,
    context: u64,
    buffer: u64,
    memory: Arc<Memory<B>>,
}

impl<B: Backend> Device<B> {
    pub(crate) fn write_buffer(&self, at: &Range, data: &[u8]) -> Result<Answer, Status> {
        self.begin_transfer(at, Usage::TRANSFER_DESTINATION, None)?.write(at.offset, data)?;
        Ok(Answer::empty())
    }

    pub(crate) fn read_buffer(&self, at: &Range) -> Result<Answer, Status> {
        let transfer = self.begin_transfer(at, Usage::TRANSFER_SOURCE, None)?;
        // At most a response's size: the caller has checked it.
        let bytes = usize::try_from(at.bytes).map_err(|_| Status::ResourceLimit)?;
        let mut answer = Answer::zeroed(bytes);
        transfer.read(at.offset, answer.payload_mut())?;
        Ok(answer)
    }

    pub(crate) fn copy_buffer(&self, source: Range, destination: Range) -> Result<Answer, Status> {
        let from = self.begin_transfer(&source, Usage::TRANSFER_SOURCE, None)?;
        let to = self.begin_transfer(&destination, Usage::TRANSFER_DESTINATION, Some(from.context))?;
        let mut chunk = vec![0; source.bytes.min(COPY_CHUNK) as usize];
        let mut done = 0;
        while done < source.bytes {
            let bytes = (source.bytes - done).min(COPY_CHUNK);
            let chunk = &mut chunk[..bytes as usize];
            from.read(source.offset + done, chunk)?;
            to.write(destination.offset + done, chunk)?;
            done += bytes;
        }
        Ok(Answer::empty())
    }

    /// Checks that a buffer (of `context`, where that matters) may be transferred now, and holds it.
    pub(crate) fn begin_transfer(
        &self,
        at: &Range,
        usage: Usage,
        context: Option<u64>,
    ) -> Result<Transferring<'_, B>, Status> {
        let mut state = self.lock();
        let buffer = state.buffers.get_mut(at.buffer)?;
        if context.is_some_and(|context| context != buffer.context) {
            return Err(Status::StaleObject);
        }
        if buffer.pins > 0 {
            return Err(Status::Busy);
        }
        buffer.memory.check_range(at)?;
        if !buffer.memory.usage.contains(usage) {
            return Err(Status::PermissionDenied);
        }
        buffer.transfers += 1;
        let (context, memory) = (buffer.context, Arc::clone(&buffer.memory));
        Ok(Transferring { device: self, context, buffer: at.buffer, memory })
    }
}

impl<B: Backend> Transferring<'_, B> {
    /// Copies bytes out of the buffer.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Status> {
        let _shared = self.memory.transfer.read().unwrap_or_else(PoisonError::into_inner);
        let read = self.device.backend.read(&self.memory.handle, offset, data);
        read.map_err(|status| self.device.failure(status))
    }

    /// Copies bytes into the buffer.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let _alone = self.memory.transfer.write().unwrap_or_else(PoisonError::into_inner);
        let written = self.device.backend.write(&self.memory.handle, offset, data);
        written.map_err(|status| self.device.failure(status))
    }
}

impl<B: Backend> Drop for Transferring<'_, B> {
    fn drop(&mut self) {
        // A reset meanwhile has dropped the buffer.
        if let Ok(buffer) = self.device.lock().buffers.get_mut(self.buffer) {
            buffer.transfers -= 1;
        }
    }
}
