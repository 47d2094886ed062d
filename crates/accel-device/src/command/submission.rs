//! The payload of SUBMIT and EXECUTE.

use accel_proto::{Access, Binding, DeviceInfo, FromBytes, Status, Submit};

use super::{Range, argument, head, id, limit, range, supported};

/// A submission, its bindings in slot order.
pub(crate) struct Submission {
    pub(crate) queue: u64,
    pub(crate) program: u64,
    pub(crate) bindings: Vec<BindingCheck>,
    /// 0 is for ever.
    pub(crate) timeout_ns: u64,
}

/// A binding whose fields are sound by themselves.
pub(crate) struct BindingCheck {
    pub(crate) range: Range,
    pub(crate) slot: u32,
    pub(crate) access: Access,
}

impl Submission {
    pub(super) fn parse(payload: &[u8], info: &DeviceInfo) -> Result<Self, Status> {
        let (submit, rest) = head::<Submit>(payload)?;
        supported(submit.flags.get() == 0)?;
        let count = submit.binding_count.get();
        argument(count != 0)?;
        limit(count <= info.max_bindings_per_submission.get())?;
        argument(rest.len() as u64 == u64::from(count) * Binding::BYTES as u64)?;
        let queue = id(submit.queue_id.get())?;
        let program = id(submit.program_id.get())?;
        let wire = <[Binding]>::ref_from_bytes(rest).map_err(|_| Status::InvalidArgument)?;
        let mut bindings = wire.iter().map(BindingCheck::parse).collect::<Result<Vec<_>, _>>()?;
        bindings.sort_unstable_by_key(|binding| binding.slot);
        argument(bindings.windows(2).all(|pair| pair[0].slot != pair[1].slot))?;
        Ok(Self { queue, program, bindings, timeout_ns: submit.timeout_ns.get() })
    }
}

impl BindingCheck {
    fn parse(binding: &Binding) -> Result<Self, Status> {
        argument(binding.reserved == [0; 3])?;
        let access = Access::from_code(binding.access).ok_or(Status::InvalidArgument)?;
        let range = range(binding.buffer_id.get(), binding.offset.get(), binding.bytes.get())?;
        Ok(Self { range, slot: binding.slot.get(), access })
    }
}
