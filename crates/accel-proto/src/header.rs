//! The 16 bytes that begin every request and every response.

use zerocopy::little_endian::{U16, U32, U64};

use crate::wire_struct;

/// Bytes of a request or response header.
pub const HEADER_BYTES: usize = 16;

wire_struct! {
    /// Begins the device-readable part of a chain.
    RequestHeader, HEADER_BYTES, {
        /// One of [`crate::Opcode`].
        opcode: U16,
        /// Zero.
        flags: U16,
        /// Bytes behind the header: exactly the rest of the readable part.
        payload_bytes: U32,
        /// Chosen by the driver, not 0, unique among its outstanding requests.
        request_id: U64,
    }
}

wire_struct! {
    /// Begins the device-writable part of a chain.
    ResponseHeader, HEADER_BYTES, {
        /// One of [`crate::Status`].
        status: U16,
        /// Zero.
        flags: U16,
        /// Bytes behind the header; 0 when the status is not OK, but for an indeterminate SUBMIT.
        payload_bytes: U32,
        /// Echo of the request's.
        request_id: U64,
    }
}
