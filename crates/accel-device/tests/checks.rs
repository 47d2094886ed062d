//! The checks of a frame, one by one and in their order, and frames that are damaged at random.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Instant;

use accel_device::DeviceConfig;
use accel_device::null::{self, NullBackend};
use accel_proto::*;
use support::*;

/// What a malformed frame gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Used length 0, nothing written.
    Nothing,
    /// A response of 16 bytes.
    Refused(Status),
    /// An OK response.
    Fine,
}

use Verdict::{Fine, Nothing, Refused};

const REQUEST_ID: u64 = 0x1122_3344_5566_7788;

/// Sends raw bytes and checks that the answer is well formed.
fn verdict(guest: &Guest, bytes: &[u8], readable: u64, writable: u64) -> Verdict {
    let answer = guest.send_raw(bytes, readable, writable).recv_timeout(PATIENCE).unwrap();
    if answer.is_empty() {
        return Nothing;
    }
    let request_id = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    let response = decode_response(&answer, request_id).unwrap();
    match response.status.unwrap() {
        Status::Ok => Fine,
        status => {
            assert_eq!(answer.len(), 16, "{status} with a payload");
            Refused(status)
        }
    }
}

fn frame(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    encode_request(opcode, REQUEST_ID, parts)
}

/// The frame with other bytes at an offset.
fn patched(mut frame: Vec<u8>, offset: usize, bytes: &[u8]) -> Vec<u8> {
    frame[offset..offset + bytes.len()].copy_from_slice(bytes);
    frame
}

#[test]
fn headers_are_checked_in_order() {
    let guest = Guest::with_config(DeviceConfig { max_request_bytes: 200, ..DeviceConfig::default() });
    let info = frame(Opcode::GetDeviceInfo, &[]);
    let wrong_everywhere = |bytes: usize| [&[0xff; 8][..], &[0; 8], &vec![0; bytes - 16]].concat();
    let said = |bytes: u32, frame: &[u8]| patched(frame.to_vec(), 4, &bytes.to_le_bytes());
    let unknown_and_flags = patched(info.clone(), 0, &[0xff, 0xff, 1, 0]);
    let cases: &[(&str, Vec<u8>, u64, Verdict)] = &[
        ("fine", info.clone(), 92, Fine),
        ("no readable byte", vec![], 92, Nothing),
        ("readable below a header", info[..15].to_vec(), 92, Nothing),
        ("no writable byte", info.clone(), 0, Nothing),
        ("writable below a header", wrong_everywhere(16), 15, Nothing),
        ("too large, before all else", wrong_everywhere(201), 16, Refused(Status::ResourceLimit)),
        ("as large as may be, wrong length", wrong_everywhere(200), 16, Refused(Status::InvalidArgument)),
        ("says more than there is", said(1, &info), 16, Refused(Status::InvalidArgument)),
        (
            "says less than there is",
            said(0, &frame(Opcode::CreateContext, &[&[0; 8]])),
            16,
            Refused(Status::InvalidArgument),
        ),
        ("length before id and opcode", said(9, &unknown_and_flags), 16, Refused(Status::InvalidArgument)),
        (
            "id 0 before flags and opcode",
            patched(unknown_and_flags.clone(), 8, &[0; 8]),
            16,
            Refused(Status::InvalidArgument),
        ),
        ("flags", patched(info.clone(), 2, &[0, 0x80]), 16, Refused(Status::Unsupported)),
        ("unknown opcode", patched(info.clone(), 0, &[2, 0]), 16, Refused(Status::Unsupported)),
        ("opcode of IMPORT_BUFFER", patched(info.clone(), 0, &[5, 0x80]), 16, Refused(Status::Unsupported)),
        ("room for the header only", info.clone(), 91, Nothing),
    ];
    for (name, bytes, writable, wanted) in cases {
        assert_eq!(verdict(&guest, bytes, bytes.len() as u64, *writable), *wanted, "{name}");
    }
    let oversized = frame(Opcode::WriteBuffer, &[&[0; 500]]);
    assert_eq!(verdict(&guest, &oversized[..16], 516, 16), Refused(Status::ResourceLimit), "from its header");
}

/// A field of a payload, other bytes for it, and what that gets.
type FieldCase = (&'static str, usize, &'static [u8], Status);

