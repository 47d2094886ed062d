//! Contexts, buffers and execution queues.

use std::sync::atomic::Ordering;

use accel_proto::{
    AllocateBuffer, CreateContext, CreateQueue, IntoBytes, MemoryDomain, ObjectId, Opcode, Usage,
};

use super::Client;
use crate::Result;
use crate::transport::Transport;

macro_rules! object {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

object! {
    /// Owns buffers, programs, queues and events, and keeps them apart from those of other contexts.
    Context
}
object! {
    /// Memory of the device.
    Buffer
}
object! {
    /// A loaded artifact.
    Program
}
object! {
    /// A submission that has been admitted.
    Event
}

/// An execution queue: what is submitted to it runs in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The device's id.
    pub id: u64,
    /// Command queue that carries its submissions: always the same one, since two would not keep order.
    pub ring: usize,
}

impl<T: Transport> Client<T> {
    /// CREATE_CONTEXT.
    ///
    /// # Errors
    /// As every call.
    pub fn create_context(&self) -> Result<Context> {
        let request = CreateContext::default();
        self.create(Opcode::CreateContext, request.as_bytes(), || "a context was asked for".into())
            .map(Context)
    }

    /// DESTROY_CONTEXT; the context is empty.
    ///
    /// # Errors
    /// As every call; BUSY while it owns anything.
    pub fn destroy_context(&self, context: Context) -> Result<()> {
        self.on_object(Opcode::DestroyContext, context.0, "context")
    }

    /// ALLOCATE_BUFFER: zeroed memory.
    ///
    /// # Errors
    /// As every call.
    pub fn allocate_buffer(
        &self,
        context: Context,
        bytes: u64,
        domain: MemoryDomain,
        usage: Usage,
    ) -> Result<Buffer> {
        let request = AllocateBuffer {
            context_id: context.0.into(),
            bytes: bytes.into(),
            alignment: 256.into(),
            memory_domain: domain.code(),
            usage: usage.bits().into(),
            ..Default::default()
        };
        let limit = self.info.max_buffer_bytes.get();
        self.create(Opcode::AllocateBuffer, request.as_bytes(), || {
            format!("a {domain:?} buffer of {bytes} bytes in context {context}; the largest is {limit}")
        })
        .map(Buffer)
    }

    /// FREE_BUFFER.
    ///
    /// # Errors
    /// As every call; BUSY while a submission holds it.
    pub fn free_buffer(&self, buffer: Buffer) -> Result<()> {
        self.on_object(Opcode::FreeBuffer, buffer.0, "buffer")
    }

    /// UNLOAD_PROGRAM.
    ///
    /// # Errors
    /// As every call; BUSY while a submission holds it.
    pub fn unload_program(&self, program: Program) -> Result<()> {
        self.on_object(Opcode::UnloadProgram, program.0, "program")
    }

    /// CREATE_QUEUE. Queues are spread over the command queues in turn.
    ///
    /// # Errors
    /// As every call.
    pub fn create_queue(&self, context: Context) -> Result<Queue> {
        let request = CreateQueue { context_id: context.0.into(), ..Default::default() };
        let id = self.create(Opcode::CreateQueue, request.as_bytes(), || {
            format!("an execution queue in context {context}")
        })?;
        let ring = self.next_ring.fetch_add(1, Ordering::Relaxed) % self.rings();
        Ok(Queue { id, ring })
    }

    /// DESTROY_QUEUE.
    ///
    /// # Errors
    /// As every call; BUSY while a submission holds it.
    pub fn destroy_queue(&self, queue: Queue) -> Result<()> {
        self.on_object(Opcode::DestroyQueue, queue.id, "queue")
    }

    /// A command whose answer is an id.
    pub(super) fn create(
        &self,
        opcode: Opcode,
        request: &[u8],
        asked: impl FnOnce() -> String,
    ) -> Result<u64> {
        self.call(opcode, &[request], 0, asked)?.id()
    }

    /// A command whose request is an id and whose answer is empty.
    pub(super) fn on_object(&self, opcode: Opcode, id: u64, kind: &'static str) -> Result<()> {
        let request = ObjectId { id: id.into() };
        self.call(opcode, &[request.as_bytes()], 0, || format!("{kind} {id:#x}")).map(drop)
    }
}
