//! The real device model behind the rings, over a backend that needs no hardware.

use accel_device::null::{self, NullBackend};
use accel_device::{Device, DeviceConfig};
use accel_proto::{
    Access, AllocateBuffer, Binding, CreateContext, CreateQueue, DeviceInfo, FromBytes, IntoBytes,
    LoadProgram, MemoryDomain, ObjectId, Opcode, RequestHeader, ResponseHeader, Status, Submit, Transfer,
    Usage,
};
use std::sync::Arc;

use crate::daemon::{Daemon, QUEUES};
use crate::guest::*;

/// A frame of `opcode` with these payload parts.
fn frame(opcode: Opcode, id: u64, parts: &[&[u8]]) -> Vec<u8> {
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
fn command(guest: &mut Guest, opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let answer = guest.round_trip(0, &frame(opcode, 77, parts), 4096);
    payload(&answer, 77)
}

#[track_caller]
fn payload(answer: &[u8], id: u64) -> Vec<u8> {
    let (header, payload) = ResponseHeader::read_from_prefix(answer).unwrap();
    assert_eq!((header.status.get(), header.request_id.get()), (Status::Ok.code(), id));
    assert_eq!(payload.len(), header.payload_bytes.get() as usize);
    payload.to_vec()
}

fn id(payload: &[u8]) -> u64 {
    ObjectId::read_from_bytes(payload).unwrap().id.get()
}

/// Loads a program that copies four bytes, and makes what it takes to run it: queue, program, input, output.
fn prepare(guest: &mut Guest) -> [u64; 4] {
    let context = id(&command(guest, Opcode::CreateContext, &[CreateContext::default().as_bytes()]));
    let queue = CreateQueue { context_id: context.into(), ..CreateQueue::default() };
    let queue = id(&command(guest, Opcode::CreateQueue, &[queue.as_bytes()]));
    let artifact = null::artifact(0, &[4, 4 | null::OUTPUT]);
    let load = LoadProgram {
        context_id: context.into(),
        format: null::FORMAT.into(),
        payload_bytes: (artifact.len() as u64).into(),
        resident_bytes: 1.into(),
        ..LoadProgram::default()
    };
    let program = id(&command(guest, Opcode::LoadProgram, &[load.as_bytes(), &artifact]));
    let mut buffer = |usage: Usage| {
        let allocate = AllocateBuffer {
            context_id: context.into(),
            bytes: 4.into(),
            alignment: 4.into(),
            memory_domain: MemoryDomain::Host.code(),
            usage: usage.bits().into(),
            ..AllocateBuffer::default()
        };
        id(&command(guest, Opcode::AllocateBuffer, &[allocate.as_bytes()]))
    };
    let input = buffer(Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION);
    let output = buffer(Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE);
    [queue, program, input, output]
}

fn execute(request: u64, [queue, program, input, output]: [u64; 4]) -> Vec<u8> {
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

fn daemon() -> (Daemon, Arc<NullBackend>, Arc<Device<NullBackend>>) {
    let backend = NullBackend::new();
    let config = DeviceConfig { command_queues: QUEUES, ..DeviceConfig::default() };
    let device = Device::new(Arc::clone(&backend), config);
    let model = Arc::clone(&device);
    (Daemon::with_models(vec![model], false), backend, device)
}

#[test]
fn a_program_runs_over_both_queues() {
    let (daemon, _, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let info = command(&mut guest, Opcode::GetDeviceInfo, &[]);
    assert_eq!(DeviceInfo::read_from_bytes(&info).unwrap().uuid, *b"null-accelerator");
    let objects = prepare(&mut guest);
    let transfer =
        |buffer: u64| Transfer { buffer_id: buffer.into(), bytes: 4.into(), ..Transfer::default() };
    command(&mut guest, Opcode::WriteBuffer, &[transfer(objects[2]).as_bytes(), b"dust"]);
    let answer = guest.round_trip(1, &execute(5, objects), 64);
    assert_eq!(payload(&answer, 5).len(), 8);
    let result = command(&mut guest, Opcode::ReadBuffer, &[transfer(objects[3]).as_bytes()]);
    assert_eq!(result, b"dust");
}

#[test]
fn work_in_flight_ends_with_its_guest() {
    let (daemon, backend, device) = daemon();
    // A reboot, and a front-end that vanishes.
    for vanish in [false, true] {
        let mut guest = Guest::boot(&daemon);
        let objects = prepare(&mut guest);
        assert!(device.memory_used() > 0);
        backend.hold();
        let answer = guest.send(1, 0, &execute(6, objects), 64);
        // The other queue's answer comes after the submission was admitted at the latest.
        std::thread::sleep(std::time::Duration::from_millis(20));
        if vanish {
            let Guest { frontend, memory, .. } = guest;
            drop(frontend);
            eventually(|| device.memory_used() == 0);
            backend.release();
            let mut status = [0; 16];
            vm_memory::Bytes::read_slice(&memory, &mut status, vm_memory::GuestAddress(answer)).unwrap();
            assert_eq!(status, [UNTOUCHED; 16]);
        } else {
            guest.stop_queues();
            assert_eq!(device.memory_used(), 0);
            backend.release();
            guest.start_queues();
            // Its objects are gone, and new ones work.
            let stale = guest.round_trip(0, &execute(7, objects), 64);
            assert_eq!(stale.len(), 16);
            assert_eq!(stale[0], Status::StaleObject.code() as u8);
            let objects = prepare(&mut guest);
            payload(&guest.round_trip(1, &execute(8, objects), 64), 8);
            assert_eq!(guest.used_index(1), 1);
        }
    }
    assert_eq!(command(&mut Guest::boot(&daemon), Opcode::GetDeviceInfo, &[]).len(), DeviceInfo::BYTES);
}

#[test]
fn every_request_in_flight_completes_exactly_once() {
    let (daemon, backend, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let objects = prepare(&mut guest);
    backend.hold();
    for slot in 0..4 {
        for queue in 0..2 {
            guest.send(queue, slot, &execute(u64::from(slot) + 1, objects), 64);
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    backend.release();
    for queue in 0..2 {
        let mut heads: Vec<_> = (0..4)
            .map(|_| {
                let (head, bytes) = guest.wait_used(queue);
                assert_eq!(bytes, 24);
                head
            })
            .collect();
        heads.sort_unstable();
        assert_eq!(heads, [0, 2, 4, 6]);
    }
}