/// Sends `payload` as it is, of a wrong length, and with each field changed.
fn check_fields(guest: &Guest, opcode: Opcode, payload: &[u8], cases: &[FieldCase]) {
    for wrong in [&payload[..payload.len() - 1], &[payload, &[0]].concat()] {
        let bytes = frame(opcode, &[wrong]);
        let got = verdict(guest, &bytes, bytes.len() as u64, 4096);
        assert_eq!(got, Refused(Status::InvalidArgument), "{opcode} of {} bytes", wrong.len());
    }
    for &(name, offset, bytes, status) in cases {
        let bytes = frame(opcode, &[&patched(payload.to_vec(), offset, bytes)]);
        assert_eq!(verdict(guest, &bytes, bytes.len() as u64, 4096), Refused(status), "{opcode}: {name}");
    }
    let bytes = frame(opcode, &[payload]);
    assert_eq!(verdict(guest, &bytes, bytes.len() as u64, 4096), Fine, "{opcode} unchanged");
}

const ZERO: &[u8] = &[0; 8];
const ONES: &[u8] = &[0xff; 8];

#[test]
fn fields_of_contexts_and_queues_are_checked() {
    let bench = Bench::new();
    let guest = &bench.guest;
    check_fields(
        guest,
        Opcode::CreateContext,
        &[0; 8],
        &[
            ("flags before reserved", 0, ONES, Status::Unsupported),
            ("reserved", 4, &[1], Status::InvalidArgument),
        ],
    );
    let create = CreateQueue { context_id: bench.context.into(), ..CreateQueue::default() };
    check_fields(
        guest,
        Opcode::CreateQueue,
        create.as_bytes(),
        &[
            ("flags before reserved", 8, ONES, Status::Unsupported),
            ("reserved", 12, &[1], Status::InvalidArgument),
            ("context 0", 0, ZERO, Status::InvalidArgument),
            ("no such context", 0, ONES, Status::StaleObject),
        ],
    );
}

#[test]
fn ids_of_single_objects_are_checked() {
    let guest = Guest::new();
    for opcode in Opcode::ALL.iter().filter(|opcode| {
        opcode.request_size() == RequestSize::Fixed(ObjectId::BYTES) && **opcode != Opcode::CreateContext
    }) {
        for (payload, status) in [
            (&[0; 8][..], Status::InvalidArgument),
            (&[0xff; 7], Status::InvalidArgument),
            (&[0xff; 9], Status::InvalidArgument),
            (&[0xff; 8], Status::StaleObject),
        ] {
            assert_eq!(guest.call(*opcode, &[payload]), Err(status), "{opcode} {payload:?}");
        }
    }
}

#[test]
fn fields_of_allocations_are_checked_in_order() {
    let guest = Guest::with(NullBackend::with_domains(&[MemoryDomain::Device]), DeviceConfig::default());
    let allocate = AllocateBuffer {
        context_id: guest.context().unwrap().into(),
        bytes: 4096.into(),
        alignment: 64.into(),
        memory_domain: MemoryDomain::Device.code(),
        usage: Usage::ALL.bits().into(),
        ..AllocateBuffer::default()
    };
    check_fields(
        &guest,
        Opcode::AllocateBuffer,
        allocate.as_bytes(),
        &[
            ("context 0", 0, ZERO, Status::InvalidArgument),
            ("no such context", 0, ONES, Status::StaleObject),
            ("no bytes", 8, ZERO, Status::InvalidArgument),
            ("too many bytes", 8, &[1, 0, 0, 4], Status::ResourceLimit),
            ("alignment 0", 16, ZERO, Status::InvalidArgument),
            ("alignment 3", 16, &[3], Status::InvalidArgument),
            ("domain 0", 24, &[0], Status::InvalidArgument),
            ("domain 4", 24, &[4], Status::InvalidArgument),
            ("a domain that the device lacks", 24, &[1], Status::Unsupported),
            ("reserved", 31, &[1], Status::InvalidArgument),
            ("no usage", 32, &[0; 4], Status::InvalidArgument),
            ("unknown usage", 32, &[0x20], Status::Unsupported),
            ("reserved", 36, &[1], Status::InvalidArgument),
        ],
    );
    let call = |allocate: AllocateBuffer| guest.call(Opcode::AllocateBuffer, &[allocate.as_bytes()]);
    let mut wrong = AllocateBuffer { bytes: u64::MAX.into(), memory_domain: 1, ..allocate };
    assert_eq!(call(wrong), Err(Status::ResourceLimit), "the size limit before the capability");
    wrong.alignment = 0.into();
    assert_eq!(call(wrong), Err(Status::InvalidArgument), "the alignment before the size limit");
    wrong.usage = u32::MAX.into();
    assert_eq!(call(wrong), Err(Status::Unsupported), "unknown usage before the alignment");
    wrong.memory_domain = 9;
    assert_eq!(call(wrong), Err(Status::InvalidArgument), "the domain before the usage");
}

