//! Programs.

use std::cell::RefCell;
use std::sync::Arc;

use accel_proto::{Status, Usage};

use crate::answer::Answer;
use crate::backend::{Backend, LoadError, ProgramSource};
use crate::command::{ProgramHead, Range};
use crate::device::Device;
use crate::memory::Charge;
use crate::state::{Kind, Program, Shared};

/// [`LoadError`] class of a program that is too large for the guest's share.
const CLASS_RESOURCES: u32 = 5;

impl<B: Backend> Device<B> {
    pub(crate) fn load_program(&self, head: &ProgramHead, artifact: &[u8]) -> Result<Answer, Status> {
        self.load(head, || {
            let charge = self.charge_program(head, artifact.len() as u64)?;
            self.compile(head, artifact, charge)
        })
    }

    pub(crate) fn load_program_from_buffer(&self, head: &ProgramHead, at: &Range) -> Result<Answer, Status> {
        self.load(head, || {
            let transfer = self.begin_transfer(at, Usage::TRANSFER_SOURCE, Some(head.context))?;
            let charge = self.charge_program(head, at.bytes)?;
            let bytes = usize::try_from(at.bytes).map_err(|_| Status::ResourceLimit)?;
            let mut artifact = Vec::new();
            artifact.try_reserve_exact(bytes).map_err(|_| Status::OutOfMemory)?;
            artifact.resize(bytes, 0);
            transfer.read(at.offset, &mut artifact)?;
            drop(transfer);
            self.compile(head, &artifact, charge)
        })
    }

    fn load(
        &self,
        head: &ProgramHead,
        make: impl FnOnce() -> Result<Program<B>, Status>,
    ) -> Result<Answer, Status> {
        let context = head.context;
        self.create(context, Kind::Program, make, |state, id, program| {
            state.programs.insert(id, Shared { context, object: Arc::new(program), pins: 0 });
        })
    }

    /// Charges what the guest says that the program holds, and its artifact at least.
    fn charge_program(&self, head: &ProgramHead, artifact_bytes: u64) -> Result<Charge, Status> {
        let bytes = head.resident_bytes.unwrap_or(0).max(artifact_bytes);
        self.budget.charge(bytes).ok_or_else(|| {
            let limit = self.config.memory_limit_bytes;
            let message = format!(
                "The program holds {bytes} bytes and the guest holds {} of its {limit} already; free buffers or \
                 programs, or give the device more memory.",
                self.budget.used()
            );
            let status = Status::ResourceLimit;
            self.keep_load_error(head, LoadError { status, class: CLASS_RESOURCES, message })
        })
    }

    fn compile(&self, head: &ProgramHead, artifact: &[u8], charge: Charge) -> Result<Program<B>, Status> {
        let charge = RefCell::new(charge);
        let reserve = |bytes| charge.borrow_mut().raise(bytes);
        let source = ProgramSource { format: head.format, target: head.target, artifact, reserve: &reserve };
        match self.backend.load(source) {
            Ok(handle) => Ok(Program { handle, _charge: charge.into_inner() }),
            Err(error) => Err(self.keep_load_error(head, error)),
        }
    }

    /// Keeps an error for QUERY, and gives its status.
    fn keep_load_error(&self, head: &ProgramHead, mut error: LoadError) -> Status {
        log::debug!("A program was refused ({}): {}", error.status, error.message);
        let status = self.failure(error.status);
        error.status = status;
        if let Ok(context) = self.lock().contexts.get_mut(head.context) {
            context.last_load_error = Some(error);
        }
        status
    }
}
