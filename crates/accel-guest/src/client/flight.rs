//! One request on its way.

use std::time::Duration;

use accel_proto::{
    FromBytes, HEADER_BYTES, IntoBytes, ObjectId, Opcode, RequestHeader, Status, decode_response,
};

use crate::transport::{Token, Transport};
use crate::{Error, Result};

/// A request in flight. Dropped unfinished, its answer is thrown away.
pub(super) struct Flight<'a, T: Transport> {
    transport: &'a T,
    token: Option<Token>,
    request_id: u64,
    opcode: Opcode,
    asked: String,
}

/// An OK answer.
pub(super) struct Reply {
    frame: Vec<u8>,
    opcode: Opcode,
}

impl<'a, T: Transport> Flight<'a, T> {
    pub(super) fn start(
        transport: &'a T,
        ring: usize,
        request_id: u64,
        opcode: Opcode,
        parts: &[&[u8]],
        requested: usize,
        asked: String,
    ) -> Result<Self> {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let payload_bytes = u32::try_from(payload)
            .map_err(|_| Error::Argument(format!("{opcode} cannot carry {payload} bytes in one request")))?;
        let header = RequestHeader {
            opcode: opcode.code().into(),
            flags: 0.into(),
            payload_bytes: payload_bytes.into(),
            request_id: request_id.into(),
        };
        let mut frame = Vec::with_capacity(parts.len() + 1);
        frame.push(header.as_bytes());
        frame.extend_from_slice(parts);
        let token = transport.submit(ring, &frame, opcode.response_capacity(requested))?;
        Ok(Self { transport, token: Some(token), request_id, opcode, asked })
    }

    /// Sleeps until the answer. After [`Error::TimedOut`] it can be called again.
    pub(super) fn poll(&mut self, timeout: Option<Duration>) -> Result<Reply> {
        let token = self.token.ok_or(Error::UnknownToken)?;
        let frame = self.transport.wait(token, timeout)?;
        self.token = None;
        let command = self.opcode.name();
        let bad = |what| Error::BadAnswer { command, what };
        if frame.is_empty() {
            // The only case in which a device answers nothing: the room for the answer was too small, or
            // the request had no whole header.
            return Err(bad("the device took the request and wrote nothing".into()));
        }
        let response = decode_response(&frame, self.request_id).map_err(|error| bad(error.to_string()))?;
        match response.status {
            Ok(Status::Ok) => Ok(Reply { frame, opcode: self.opcode }),
            Ok(status) => {
                let asked = std::mem::take(&mut self.asked);
                Err(Error::Device { command, status, asked, reason: None })
            }
            Err(code) => Err(bad(format!("status {code:#06x} is unknown"))),
        }
    }

    pub(super) fn finish(mut self, timeout: Option<Duration>) -> Result<Reply> {
        self.poll(timeout)
    }
}

impl<T: Transport> Drop for Flight<'_, T> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.transport.forget(token);
        }
    }
}

impl Reply {
    pub(super) fn payload(&self) -> &[u8] {
        &self.frame[HEADER_BYTES..]
    }

    /// The whole payload as one layout.
    pub(super) fn read<L: FromBytes>(&self) -> Result<L> {
        L::read_from_bytes(self.payload()).map_err(|_| {
            self.bad(format!("it has {} bytes instead of {}", self.payload().len(), size_of::<L>()))
        })
    }

    /// The id of the object that the command made.
    pub(super) fn id(&self) -> Result<u64> {
        match self.read::<ObjectId>()?.id.get() {
            0 => Err(self.bad("the new object has id 0".into())),
            id => Ok(id),
        }
    }

    pub(super) fn bad(&self, what: String) -> Error {
        Error::BadAnswer { command: self.opcode.name(), what }
    }
}