#[test]
fn fields_of_transfers_are_checked() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let cases: &[FieldCase] = &[
        ("buffer 0", 0, ZERO, Status::InvalidArgument),
        ("no such buffer", 0, ONES, Status::StaleObject),
        ("offset past the end", 8, &[16], Status::OutOfBounds),
        ("offset overflows", 8, ONES, Status::InvalidArgument),
        ("no bytes", 16, ZERO, Status::InvalidArgument),
    ];
    let read = transfer(bench.input, 0, 4);
    check_fields(guest, Opcode::ReadBuffer, read.as_bytes(), cases);
    let write = [read.as_bytes(), b"data"].concat();
    check_fields(guest, Opcode::WriteBuffer, &write, cases);
    let endless = [transfer(bench.input, 0, u64::MAX).as_bytes(), b"data"].concat();
    assert_eq!(guest.call(Opcode::WriteBuffer, &[&endless]), Err(Status::ResourceLimit));
    let no_data = frame(Opcode::WriteBuffer, &[read.as_bytes()]);
    assert_eq!(verdict(guest, &no_data, 40, 16), Refused(Status::InvalidArgument));
}

#[test]
fn a_read_is_bounded_by_response_and_room_before_the_buffer_is_looked_at() {
    let guest = Guest::with_config(DeviceConfig { max_response_bytes: 100, ..DeviceConfig::default() });
    for (bytes, writable, wanted) in [
        (85, 200, Refused(Status::ResourceLimit)),
        (u64::MAX - 5, 200, Refused(Status::ResourceLimit)),
        (84, 99, Nothing),
        (84, 100, Refused(Status::StaleObject)),
    ] {
        let bytes = frame(Opcode::ReadBuffer, &[transfer(77, 0, bytes).as_bytes()]);
        assert_eq!(verdict(&guest, &bytes, bytes.len() as u64, writable), wanted);
    }
}

#[test]
fn every_command_needs_room_for_its_answer() {
    let bench = Bench::new();
    for &opcode in Opcode::ALL {
        let (payload, capacity) = (sample(&bench, opcode), opcode.response_capacity(4) as u64);
        // Room for the piece of an answer is not needed.
        let capacity = if opcode == Opcode::Query { capacity - 4 } else { capacity };
        let bytes = frame(opcode, &[&payload]);
        let short = verdict(&bench.guest, &bytes, bytes.len() as u64, capacity - 1);
        assert_eq!(short, Nothing, "{opcode} with a byte too few");
    }
    assert_eq!(bench.guest.read(bench.input, 0, 16), Ok(INPUT.to_vec()), "nothing was done");
}

#[test]
fn fields_of_loads_are_checked() {
    let bench =
        Bench::of(Guest::with_config(DeviceConfig { max_artifact_bytes: 12, ..DeviceConfig::default() }));
    let guest = &bench.guest;
    let artifact = null::artifact(0, &[4]);
    let head = load_head(bench.context, artifact.len());
    let head_cases: &[FieldCase] = &[
        ("context 0", 0, ZERO, Status::InvalidArgument),
        ("no such context", 0, ONES, Status::StaleObject),
        ("format 0", 8, &[0; 4], Status::InvalidArgument),
        ("flags", 12, &[1], Status::Unsupported),
        ("resident bytes 0", 72, ZERO, Status::InvalidArgument),
    ];
    let cases = [
        head_cases,
        &[
            ("says no bytes", 64, ZERO, Status::InvalidArgument),
            ("says other bytes", 64, &[9], Status::InvalidArgument),
            ("says more than can be", 64, ONES, Status::ResourceLimit),
        ],
    ];
    check_fields(guest, Opcode::LoadProgram, &[head.as_bytes(), &artifact].concat(), &cases.concat());
    let flags_and_length = LoadProgram { flags: 1.into(), payload_bytes: 1.into(), ..head };
    let flags_first = guest.call(Opcode::LoadProgram, &[flags_and_length.as_bytes(), &artifact]);
    assert_eq!(flags_first, Err(Status::Unsupported));
    let empty = LoadProgram { payload_bytes: 0.into(), ..head };
    assert_eq!(guest.call(Opcode::LoadProgram, &[empty.as_bytes()]), Err(Status::InvalidArgument));
    let long = null::artifact(0, &[4, 4, 4]);
    let long_head = load_head(bench.context, long.len());
    assert_eq!(guest.call(Opcode::LoadProgram, &[long_head.as_bytes(), &long]), Err(Status::ResourceLimit));

    guest.write(bench.input, 0, &artifact).unwrap();
    let from_buffer =
        LoadProgramFromBuffer { program: head, buffer_id: bench.input.into(), offset: 0.into() };
    let cases = [
        head_cases,
        &[
            ("no bytes", 64, ZERO, Status::InvalidArgument),
            ("buffer 0", 80, ZERO, Status::InvalidArgument),
            ("no such buffer", 80, ONES, Status::StaleObject),
            ("offset past the end", 88, &[9], Status::OutOfBounds),
            ("offset overflows", 88, ONES, Status::InvalidArgument),
        ],
    ];
    check_fields(guest, Opcode::LoadProgramFromBuffer, from_buffer.as_bytes(), &cases.concat());
}

