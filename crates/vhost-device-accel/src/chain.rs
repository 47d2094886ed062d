//! One descriptor chain: its check, and the copies between it and host memory.

use std::ops::Deref;

use thiserror::Error;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryError, Permissions};

/// A piece of guest memory.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: GuestAddress,
    bytes: u32,
}

/// A checked chain: at least one readable piece, then at least one writable piece.
#[derive(Debug)]
pub(crate) struct Chain {
    readable: Vec<Span>,
    writable: Vec<Span>,
    readable_bytes: u64,
    writable_bytes: u64,
}

/// Why a chain is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ChainFault {
    #[error("it holds more descriptors than the device allows")]
    TooLong,
    #[error("it has no end: a loop, a descriptor outside its table, or more than 4 GiB")]
    Endless,
    #[error("a descriptor has no bytes")]
    EmptyDescriptor,
    #[error("a readable descriptor follows a writable one")]
    ReadableAfterWritable,
    #[error("it has no readable descriptor")]
    NothingReadable,
    #[error("it has no writable descriptor")]
    NothingWritable,
    #[error("a descriptor points outside guest memory")]
    OutsideMemory,
}

impl Chain {
    /// Walks and checks `descriptors`, indirect tables included. Looks at no more than
    /// `max_descriptors + 1` of them.
    pub(crate) fn check<M>(
        mut descriptors: DescriptorChain<M>,
        memory: &M::Target,
        max_descriptors: u16,
    ) -> Result<Self, ChainFault>
    where
        M: Deref,
        M::Target: GuestMemory + Sized,
    {
        let mut chain =
            Self { readable: Vec::new(), writable: Vec::new(), readable_bytes: 0, writable_bytes: 0 };
        // The iterator ends alike at the last descriptor and at a damaged one; only a last one says that nothing follows.
        let mut open = true;
        for descriptor in descriptors.by_ref() {
            if chain.readable.len() + chain.writable.len() == usize::from(max_descriptors) {
                return Err(ChainFault::TooLong);
            }
            open = descriptor.has_next();
            let span = Span { start: descriptor.addr(), bytes: descriptor.len() };
            if span.bytes == 0 {
                return Err(ChainFault::EmptyDescriptor);
            }
            let access = if descriptor.is_write_only() { Permissions::Write } else { Permissions::Read };
            if !memory.check_range(span.start, span.bytes as usize, access) {
                return Err(ChainFault::OutsideMemory);
            }
            if descriptor.is_write_only() {
                chain.writable_bytes += u64::from(span.bytes);
                chain.writable.push(span);
            } else if chain.writable.is_empty() {
                chain.readable_bytes += u64::from(span.bytes);
                chain.readable.push(span);
            } else {
                return Err(ChainFault::ReadableAfterWritable);
            }
        }
        if open {
            Err(ChainFault::Endless)
        } else if chain.readable.is_empty() {
            Err(ChainFault::NothingReadable)
        } else if chain.writable.is_empty() {
            Err(ChainFault::NothingWritable)
        } else {
            Ok(chain)
        }
    }

    /// Bytes that the guest offers to read.
    pub(crate) fn readable_bytes(&self) -> u64 {
        self.readable_bytes
    }

    /// Bytes that the guest has room for.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.writable_bytes
    }

    /// Replaces `into` by the first `limit` readable bytes, or by all where there are fewer.
    pub(crate) fn gather<M: GuestMemory>(
        &self,
        memory: &M,
        limit: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), ChainFault> {
        into.clear();
        for span in &self.readable {
            let count = (span.bytes as usize).min(limit - into.len());
            memory.write_all_volatile_to(span.start, into, count).map_err(|_| ChainFault::OutsideMemory)?;
        }
        Ok(())
    }

    /// Writes `response` from writable byte 0 on; it must fit [`Self::writable_bytes`].
    pub(crate) fn scatter<M: GuestMemory>(
        &self,
        memory: &M,
        mut response: &[u8],
    ) -> Result<(), GuestMemoryError> {
        for span in &self.writable {
            let (piece, rest) = response.split_at(response.len().min(span.bytes as usize));
            memory.write_slice(piece, span.start)?;
            response = rest;
        }
        Ok(())
    }
}
