//! Payloads of the extensions.

use zerocopy::little_endian::{U32, U64};

use crate::payload::{EventState, LoadProgram};
use crate::wire_struct;

wire_struct! {
    /// OK response of EXECUTE.
    ExecuteResult, 8, {
        /// Nanoseconds on the accelerator, 0 where unknown.
        gpu_ns: U64,
    }
}

wire_struct! {
    /// Request of WAIT_EVENT.
    WaitEvent, 16, {
        /// Event.
        event_id: U64,
        /// From the device's reading of the request; 0 is for ever.
        timeout_ns: U64,
    }
}

wire_struct! {
    /// OK response of WAIT_EVENT.
    WaitResult, 16, {
        /// Terminal state.
        event: EventState,
        /// Nanoseconds on the accelerator, 0 where unknown.
        gpu_ns: U64,
    }
}

wire_struct! {
    /// Request of LOAD_PROGRAM_FROM_BUFFER.
    LoadProgramFromBuffer, 96, {
        /// As in LOAD_PROGRAM; `payload_bytes` is the artifact's length in the buffer.
        program: LoadProgram,
        /// Buffer of the same context with usage transfer-source.
        buffer_id: U64,
        /// First byte of the artifact.
        offset: U64,
    }
}

wire_struct! {
    /// Request of QUERY.
    Query, 24, {
        /// One of [`QueryTopic`].
        topic: U32,
        /// Zero.
        reserved: U32,
        /// Object that the topic is about, 0 where it needs none.
        object_id: U64,
        /// First byte of the answer that is wanted.
        offset: U64,
    }
}

wire_struct! {
    /// Begins the OK response of QUERY; as many bytes of the answer follow as fit.
    QueryHeader, 8, {
        /// Bytes of the whole answer.
        total_bytes: U64,
    }
}

wire_struct! {
    /// Request of COPY_BUFFER.
    CopyBuffer, 40, {
        /// Buffer with usage transfer-source.
        source_id: U64,
        /// First byte read.
        source_offset: U64,
        /// Buffer of the same context with usage transfer-destination.
        destination_id: U64,
        /// First byte written.
        destination_offset: U64,
        /// Length, not 0.
        bytes: U64,
    }
}

/// What a QUERY asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum QueryTopic {
    /// The device's name, UTF-8.
    DeviceName = 1,
    /// Operators and their types, JSON.
    Operators = 2,
    /// Slots of a program, JSON array.
    ProgramSlots = 3,
    /// Message of the last failed load of a context, JSON.
    LastLoadError = 4,
    /// Limits beyond DeviceInfo, JSON.
    Limits = 5,
}

impl QueryTopic {
    /// The wire value.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The topic of a wire value, where it has one.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        [Self::DeviceName, Self::Operators, Self::ProgramSlots, Self::LastLoadError, Self::Limits]
            .into_iter()
            .find(|topic| topic.code() == code)
    }
}