#[test]
fn fields_of_submissions_are_checked_in_order() {
    let bench = Bench::of(Guest::with_config(DeviceConfig {
        max_bindings_per_submission: 3,
        ..DeviceConfig::default()
    }));
    for opcode in [Opcode::Execute, Opcode::Submit] {
        check_fields(
            &bench.guest,
            opcode,
            &sample(&bench, opcode),
            &[
                ("queue 0", 0, ZERO, Status::InvalidArgument),
                ("no such queue", 0, ONES, Status::StaleObject),
                ("program 0", 8, ZERO, Status::InvalidArgument),
                ("no such program", 8, ONES, Status::StaleObject),
                ("no bindings", 16, &[0], Status::InvalidArgument),
                ("fewer bindings than it says", 16, &[3], Status::InvalidArgument),
                ("more bindings than it says", 16, &[1], Status::InvalidArgument),
                ("more bindings than may be, before the length", 16, &[4], Status::ResourceLimit),
                ("flags", 20, &[1], Status::Unsupported),
                ("flags before the count", 16, &[0, 0, 0, 0, 1], Status::Unsupported),
                ("buffer 0", 32, ZERO, Status::InvalidArgument),
                ("no such buffer", 32, ONES, Status::StaleObject),
                ("range past the end", 40, &[1], Status::OutOfBounds),
                ("range overflows", 40, ONES, Status::InvalidArgument),
                ("no bytes", 48, ZERO, Status::InvalidArgument),
                ("slot twice", 56, &[1], Status::InvalidArgument),
                ("access 0", 60, &[0], Status::InvalidArgument),
                ("access 4", 60, &[4], Status::InvalidArgument),
                ("reserved", 63, &[1], Status::InvalidArgument),
                ("the second binding too", 64 + 28, &[7], Status::InvalidArgument),
            ],
        );
    }
}

#[test]
fn fields_of_waits_queries_and_copies_are_checked() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let event = guest.submit(&bench.work()).unwrap();
    let wait = WaitEvent { event_id: event.into(), timeout_ns: 0.into() };
    check_fields(
        guest,
        Opcode::WaitEvent,
        wait.as_bytes(),
        &[("event 0", 0, ZERO, Status::InvalidArgument), ("no such event", 0, ONES, Status::StaleObject)],
    );
    guest.on(Opcode::DestroyEvent, event).unwrap();
    check_fields(
        guest,
        Opcode::Query,
        &sample(&bench, Opcode::Query),
        &[
            ("topic 0", 0, &[0], Status::Unsupported),
            ("topic 6", 0, &[6], Status::Unsupported),
            ("reserved before the topic", 0, &[9, 0, 0, 0, 1], Status::InvalidArgument),
            ("a topic that needs no object", 0, &[1], Status::InvalidArgument),
            ("object 0", 8, ZERO, Status::InvalidArgument),
            ("no such object", 8, ONES, Status::StaleObject),
        ],
    );
    check_fields(
        guest,
        Opcode::CopyBuffer,
        &sample(&bench, Opcode::CopyBuffer),
        &[
            ("source 0", 0, ZERO, Status::InvalidArgument),
            ("no such source", 0, ONES, Status::StaleObject),
            ("source past the end", 8, &[13], Status::OutOfBounds),
            ("destination 0", 16, ZERO, Status::InvalidArgument),
            ("destination overflows", 24, ONES, Status::InvalidArgument),
            ("no bytes", 32, ZERO, Status::InvalidArgument),
        ],
    );
}

