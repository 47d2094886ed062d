//! The commands: one table of codes, names and sizes.

use crate::extension::{
    CopyBuffer, ExecuteResult, LoadProgramFromBuffer, Query, QueryHeader, WaitEvent, WaitResult,
};
use crate::header::HEADER_BYTES;
use crate::payload::{
    AllocateBuffer, Binding, CreateContext, CreateQueue, DeviceInfo, EventState, LoadProgram, ObjectId,
    Submit, Transfer,
};

/// How long a request's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSize {
    /// Exactly this many bytes.
    Fixed(usize),
    /// A fixed head, then data whose length a field of the head tells.
    Data {
        /// Bytes of the head.
        head: usize,
    },
    /// A fixed head that tells a count, then that many entries.
    Entries {
        /// Bytes of the head.
        head: usize,
        /// Bytes of an entry.
        entry: usize,
    },
}

impl RequestSize {
    /// Bytes that are always there.
    #[must_use]
    pub const fn head(self) -> usize {
        match self {
            Self::Fixed(head) | Self::Data { head } | Self::Entries { head, .. } => head,
        }
    }
}

/// How long the payload of an OK response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseSize {
    /// Exactly this many bytes.
    Fixed(usize),
    /// As many bytes as the request asks for.
    Requested,
    /// At least these bytes, and more as the driver leaves room.
    AtLeast(usize),
}

macro_rules! opcodes {
    ($($(#[$meta:meta])* $variant:ident = $code:literal, $name:literal, $request:expr, $response:expr;)*) => {
        /// A command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Opcode {
            $($(#[$meta])* $variant = $code,)*
        }

        impl Opcode {
            /// Every command, by code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The command of a wire code.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name that the specification uses.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Length of the request's payload.
            #[must_use]
            pub const fn request_size(self) -> RequestSize {
                match self { $(Self::$variant => $request,)* }
            }

            /// Length of the OK response's payload.
            #[must_use]
            pub const fn response_size(self) -> ResponseSize {
                match self { $(Self::$variant => $response,)* }
            }
        }
    };
}

const OBJECT: RequestSize = RequestSize::Fixed(ObjectId::BYTES);
const CREATED: ResponseSize = ResponseSize::Fixed(ObjectId::BYTES);
const NOTHING: ResponseSize = ResponseSize::Fixed(0);
const SUBMISSION: RequestSize = RequestSize::Entries { head: Submit::BYTES, entry: Binding::BYTES };

opcodes! {
    /// Identity and limits.
    GetDeviceInfo = 0x0001, "GET_DEVICE_INFO", RequestSize::Fixed(0), ResponseSize::Fixed(DeviceInfo::BYTES);
    /// Makes a context.
    CreateContext = 0x0100, "CREATE_CONTEXT", RequestSize::Fixed(CreateContext::BYTES), CREATED;
    /// Ends an empty context.
    DestroyContext = 0x0101, "DESTROY_CONTEXT", OBJECT, NOTHING;
    /// Allocates zeroed memory.
    AllocateBuffer = 0x0200, "ALLOCATE_BUFFER", RequestSize::Fixed(AllocateBuffer::BYTES), CREATED;
    /// Frees a buffer.
    FreeBuffer = 0x0201, "FREE_BUFFER", OBJECT, NOTHING;
    /// Copies frame bytes into a buffer.
    WriteBuffer = 0x0202, "WRITE_BUFFER", RequestSize::Data { head: Transfer::BYTES }, NOTHING;
    /// Copies buffer bytes into the response.
    ReadBuffer = 0x0203, "READ_BUFFER", RequestSize::Fixed(Transfer::BYTES), ResponseSize::Requested;
    /// Compiles an artifact of the frame.
    LoadProgram = 0x0300, "LOAD_PROGRAM", RequestSize::Data { head: LoadProgram::BYTES }, CREATED;
    /// Drops a program.
    UnloadProgram = 0x0301, "UNLOAD_PROGRAM", OBJECT, NOTHING;
    /// Makes an execution queue.
    CreateQueue = 0x0400, "CREATE_QUEUE", RequestSize::Fixed(CreateQueue::BYTES), CREATED;
    /// Ends an execution queue.
    DestroyQueue = 0x0401, "DESTROY_QUEUE", OBJECT, NOTHING;
    /// Starts a program; the answer is an event.
    Submit = 0x0500, "SUBMIT", SUBMISSION, CREATED;
    /// Tells an event's state.
    PollEvent = 0x0501, "POLL_EVENT", OBJECT, ResponseSize::Fixed(EventState::BYTES);
    /// Tries to stop a submission.
    CancelEvent = 0x0502, "CANCEL_EVENT", OBJECT, NOTHING;
    /// Drops a terminal event and what it holds.
    DestroyEvent = 0x0503, "DESTROY_EVENT", OBJECT, NOTHING;
    /// Runs a program; the answer comes when it ended.
    Execute = 0x8000, "EXECUTE", SUBMISSION, ResponseSize::Fixed(ExecuteResult::BYTES);
    /// Answers when an event is terminal.
    WaitEvent = 0x8001, "WAIT_EVENT", RequestSize::Fixed(WaitEvent::BYTES), ResponseSize::Fixed(WaitResult::BYTES);
    /// Compiles an artifact that lies in a buffer.
    LoadProgramFromBuffer = 0x8002, "LOAD_PROGRAM_FROM_BUFFER", RequestSize::Fixed(LoadProgramFromBuffer::BYTES), CREATED;
    /// Answers questions with text.
    Query = 0x8003, "QUERY", RequestSize::Fixed(Query::BYTES), ResponseSize::AtLeast(QueryHeader::BYTES);
    /// Copies between buffers.
    CopyBuffer = 0x8004, "COPY_BUFFER", RequestSize::Fixed(CopyBuffer::BYTES), NOTHING;
}

impl Opcode {
    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Whether the command is an extension, to be used only where the device announces it.
    #[must_use]
    pub const fn is_extension(self) -> bool {
        self.code() >= 0x8000
    }

    /// Writable bytes that a driver supplies for this command; `requested` counts only for READ_BUFFER,
    /// and for QUERY, where it is the room for the answer's bytes.
    #[must_use]
    pub const fn response_capacity(self, requested: usize) -> usize {
        HEADER_BYTES
            + match self.response_size() {
                ResponseSize::Fixed(bytes) => bytes,
                ResponseSize::Requested => requested,
                ResponseSize::AtLeast(bytes) => bytes + requested,
            }
    }
}

impl core::fmt::Display for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}
