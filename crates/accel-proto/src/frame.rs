//! Frames: a header and a payload.

use alloc::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use crate::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use crate::opcode::Opcode;
use crate::status::Status;

/// A request whose header is sound. The payload's fields are not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Command.
    pub opcode: Opcode,
    /// The driver's id, not 0.
    pub request_id: u64,
    /// Bytes behind the header.
    pub payload: &'a [u8],
}

/// Why the header of a request is refused, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No header: such a chain gets no response at all.
    #[error("The request has {readable} readable bytes and needs at least 16 for its header.")]
    NoHeader {
        /// Readable bytes of the chain.
        readable: u64,
    },
    /// Larger than the device takes.
    #[error("The request has {readable} bytes and the device takes at most {limit}; send it in parts.")]
    TooLarge {
        /// Readable bytes of the chain.
        readable: u64,
        /// `max_request_bytes`.
        limit: u32,
    },
    /// The header's payload length and the chain disagree.
    #[error(
        "The request says that {said} payload bytes follow its header and {readable} readable bytes came in all."
    )]
    Length {
        /// `payload_bytes` of the header.
        said: u32,
        /// Readable bytes of the chain.
        readable: u64,
    },
    /// Request id 0.
    #[error("The request id is 0; choose another value.")]
    ZeroRequestId,
    /// Flags are reserved.
    #[error("The request header has flags {0:#06x}; protocol 1.0 defines none.")]
    Flags(u16),
    /// No such command.
    #[error("The request has the unknown opcode {0:#06x}.")]
    Opcode(u16),
}

impl FrameError {
    /// Status to answer with; `None` where there is no request to answer.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::NoHeader { .. } => None,
            Self::TooLarge { .. } => Some(Status::ResourceLimit),
            Self::Length { .. } | Self::ZeroRequestId => Some(Status::InvalidArgument),
            Self::Flags(_) | Self::Opcode(_) => Some(Status::Unsupported),
        }
    }
}

/// Checks a request's header. `bytes` is the whole readable part of `readable` bytes, or at least its
/// first 16 where `readable` exceeds `limit`.
///
/// # Errors
/// The first check that fails, in the order of [`FrameError`].
pub fn decode_request(bytes: &[u8], readable: u64, limit: u32) -> Result<Request<'_>, FrameError> {
    let (header, payload) =
        RequestHeader::read_from_prefix(bytes).map_err(|_| FrameError::NoHeader { readable })?;
    if readable > u64::from(limit) {
        return Err(FrameError::TooLarge { readable, limit });
    }
    let said = header.payload_bytes.get();
    if readable != HEADER_BYTES as u64 + u64::from(said) || payload.len() as u64 != u64::from(said) {
        return Err(FrameError::Length { said, readable });
    }
    if header.request_id.get() == 0 {
        return Err(FrameError::ZeroRequestId);
    }
    if header.flags.get() != 0 {
        return Err(FrameError::Flags(header.flags.get()));
    }
    let code = header.opcode.get();
    let opcode = Opcode::from_code(code).ok_or(FrameError::Opcode(code))?;
    Ok(Request { opcode, request_id: header.request_id.get(), payload })
}

/// Encodes a request whose payload is the concatenation of `parts`, which together are below 4 GiB.
#[must_use]
pub fn encode_request(opcode: Opcode, request_id: u64, parts: &[&[u8]]) -> Vec<u8> {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let header = RequestHeader {
        opcode: opcode.code().into(),
        flags: 0.into(),
        payload_bytes: u32::try_from(payload_bytes).unwrap_or(u32::MAX).into(),
        request_id: request_id.into(),
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload_bytes);
    frame.extend_from_slice(header.as_bytes());
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// Encodes a response, whose payload is below 4 GiB.
#[must_use]
pub fn encode_response(status: Status, request_id: u64, payload: &[u8]) -> Vec<u8> {
    let header = ResponseHeader {
        status: status.code().into(),
        flags: 0.into(),
        payload_bytes: u32::try_from(payload.len()).unwrap_or(u32::MAX).into(),
        request_id: request_id.into(),
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A response whose header is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFrame<'a> {
    /// The status, or its code where it is unknown (an opaque failure).
    pub status: Result<Status, u16>,
    /// Bytes behind the header.
    pub payload: &'a [u8],
}

/// Why a driver refuses a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The device wrote no whole header.
    #[error("The device wrote {0} bytes and a response needs at least 16.")]
    NoHeader(usize),
    /// The used length and the header disagree.
    #[error(
        "The response says that {said} payload bytes follow its header and {used} bytes were written in all."
    )]
    Length {
        /// `payload_bytes` of the header.
        said: u32,
        /// Used length of the chain.
        used: usize,
    },
    /// Flags are reserved.
    #[error("The response header has flags {0:#06x}; protocol 1.0 defines none.")]
    Flags(u16),
    /// It answers something else.
    #[error("The response answers request {got} and request {wanted} was sent in this chain.")]
    RequestId {
        /// Id in the response.
        got: u64,
        /// Id of the request.
        wanted: u64,
    },
}

/// Checks the response to request `request_id`; `bytes` is what the device wrote (the used length).
///
/// # Errors
/// The first check that fails, in the order of [`ResponseError`].
pub fn decode_response(bytes: &[u8], request_id: u64) -> Result<ResponseFrame<'_>, ResponseError> {
    let (header, payload) =
        ResponseHeader::read_from_prefix(bytes).map_err(|_| ResponseError::NoHeader(bytes.len()))?;
    let said = header.payload_bytes.get();
    if payload.len() as u64 != u64::from(said) {
        return Err(ResponseError::Length { said, used: bytes.len() });
    }
    if header.flags.get() != 0 {
        return Err(ResponseError::Flags(header.flags.get()));
    }
    let got = header.request_id.get();
    if got != request_id {
        return Err(ResponseError::RequestId { got, wanted: request_id });
    }
    Ok(ResponseFrame { status: Status::try_from(header.status.get()), payload })
}