/// A sound payload of every command.
fn sample(bench: &Bench, opcode: Opcode) -> Vec<u8> {
    let id = |id: u64| id.to_le_bytes().to_vec();
    let artifact = null::artifact(0, &[4]);
    let head = load_head(bench.context, artifact.len());
    match opcode {
        Opcode::GetDeviceInfo => vec![],
        Opcode::CreateContext => vec![0; 8],
        Opcode::DestroyContext => id(bench.context),
        Opcode::AllocateBuffer => AllocateBuffer {
            context_id: bench.context.into(),
            bytes: 64.into(),
            alignment: 4.into(),
            memory_domain: 2,
            usage: 0x1f.into(),
            ..AllocateBuffer::default()
        }
        .as_bytes()
        .to_vec(),
        Opcode::FreeBuffer => id(bench.input),
        Opcode::WriteBuffer => [transfer(bench.input, 0, 4).as_bytes(), &[1; 4]].concat(),
        Opcode::ReadBuffer => transfer(bench.input, 0, 4).as_bytes().to_vec(),
        Opcode::LoadProgram => [head.as_bytes(), &artifact].concat(),
        Opcode::UnloadProgram => id(bench.program),
        Opcode::CreateQueue => {
            CreateQueue { context_id: bench.context.into(), ..CreateQueue::default() }.as_bytes().to_vec()
        }
        Opcode::DestroyQueue => id(bench.queue),
        Opcode::Submit | Opcode::Execute => {
            let head = Submit {
                queue_id: bench.queue.into(),
                program_id: bench.program.into(),
                binding_count: 2.into(),
                ..Submit::default()
            };
            [head.as_bytes(), bench.work().bindings.as_bytes()].concat()
        }
        Opcode::PollEvent | Opcode::CancelEvent | Opcode::DestroyEvent => id(bench.queue + 1),
        Opcode::WaitEvent => [id(bench.queue + 1), id(1_000_000)].concat(),
        Opcode::LoadProgramFromBuffer => {
            LoadProgramFromBuffer { program: head, buffer_id: bench.input.into(), offset: 0.into() }
                .as_bytes()
                .to_vec()
        }
        Opcode::Query => {
            Query { topic: 3.into(), reserved: 0.into(), object_id: bench.program.into(), offset: 0.into() }
                .as_bytes()
                .to_vec()
        }
        Opcode::CopyBuffer => CopyBuffer {
            source_id: bench.input.into(),
            source_offset: 0.into(),
            destination_id: bench.output.into(),
            destination_offset: 0.into(),
            bytes: 4.into(),
        }
        .as_bytes()
        .to_vec(),
    }
}

/// A small generator of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn damaged_frames_are_answered_exactly_once() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..40 {
        let config = DeviceConfig {
            memory_limit_bytes: 1 << 20,
            max_request_bytes: 300,
            max_response_bytes: 4096,
            ..DeviceConfig::default()
        };
        let bench = Bench::of(Guest::with_config(config));
        for _ in 0..50 {
            let opcode = Opcode::ALL[numbers.below(Opcode::ALL.len())];
            let mut bytes = frame(opcode, &[&sample(&bench, opcode)]);
            for _ in 0..numbers.below(4) {
                let at = numbers.below(bytes.len());
                bytes[at] = [0, 1, 0xff, numbers.below(256) as u8][numbers.below(4)];
            }
            match numbers.below(8) {
                0 => bytes.truncate(numbers.below(bytes.len() + 1)),
                1 => bytes.resize(bytes.len() + numbers.below(300), 0),
                _ => {}
            }
            let writable = [0, 15, 16, 24, 92, 4096][numbers.below(6)];
            let answer = bench.guest.send_raw(&bytes, bytes.len() as u64, writable);
            let written = answer.recv_timeout(PATIENCE).expect("every frame is answered");
            assert!(written.is_empty() || written.len() >= 16);
            let again = answer.recv_timeout(PATIENCE);
            assert_eq!(again, Err(RecvTimeoutError::Disconnected), "and only once");
        }
        bench.guest.device.reset();
        // A submission may be running at this moment; it lets go at its end.
        let patience = Instant::now() + PATIENCE;
        while bench.guest.device.memory_used() > 0 {
            assert!(Instant::now() < patience, "memory stays held");
            thread::yield_now();
        }
    }
}
