//! Loading programs.

use accel_proto::{
    Extensions, IntoBytes, LoadProgram, LoadProgramFromBuffer, MemoryDomain, Opcode, Status, U32, Usage, tosa,
};

use super::{Buffer, Client, Context, Program};
use crate::transport::Transport;
use crate::{Error, Result};

/// The target that covers every TOSA 1.0 artifact: both profiles, level 8K, all extensions.
fn any_tosa() -> [u32; 12] {
    tosa::Target {
        profiles: tosa::PROFILE_INTEGER | tosa::PROFILE_FLOAT,
        level: tosa::LEVEL_8K,
        extensions: (1 << 11) - 1,
    }
    .words()
}

impl<T: Transport> Client<T> {
    /// Loads a TOSA artifact, whatever its size: in one frame, or through a buffer where it is too large
    /// and the device can take it from there. `progress` hears how many bytes have arrived.
    ///
    /// # Errors
    /// As every call. A refusal carries the device's reason where it has QUERY.
    pub fn load_tosa(&self, context: Context, artifact: &[u8], progress: impl FnMut(u64)) -> Result<Program> {
        self.load_program(context, tosa::FORMAT, any_tosa(), artifact, progress)
    }

    /// As [`Self::load_tosa`], for any format and target words.
    ///
    /// # Errors
    /// As [`Self::load_tosa`].
    pub fn load_program(
        &self,
        context: Context,
        format: u32,
        target: [u32; 12],
        artifact: &[u8],
        progress: impl FnMut(u64),
    ) -> Result<Program> {
        let head = LoadProgram {
            context_id: context.0.into(),
            format: format.into(),
            flags: 0.into(),
            target: target.map(U32::from),
            payload_bytes: (artifact.len() as u64).into(),
            // Unknown before lowering; this value is what every device accepts.
            resident_bytes: u64::MAX.into(),
        };
        let loaded = if artifact.len() <= self.request_room(LoadProgram::BYTES) {
            self.load_in_frame(&head, artifact, progress)
        } else if self.extensions().contains(Extensions::LOAD_PROGRAM_FROM_BUFFER) {
            self.load_through_buffer(context, &head, artifact, progress)
        } else {
            return Err(Error::Argument(format!(
                "the artifact has {} bytes and the device takes at most {} in a request",
                artifact.len(),
                self.request_room(LoadProgram::BYTES)
            )));
        };
        loaded.map(Program).map_err(|error| self.explain(context, error))
    }

    fn load_in_frame(
        &self,
        head: &LoadProgram,
        artifact: &[u8],
        mut progress: impl FnMut(u64),
    ) -> Result<u64> {
        let parts = [head.as_bytes(), artifact];
        let reply = self.call(Opcode::LoadProgram, &parts, 0, || asked(artifact))?;
        progress(artifact.len() as u64);
        reply.id()
    }

    fn load_through_buffer(
        &self,
        context: Context,
        head: &LoadProgram,
        artifact: &[u8],
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let domain = match self.transfer_domain() {
            // The artifact is read by the host, never by the accelerator.
            MemoryDomain::Shared if self.serves(MemoryDomain::Host) => MemoryDomain::Host,
            domain => domain,
        };
        let buffer = self.allocate_buffer(context, artifact.len() as u64, domain, usage)?;
        let loaded = self
            .write_buffer_with(buffer, 0, artifact, progress)
            .and_then(|()| self.load_from_buffer(head, buffer, artifact));
        match (loaded, self.free_buffer(buffer)) {
            (Ok(program), Ok(())) => Ok(program),
            (Ok(_), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    fn load_from_buffer(&self, head: &LoadProgram, buffer: Buffer, artifact: &[u8]) -> Result<u64> {
        let request = LoadProgramFromBuffer { program: *head, buffer_id: buffer.0.into(), offset: 0.into() };
        let parts = [request.as_bytes()];
        self.call(Opcode::LoadProgramFromBuffer, &parts, 0, || asked(artifact))?.id()
    }

    /// Adds the device's own sentence to a refused load.
    fn explain(&self, context: Context, error: Error) -> Error {
        let Error::Device { command, status, asked, .. } = error else { return error };
        if !self.extensions().contains(Extensions::QUERY) || status == Status::DeviceLost {
            return Error::Device { command, status, asked, reason: None };
        }
        let reason = match self.last_load_failure(context) {
            Ok(reason) => reason,
            Err(error) => {
                log::warn!("The reason of a refused load could not be asked for: {error}");
                None
            }
        };
        Error::Device { command, status, asked, reason }
    }
}

fn asked(artifact: &[u8]) -> String {
    format!("an artifact of {} bytes", artifact.len())
}
