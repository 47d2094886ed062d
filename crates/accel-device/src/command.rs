//! Payloads of requests, checked: what can be told without looking at an object.
//!
//! Every check of a command is in the order that the specification gives: length of the head, flags, reserved
//! fields, ids, enumerations, sizes, length of what follows the head, then the device's limits.

mod submission;

use accel_proto::{
    AllocateBuffer, Capabilities, CopyBuffer, CreateContext, CreateQueue, DeviceInfo, FromBytes,
    HEADER_BYTES, LoadProgram, LoadProgramFromBuffer, MemoryDomain, ObjectId, Opcode, Query, QueryTopic,
    RequestSize, ResponseSize, Status, Transfer, Usage, WaitEvent,
};

pub(crate) use submission::Submission;

/// A command whose fields are sound by themselves.
pub(crate) enum Command<'a> {
    GetDeviceInfo,
    CreateContext,
    DestroyContext(u64),
    AllocateBuffer(Allocation),
    FreeBuffer(u64),
    WriteBuffer { at: Range, data: &'a [u8] },
    ReadBuffer(Range),
    LoadProgram { program: ProgramHead, artifact: &'a [u8] },
    LoadProgramFromBuffer { program: ProgramHead, at: Range },
    UnloadProgram(u64),
    CreateQueue(u64),
    DestroyQueue(u64),
    Submit(Submission),
    Execute(Submission),
    PollEvent(u64),
    WaitEvent { event: u64, timeout_ns: u64 },
    CancelEvent(u64),
    DestroyEvent(u64),
    Query { topic: QueryTopic, object: u64, offset: u64 },
    CopyBuffer { source: Range, destination: Range },
}

/// What ALLOCATE_BUFFER asks for.
#[derive(Clone, Copy)]
pub(crate) struct Allocation {
    pub(crate) context: u64,
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
    pub(crate) domain: MemoryDomain,
    pub(crate) usage: Usage,
}

/// Bytes of a buffer; the end does not overflow.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) buffer: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// What LOAD_PROGRAM says about its artifact.
#[derive(Clone, Copy)]
pub(crate) struct ProgramHead {
    pub(crate) context: u64,
    pub(crate) format: u32,
    pub(crate) target: [u32; 12],
    /// `None` where the guest does not know.
    pub(crate) resident_bytes: Option<u64>,
}

impl<'a> Command<'a> {
    /// Checks a payload against the rules of its command and the limits that `info` announces.
    pub(crate) fn parse(opcode: Opcode, payload: &'a [u8], info: &DeviceInfo) -> Result<Self, Status> {
        let length_is_right = match opcode.request_size() {
            RequestSize::Fixed(bytes) => payload.len() == bytes,
            RequestSize::Data { head } | RequestSize::Entries { head, .. } => payload.len() >= head,
        };
        argument(length_is_right)?;
        Ok(match opcode {
            Opcode::GetDeviceInfo => Self::GetDeviceInfo,
            Opcode::CreateContext => {
                let (create, _) = head::<CreateContext>(payload)?;
                supported(create.flags.get() == 0)?;
                argument(create.reserved.get() == 0)?;
                Self::CreateContext
            }
            Opcode::DestroyContext => Self::DestroyContext(object(payload)?),
            Opcode::AllocateBuffer => Self::AllocateBuffer(allocation(payload, info)?),
            Opcode::FreeBuffer => Self::FreeBuffer(object(payload)?),
            Opcode::WriteBuffer => {
                let (transfer, data) = head::<Transfer>(payload)?;
                argument(is_span(transfer.offset.get(), transfer.bytes.get()))?;
                data_follows(transfer.bytes.get(), data, Transfer::BYTES)?;
                Self::WriteBuffer { at: transfer_range(&transfer)?, data }
            }
            Opcode::ReadBuffer => Self::ReadBuffer(transfer_range(&head::<Transfer>(payload)?.0)?),
            Opcode::LoadProgram => {
                let (load, artifact) = head::<LoadProgram>(payload)?;
                let program = program_head(&load)?;
                data_follows(load.payload_bytes.get(), artifact, LoadProgram::BYTES)?;
                limit(artifact.len() as u64 <= info.max_artifact_bytes.get())?;
                Self::LoadProgram { program, artifact }
            }
            Opcode::LoadProgramFromBuffer => {
                let (load, _) = head::<LoadProgramFromBuffer>(payload)?;
                let program = program_head(&load.program)?;
                let at = range(load.buffer_id.get(), load.offset.get(), load.program.payload_bytes.get())?;
                Self::LoadProgramFromBuffer { program, at }
            }
            Opcode::UnloadProgram => Self::UnloadProgram(object(payload)?),
            Opcode::CreateQueue => {
                let (create, _) = head::<CreateQueue>(payload)?;
                supported(create.flags.get() == 0)?;
                argument(create.reserved.get() == 0)?;
                Self::CreateQueue(id(create.context_id.get())?)
            }
            Opcode::DestroyQueue => Self::DestroyQueue(object(payload)?),
            Opcode::Submit => Self::Submit(Submission::parse(payload, info)?),
            Opcode::Execute => Self::Execute(Submission::parse(payload, info)?),
            Opcode::PollEvent => Self::PollEvent(object(payload)?),
            Opcode::WaitEvent => {
                let (wait, _) = head::<WaitEvent>(payload)?;
                Self::WaitEvent { event: id(wait.event_id.get())?, timeout_ns: wait.timeout_ns.get() }
            }
            Opcode::CancelEvent => Self::CancelEvent(object(payload)?),
            Opcode::DestroyEvent => Self::DestroyEvent(object(payload)?),
            Opcode::Query => query(payload)?,
            Opcode::CopyBuffer => copy(payload)?,
        })
    }

    /// Bytes that the OK response needs at least, header included.
    pub(crate) fn required_response(&self, opcode: Opcode) -> u64 {
        let payload = match (opcode.response_size(), self) {
            (ResponseSize::Requested, Self::ReadBuffer(range)) => range.bytes,
            (ResponseSize::Fixed(bytes) | ResponseSize::AtLeast(bytes), _) => bytes as u64,
            (ResponseSize::Requested, _) => 0,
        };
        (HEADER_BYTES as u64).saturating_add(payload)
    }
}

fn argument(sound: bool) -> Result<(), Status> {
    if sound { Ok(()) } else { Err(Status::InvalidArgument) }
}

fn supported(known: bool) -> Result<(), Status> {
    if known { Ok(()) } else { Err(Status::Unsupported) }
}

fn limit(within: bool) -> Result<(), Status> {
    if within { Ok(()) } else { Err(Status::ResourceLimit) }
}

/// Splits a payload into its fixed head and the rest.
fn head<T: FromBytes>(payload: &[u8]) -> Result<(T, &[u8]), Status> {
    T::read_from_prefix(payload).map_err(|_| Status::InvalidArgument)
}

/// Checks that as many bytes follow a head as it says. A length that no frame could have is a limit passed.
fn data_follows(said: u64, data: &[u8], head: usize) -> Result<(), Status> {
    limit(said.checked_add(head as u64).is_some())?;
    argument(said == data.len() as u64)
}

fn id(id: u64) -> Result<u64, Status> {
    argument(id != 0)?;
    Ok(id)
}

fn object(payload: &[u8]) -> Result<u64, Status> {
    id(head::<ObjectId>(payload)?.0.id.get())
}

/// Whether there are bytes and their end does not overflow.
fn is_span(offset: u64, bytes: u64) -> bool {
    bytes != 0 && offset.checked_add(bytes).is_some()
}

fn range(buffer: u64, offset: u64, bytes: u64) -> Result<Range, Status> {
    argument(buffer != 0 && is_span(offset, bytes))?;
    Ok(Range { buffer, offset, bytes })
}

fn transfer_range(transfer: &Transfer) -> Result<Range, Status> {
    range(transfer.buffer_id.get(), transfer.offset.get(), transfer.bytes.get())
}

fn allocation(payload: &[u8], info: &DeviceInfo) -> Result<Allocation, Status> {
    let (allocate, _) = head::<AllocateBuffer>(payload)?;
    argument(allocate.reserved == [0; 7] && allocate.reserved2.get() == 0)?;
    let context = id(allocate.context_id.get())?;
    let domain = MemoryDomain::from_code(allocate.memory_domain).ok_or(Status::InvalidArgument)?;
    let usage = Usage::from_bits(allocate.usage.get()).ok_or(Status::Unsupported)?;
    let (bytes, alignment) = (allocate.bytes.get(), allocate.alignment.get());
    argument(!usage.is_empty() && bytes != 0 && alignment.is_power_of_two())?;
    limit(bytes <= info.max_buffer_bytes.get())?;
    let capabilities = Capabilities::from_bits_retain(info.capabilities.get());
    supported(capabilities.contains(domain.capability()))?;
    Ok(Allocation { context, bytes, alignment, domain, usage })
}

fn program_head(load: &LoadProgram) -> Result<ProgramHead, Status> {
    supported(load.flags.get() == 0)?;
    let context = id(load.context_id.get())?;
    let resident_bytes = load.resident_bytes.get();
    argument(load.format.get() != 0 && load.payload_bytes.get() != 0 && resident_bytes != 0)?;
    Ok(ProgramHead {
        context,
        format: load.format.get(),
        target: load.target.map(|word| word.get()),
        resident_bytes: (resident_bytes != u64::MAX).then_some(resident_bytes),
    })
}

fn query(payload: &[u8]) -> Result<Command<'_>, Status> {
    let (query, _) = head::<Query>(payload)?;
    argument(query.reserved.get() == 0)?;
    let topic = QueryTopic::from_code(query.topic.get()).ok_or(Status::Unsupported)?;
    let object = query.object_id.get();
    let wants_object = matches!(topic, QueryTopic::ProgramSlots | QueryTopic::LastLoadError);
    argument(wants_object == (object != 0))?;
    Ok(Command::Query { topic, object, offset: query.offset.get() })
}

fn copy(payload: &[u8]) -> Result<Command<'_>, Status> {
    let (copy, _) = head::<CopyBuffer>(payload)?;
    let source = range(copy.source_id.get(), copy.source_offset.get(), copy.bytes.get())?;
    let destination = range(copy.destination_id.get(), copy.destination_offset.get(), copy.bytes.get())?;
    let overlap = source.buffer == destination.buffer
        && source.offset < destination.offset + destination.bytes
        && destination.offset < source.offset + source.bytes;
    argument(!overlap)?;
    Ok(Command::CopyBuffer { source, destination })
}
