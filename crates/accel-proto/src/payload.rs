//! Payloads of protocol 1.0.

use zerocopy::little_endian::{U16, U32, U64};

use crate::wire_struct;

/// Most bindings that any device may allow in a submission.
pub const MAX_BINDINGS: u32 = 4096;

wire_struct! {
    /// OK response of GET_DEVICE_INFO: identity and limits, constant for the life of the device.
    DeviceInfo, 76, {
        /// Stable id of the physical device.
        uuid: [u8; 16],
        /// One of [`crate::DeviceClass`], or unknown.
        class: U16,
        /// Zero.
        reserved: U16,
        /// PCI-style vendor.
        vendor_id: U32,
        /// Device of that vendor.
        device_id: U32,
        /// Set of [`crate::Capabilities`].
        capabilities: U64,
        /// Living contexts.
        max_contexts: U32,
        /// Living buffers of a context.
        max_buffers_per_context: U32,
        /// Living programs of a context.
        max_programs_per_context: U32,
        /// Living execution queues of a context.
        max_queues_per_context: U32,
        /// Living events of a context.
        max_events_per_context: U32,
        /// Bindings of a submission, 1 to [`MAX_BINDINGS`].
        max_bindings_per_submission: U32,
        /// Size of a buffer.
        max_buffer_bytes: U64,
        /// Size of an artifact.
        max_artifact_bytes: U64,
    }
}

wire_struct! {
    /// An opaque id, not 0: the whole payload of commands on one object and of responses that create one.
    ObjectId, 8, {
        /// The id.
        id: U64,
    }
}

wire_struct! {
    /// Request of CREATE_CONTEXT.
    CreateContext, 8, {
        /// Zero.
        flags: U32,
        /// Zero.
        reserved: U32,
    }
}

wire_struct! {
    /// Request of ALLOCATE_BUFFER.
    AllocateBuffer, 40, {
        /// Owner.
        context_id: U64,
        /// Size, not 0.
        bytes: U64,
        /// Power of two.
        alignment: U64,
        /// One of [`crate::MemoryDomain`].
        memory_domain: u8,
        /// Zero.
        reserved: [u8; 7],
        /// Set of [`crate::Usage`], not empty.
        usage: U32,
        /// Zero.
        reserved2: U32,
    }
}

wire_struct! {
    /// Request of READ_BUFFER, and of WRITE_BUFFER in front of the data.
    Transfer, 24, {
        /// Buffer.
        buffer_id: U64,
        /// First byte.
        offset: U64,
        /// Length, not 0.
        bytes: U64,
    }
}

wire_struct! {
    /// Request of LOAD_PROGRAM in front of the artifact.
    LoadProgram, 80, {
        /// Owner.
        context_id: U64,
        /// Artifact format, not 0.
        format: U32,
        /// Zero.
        flags: U32,
        /// Words that the format defines.
        target: [U32; 12],
        /// Length of the artifact, not 0.
        payload_bytes: U64,
        /// Device memory that the program is expected to hold, not 0; `u64::MAX` says unknown.
        resident_bytes: U64,
    }
}

wire_struct! {
    /// Request of CREATE_QUEUE.
    CreateQueue, 16, {
        /// Owner.
        context_id: U64,
        /// Zero.
        flags: U32,
        /// Zero.
        reserved: U32,
    }
}

wire_struct! {
    /// Request of SUBMIT (and of EXECUTE) in front of the bindings.
    Submit, 32, {
        /// Execution queue.
        queue_id: U64,
        /// Program.
        program_id: U64,
        /// [`Binding`]s that follow.
        binding_count: U32,
        /// Zero.
        flags: U32,
        /// From admission; 0 is for ever.
        timeout_ns: U64,
    }
}

wire_struct! {
    /// A range of a buffer at a slot of a program.
    Binding, 32, {
        /// Buffer.
        buffer_id: U64,
        /// First byte.
        offset: U64,
        /// Length, not 0.
        bytes: U64,
        /// Slot, once in a submission.
        slot: U32,
        /// One of [`crate::Access`].
        access: u8,
        /// Zero.
        reserved: [u8; 3],
    }
}

wire_struct! {
    /// OK response of POLL_EVENT.
    EventState, 8, {
        /// One of [`crate::EventPhase`].
        state: U16,
        /// [`crate::Status`] of a failed event, else OK.
        error: U16,
        /// Zero.
        reserved: U32,
    }
}
