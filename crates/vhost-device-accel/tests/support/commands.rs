//! Commands of the real device model over the null backend, which needs no hardware.

use std::sync::Arc;

use accel_device::null::{self, NullBackend};
use accel_device::{Device, DeviceConfig};
use accel_proto::{
    Access, AllocateBuffer, Binding, CreateContext, CreateQueue, FromBytes, IntoBytes, LoadProgram,
    MemoryDomain, ObjectId, Opcode, RequestHeader, ResponseHeader, Status, Submit, Usage,
};

use crate::daemon::{Daemon, QUEUES};
use crate::guest::Guest;

/// A frame of `opcode` with these payload parts.
pub fn frame(opcode: Opcode, id: u64, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let header = RequestHeader {
        opcode: opcode.code().into(),
        payload_bytes: (payload.len() as u32).into(),
        request_id: id.into(),
        ..RequestHeader::default()
    };
    [header.as_bytes(), &payload].concat()
}

/// Sends a command and gives its payload.
#[track_caller]
pub fn command(guest: &mut Guest, opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let answer = guest.round_trip(0, &frame(opcode, 77, parts), 4096);
    payload(&answer, 77)
}

#[track_caller]
pub fn payload(answer: &[u8], id: u64) -> Vec<u8> {
    let (header, payload) = ResponseHeader::read_from_prefix(answer).unwrap();
    assert_eq!((header.status.get(), header.request_id.get()), (Status::Ok.code(), id));
    assert_eq!(payload.len(), header.payload_bytes.get() as usize);
    payload.to_vec()
}

pub fn object(payload: &[u8]) -> u64 {
    ObjectId::read_from_bytes(payload).unwrap().id.get()
}

/// Loads a program that copies four bytes, and makes what it takes to run it: queue, program, input, output.
pub fn prepare(guest: &mut Guest) -> [u64; 4] {
    let context = object(&command(guest, Opcode::CreateContext, &[CreateContext::default().as_bytes()]));
    let queue = CreateQueue { context_id: context.into(), ..CreateQueue::default() };
    let queue = object(&command(guest, Opcode::CreateQueue, &[queue.as_bytes()]));
    let program = guest.round_trip(0, &load(context), 64);
    let program = object(&payload(&program, 1));
    let mut buffer = |usage: Usage| {
        let allocate = AllocateBuffer {
            context_id: context.into(),
            bytes: 4.into(),
            alignment: 4.into(),
            memory_domain: MemoryDomain::Host.code(),
            usage: usage.bits().into(),
            ..AllocateBuffer::default()
        };
        object(&command(guest, Opcode::AllocateBuffer, &[allocate.as_bytes()]))
    };
    let input = buffer(Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION);
    let output = buffer(Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE);
    [queue, program, input, output]
}

/// A frame that loads a program that copies four bytes.
pub fn load(context: u64) -> Vec<u8> {
    let artifact = null::artifact(0, &[4, 4 | null::OUTPUT]);
    let load = LoadProgram {
        context_id: context.into(),
        format: null::FORMAT.into(),
        payload_bytes: (artifact.len() as u64).into(),
        resident_bytes: 1.into(),
        ..LoadProgram::default()
    };
    frame(Opcode::LoadProgram, 1, &[load.as_bytes(), &artifact])
}

pub fn execute(request: u64, [queue, program, input, output]: [u64; 4]) -> Vec<u8> {
    let submit = Submit {
        queue_id: queue.into(),
        program_id: program.into(),
        binding_count: 2.into(),
        ..Submit::default()
    };
    let bind = |buffer: u64, slot: u32, access: Access| Binding {
        buffer_id: buffer.into(),
        bytes: 4.into(),
        slot: slot.into(),
        access: access.code(),
        ..Binding::default()
    };
    let bindings = [bind(input, 0, Access::Read), bind(output, 1, Access::Write)];
    frame(Opcode::Execute, request, &[submit.as_bytes(), bindings[0].as_bytes(), bindings[1].as_bytes()])
}

pub fn daemon() -> (Daemon, Arc<NullBackend>, Arc<Device<NullBackend>>) {
    let backend = NullBackend::new();
    let config = DeviceConfig { command_queues: QUEUES, ..DeviceConfig::default() };
    let device = Device::new(Arc::clone(&backend), config);
    let model = Arc::clone(&device);
    (Daemon::with_models(vec![model], false), backend, device)
}
