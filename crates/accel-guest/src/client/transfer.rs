//! Moving bytes in and out of buffers.

use std::collections::VecDeque;

use accel_proto::{CopyBuffer, Extensions, IntoBytes, Opcode, Transfer};

use super::{Buffer, Client};
use crate::Result;
use crate::transport::Transport;

/// Largest piece of a transfer, and how many of them are in flight: the device copies one while the next
/// is being written, and progress moves in steps that people can see.
const CHUNK: usize = 4 << 20;
const WINDOW: usize = 4;

impl<T: Transport> Client<T> {
    /// WRITE_BUFFER, in as many pieces as needed.
    ///
    /// # Errors
    /// As every call; OUT_OF_BOUNDS, PERMISSION_DENIED, BUSY.
    pub fn write_buffer(&self, buffer: Buffer, offset: u64, data: &[u8]) -> Result<()> {
        self.write_buffer_with(buffer, offset, data, |_| ())
    }

    /// As [`Self::write_buffer`]; `progress` hears how many bytes have arrived.
    ///
    /// # Errors
    /// As [`Self::write_buffer`].
    pub fn write_buffer_with(
        &self,
        buffer: Buffer,
        offset: u64,
        data: &[u8],
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        let chunk = self.request_room(Transfer::BYTES).min(CHUNK);
        let mut flights = VecDeque::with_capacity(WINDOW);
        let mut chunks = data.chunks(chunk);
        let (mut sent, mut arrived) = (0, 0);
        loop {
            let next = if flights.len() < WINDOW { chunks.next() } else { None };
            if let Some(piece) = next {
                let at = offset + sent;
                let request = transfer(buffer, at, piece.len());
                let asked = format!("{} bytes to buffer {buffer} at {at}", piece.len());
                let parts = [request.as_bytes(), piece];
                flights
                    .push_back((piece.len() as u64, self.start(0, Opcode::WriteBuffer, &parts, 0, asked)?));
                sent += piece.len() as u64;
            } else if let Some((len, flight)) = flights.pop_front() {
                flight.finish(self.timeout)?;
                arrived += len;
                progress(arrived);
            } else {
                return Ok(());
            }
        }
    }

    /// READ_BUFFER into `data`, in as many pieces as needed.
    ///
    /// # Errors
    /// As every call; OUT_OF_BOUNDS, PERMISSION_DENIED, BUSY.
    pub fn read_buffer(&self, buffer: Buffer, offset: u64, data: &mut [u8]) -> Result<()> {
        let chunk = self.response_room(0).min(CHUNK);
        let mut flights = VecDeque::with_capacity(WINDOW);
        let mut chunks = data.chunks_mut(chunk);
        let mut asked_for = 0;
        loop {
            let next = if flights.len() < WINDOW { chunks.next() } else { None };
            if let Some(piece) = next {
                let at = offset + asked_for;
                let request = transfer(buffer, at, piece.len());
                let asked = format!("{} bytes of buffer {buffer} at {at}", piece.len());
                let flight = self.start(0, Opcode::ReadBuffer, &[request.as_bytes()], piece.len(), asked)?;
                asked_for += piece.len() as u64;
                flights.push_back((piece, flight));
            } else if let Some((piece, flight)) = flights.pop_front() {
                let reply = flight.finish(self.timeout)?;
                if reply.payload().len() != piece.len() {
                    let text =
                        format!("it has {} bytes of the {} asked for", reply.payload().len(), piece.len());
                    return Err(reply.bad(text));
                }
                piece.copy_from_slice(reply.payload());
            } else {
                return Ok(());
            }
        }
    }

    /// COPY_BUFFER (extension).
    ///
    /// # Errors
    /// As every call; [`Error::Argument`] where the device lacks it.
    pub fn copy_buffer(&self, from: (Buffer, u64), to: (Buffer, u64), bytes: u64) -> Result<()> {
        self.require(Extensions::COPY_BUFFER, Opcode::CopyBuffer)?;
        let request = CopyBuffer {
            source_id: from.0.0.into(),
            source_offset: from.1.into(),
            destination_id: to.0.0.into(),
            destination_offset: to.1.into(),
            bytes: bytes.into(),
        };
        let asked =
            || format!("{bytes} bytes of buffer {} at {} to buffer {} at {}", from.0, from.1, to.0, to.1);
        self.call(Opcode::CopyBuffer, &[request.as_bytes()], 0, asked).map(drop)
    }
}

fn transfer(buffer: Buffer, offset: u64, bytes: usize) -> Transfer {
    Transfer { buffer_id: buffer.0.into(), offset: offset.into(), bytes: (bytes as u64).into() }
}
