//! Wire format of the virtio-accel protocol: version 1.0 and this project's extensions.
//!
//! Everything on the wire is little-endian and unpadded, so each layout is a struct of alignment 1 that is
//! read from and written to plain bytes with [`FromBytes`] and [`IntoBytes`]. This crate does no I/O and
//! decides nothing about objects; `spec/` describes the meaning of the frames.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod extension;
mod frame;
mod header;
mod opcode;
mod payload;
mod status;
pub mod tosa;
mod types;

pub use config::{
    CONFIG_BYTES, CONFIG_PREFIX_BYTES, ConfigPrefix, ConfigSpace, EXTENSION_BLOCK_BYTES, EXTENSION_MAGIC,
    ExtensionBlock, MAX_CHAIN_DESCRIPTORS, MAX_FRAME_BYTES, MIN_CHAIN_DESCRIPTORS, MIN_REQUEST_BYTES,
    MIN_RESPONSE_BYTES, PROTOCOL_MAJOR, PROTOCOL_MINOR,
};
pub use extension::{
    CopyBuffer, ExecuteResult, LoadProgramFromBuffer, Query, QueryHeader, QueryTopic, WaitEvent, WaitResult,
};
pub use frame::{
    FrameError, Request, ResponseError, ResponseFrame, decode_request, decode_response, encode_request,
    encode_response,
};
pub use header::{HEADER_BYTES, RequestHeader, ResponseHeader};
pub use opcode::{Opcode, RequestSize, ResponseSize};
pub use payload::{
    AllocateBuffer, Binding, CreateContext, CreateQueue, DeviceInfo, EventState, LoadProgram, MAX_BINDINGS,
    ObjectId, Submit, Transfer,
};
pub use status::Status;
pub use types::{Access, Capabilities, DeviceClass, EventPhase, Extensions, MemoryDomain, Usage};
pub use zerocopy::little_endian::{U16, U32, U64};
pub use zerocopy::{FromBytes, IntoBytes};

/// Declares a wire layout: packed, little-endian fields, its size checked at compile time.
macro_rules! wire_struct {
    ($(#[$meta:meta])* $name:ident, $bytes:expr, { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == $bytes);

        impl $name {
            /// Bytes of this layout on the wire.
            pub const BYTES: usize = $bytes;
        }
    };
}
pub(crate) use wire_struct;
