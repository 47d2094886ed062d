//! Every frame against bytes written by hand from the layout tables, in both directions.
#![expect(clippy::unwrap_used, reason = "a broken vector file is a failed test")]

use std::collections::{BTreeMap, BTreeSet};

use accel_proto::*;

const CONTEXT: u64 = 0x0102_0304_0506_0708;
const BUFFER: u64 = 0x8000_0000_0000_0011;
const BUFFER2: u64 = 0x8000_0000_0000_0012;
const PROGRAM: u64 = 0x21;
const QUEUE: u64 = 0x31;
const EVENT: u64 = 0x41;

/// Reads `vectors.txt` and checks that every line's offset is where its bytes land.
fn vectors() -> BTreeMap<String, Vec<u8>> {
    let mut vectors = BTreeMap::new();
    let mut current: Option<(String, Vec<u8>)> = None;
    for (number, line) in include_str!("vectors.txt").lines().enumerate() {
        let line = line.split('#').next().unwrap().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("frame ").or_else(|| line.strip_prefix("config ")) {
            vectors.extend(current.replace((name.to_owned(), Vec::new())));
            continue;
        }
        let (name, bytes) = current.as_mut().expect("a vector begins with its name");
        let mut words = line.split_whitespace();
        let offset: usize = words.next().unwrap().split('+').map(|n| n.parse::<usize>().unwrap()).sum();
        assert_eq!(offset, bytes.len(), "line {} of {name} is not at its offset", number + 1);
        for word in words {
            let (byte, count) = word.split_once('*').unwrap_or((word, "1"));
            let byte = u8::from_str_radix(byte, 16).unwrap();
            bytes.extend(std::iter::repeat_n(byte, count.parse().unwrap()));
        }
    }
    vectors.extend(current);
    vectors
}

fn id(id: u64) -> Vec<u8> {
    ObjectId { id: id.into() }.as_bytes().to_vec()
}

fn event_state(state: EventPhase, error: Status) -> EventState {
    EventState { state: state.code().into(), error: error.code().into(), reserved: 0.into() }
}

fn target_words(target: tosa::Target) -> [U32; 12] {
    target.words().map(U32::new)
}

/// The payload of each request: opcode, request id, head and tail.
fn requests() -> Vec<(Opcode, u64, Vec<u8>)> {
    let binding = |buffer_id: u64, offset: u64, bytes: u64, slot: u32, access: Access| Binding {
        buffer_id: buffer_id.into(),
        offset: offset.into(),
        bytes: bytes.into(),
        slot: slot.into(),
        access: access.code(),
        reserved: [0; 3],
    };
    let submit = |binding_count: u32, timeout_ns: u64| Submit {
        queue_id: QUEUE.into(),
        program_id: PROGRAM.into(),
        binding_count: binding_count.into(),
        flags: 0.into(),
        timeout_ns: timeout_ns.into(),
    };
    let transfer = Transfer { buffer_id: BUFFER.into(), offset: 256.into(), bytes: 5.into() };
    let load = LoadProgram {
        context_id: CONTEXT.into(),
        format: tosa::FORMAT.into(),
        flags: 0.into(),
        target: target_words(tosa::Target {
            profiles: tosa::PROFILE_INTEGER | tosa::PROFILE_FLOAT,
            level: tosa::LEVEL_8K,
            extensions: tosa::EXT_INT16 | tosa::EXT_CONTROL_FLOW | tosa::EXT_DOUBLE_ROUND,
        }),
        payload_bytes: 4.into(),
        resident_bytes: u64::MAX.into(),
    };
    let from_buffer = LoadProgramFromBuffer {
        program: LoadProgram {
            target: target_words(tosa::Target {
                profiles: tosa::PROFILE_FLOAT,
                level: tosa::LEVEL_NONE,
                extensions: 0,
            }),
            payload_bytes: (128 << 20).into(),
            resident_bytes: (256 << 20).into(),
            ..load
        },
        buffer_id: BUFFER.into(),
        offset: 4096.into(),
    };
    let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION | Usage::PROGRAM_INPUT;
    vec![
        (Opcode::GetDeviceInfo, 1, vec![]),
        (Opcode::CreateContext, 2, CreateContext::default().as_bytes().to_vec()),
        (Opcode::DestroyContext, 3, id(CONTEXT)),
        (
            Opcode::AllocateBuffer,
            4,
            AllocateBuffer {
                context_id: CONTEXT.into(),
                bytes: 4096.into(),
                alignment: 64.into(),
                memory_domain: MemoryDomain::Device.code(),
                usage: usage.bits().into(),
                ..Default::default()
            }
            .as_bytes()
            .to_vec(),
        ),
        (Opcode::FreeBuffer, 5, id(BUFFER)),
        (Opcode::WriteBuffer, 6, [transfer.as_bytes(), b"hello"].concat()),
        (Opcode::ReadBuffer, 7, transfer.as_bytes().to_vec()),
        (Opcode::LoadProgram, 8, [load.as_bytes(), &[0xde, 0xad, 0xbe, 0xef]].concat()),
        (Opcode::UnloadProgram, 9, id(PROGRAM)),
        (
            Opcode::CreateQueue,
            10,
            CreateQueue { context_id: CONTEXT.into(), ..Default::default() }.as_bytes().to_vec(),
        ),
        (Opcode::DestroyQueue, 11, id(QUEUE)),
        (
            Opcode::Submit,
            12,
            [
                submit(2, 1_000_000_000).as_bytes(),
                binding(BUFFER, 0, 2048, 0, Access::Read).as_bytes(),
                binding(BUFFER2, 2048, 1024, 1, Access::Write).as_bytes(),
            ]
            .concat(),
        ),
        (Opcode::PollEvent, 13, id(EVENT)),
        (Opcode::CancelEvent, 14, id(EVENT)),
        (Opcode::DestroyEvent, u64::MAX, id(EVENT)),
        (
            Opcode::Execute,
            1,
            [submit(1, 0).as_bytes(), binding(BUFFER, 0, 2048, 0, Access::ReadWrite).as_bytes()].concat(),
        ),
        (
            Opcode::WaitEvent,
            2,
            WaitEvent { event_id: EVENT.into(), timeout_ns: 1_000_000.into() }.as_bytes().to_vec(),
        ),
        (Opcode::LoadProgramFromBuffer, 3, from_buffer.as_bytes().to_vec()),
        (
            Opcode::Query,
            4,
            Query {
                topic: QueryTopic::ProgramSlots.code().into(),
                reserved: 0.into(),
                object_id: PROGRAM.into(),
                offset: 2.into(),
            }
            .as_bytes()
            .to_vec(),
        ),
        (
            Opcode::CopyBuffer,
            5,
            CopyBuffer {
                source_id: BUFFER.into(),
                source_offset: 256.into(),
                destination_id: BUFFER2.into(),
                destination_offset: 512.into(),
                bytes: 64.into(),
            }
            .as_bytes()
            .to_vec(),
        ),
    ]
}

fn ok_payload(opcode: Opcode) -> Vec<u8> {
    let capabilities = Capabilities::HOST_VISIBLE_MEMORY
        | Capabilities::DEVICE_LOCAL_MEMORY
        | Capabilities::EVENT_CANCELLATION
        | Capabilities::SHARED_MEMORY;
    match opcode {
        Opcode::GetDeviceInfo => DeviceInfo {
            uuid: std::array::from_fn(|i| 0x11 * i as u8),
            class: DeviceClass::Gpu.code().into(),
            reserved: 0.into(),
            vendor_id: 0x10005.into(),
            device_id: 0xdead_beef.into(),
            capabilities: capabilities.bits().into(),
            max_contexts: 16.into(),
            max_buffers_per_context: 1024.into(),
            max_programs_per_context: 64.into(),
            max_queues_per_context: 8.into(),
            max_events_per_context: 256.into(),
            max_bindings_per_submission: MAX_BINDINGS.into(),
            max_buffer_bytes: (4 << 30).into(),
            max_artifact_bytes: u64::from(MAX_FRAME_BYTES - 96).into(),
        }
        .as_bytes()
        .to_vec(),
        Opcode::CreateContext => id(CONTEXT),
        Opcode::AllocateBuffer => id(BUFFER),
        Opcode::LoadProgram | Opcode::LoadProgramFromBuffer => id(PROGRAM),
        Opcode::CreateQueue => id(QUEUE),
        Opcode::Submit => id(EVENT),
        Opcode::ReadBuffer => b"hello".to_vec(),
        Opcode::PollEvent => event_state(EventPhase::Complete, Status::Ok).as_bytes().to_vec(),
        Opcode::Execute => ExecuteResult { gpu_ns: 123_456_789.into() }.as_bytes().to_vec(),
        Opcode::WaitEvent => {
            WaitResult { event: event_state(EventPhase::Complete, Status::Ok), gpu_ns: 123_456_789.into() }
                .as_bytes()
                .to_vec()
        }
        Opcode::Query => [QueryHeader { total_bytes: 5.into() }.as_bytes(), b"llo"].concat(),
        _ => vec![],
    }
}

/// Everything that this crate can build, by the name of its vector.
fn built() -> BTreeMap<String, Vec<u8>> {
    let mut built = BTreeMap::new();
    for (opcode, request_id, payload) in requests() {
        let name = opcode.name().to_lowercase();
        built.insert(format!("{name}.request"), encode_request(opcode, request_id, &[&payload]));
        built
            .insert(format!("{name}.response"), encode_response(Status::Ok, request_id, &ok_payload(opcode)));
    }
    let mut add = |name: &str, bytes: Vec<u8>| built.insert(name.to_owned(), bytes);
    for (name, status, request_id) in [
        ("error.unsupported", Status::Unsupported, 1),
        ("error.invalid_argument", Status::InvalidArgument, 0),
        ("error.busy", Status::Busy, 2),
        ("error.resource_limit", Status::ResourceLimit, 3),
        ("error.stale_object", Status::StaleObject, 4),
        ("error.internal", Status::InternalError, 5),
        ("wait_event.deadline", Status::DeadlineExpired, 2),
    ] {
        add(name, encode_response(status, request_id, &[]));
    }
    add("error.submit_indeterminate", encode_response(Status::DeviceLost, 6, &id(EVENT)));
    let failed = event_state(EventPhase::Failed, Status::DeadlineExpired);
    add("edge.event_failed", encode_response(Status::Ok, 1, failed.as_bytes()));
    let cancelled = event_state(EventPhase::Cancelled, Status::Ok);
    add("edge.event_cancelled", encode_response(Status::Ok, 1, cancelled.as_bytes()));
    let config = |chain, request, response| ConfigSpace::new(chain, request, response, 4, announced());
    add("config.minimum", config(2, MIN_REQUEST_BYTES, MIN_RESPONSE_BYTES).prefix.as_bytes().to_vec());
    let largest = config(256, MAX_FRAME_BYTES, MAX_FRAME_BYTES);
    add("config.maximum", largest.prefix.as_bytes().to_vec());
    add("config.extended", largest.as_bytes().to_vec());
    built
}

fn announced() -> Extensions {
    Extensions::EXECUTE
        | Extensions::WAIT_EVENT
        | Extensions::LOAD_PROGRAM_FROM_BUFFER
        | Extensions::QUERY
        | Extensions::COPY_BUFFER
}

/// Requests that must be refused, and why.
fn refused() -> BTreeMap<&'static str, FrameError> {
    BTreeMap::from([
        ("edge.short_header", FrameError::NoHeader { readable: 15 }),
        ("edge.said_more", FrameError::Length { said: 9, readable: 24 }),
        ("edge.said_less", FrameError::Length { said: 7, readable: 24 }),
        ("edge.said_four_gib", FrameError::Length { said: u32::MAX, readable: 16 }),
        ("edge.zero_request_id", FrameError::ZeroRequestId),
        ("edge.flags", FrameError::Flags(1)),
        ("edge.opcode_zero", FrameError::Opcode(0)),
        ("edge.opcode_import", FrameError::Opcode(0x8005)),
        ("edge.everything_wrong", FrameError::Length { said: 1, readable: 16 }),
    ])
}

#[test]
fn every_vector_is_built_or_refused_as_written() {
    let vectors = vectors();
    let built = built();
    for (name, bytes) in &built {
        assert_eq!(vectors.get(name), Some(bytes), "{name}");
    }
    for (name, error) in refused() {
        let bytes = &vectors[name];
        assert_eq!(decode_request(bytes, bytes.len() as u64, MAX_FRAME_BYTES), Err(error), "{name}");
    }
    let covered: BTreeSet<&str> = built
        .keys()
        .map(String::as_str)
        .chain(refused().into_keys())
        .chain(["edge.unknown_status"])
        .collect();
    assert_eq!(covered, vectors.keys().map(String::as_str).collect());
    let unknown = decode_response(&vectors["edge.unknown_status"], 1).unwrap();
    assert_eq!(unknown, ResponseFrame { status: Err(12), payload: &[] });
}

#[test]
fn requests_and_responses_read_back() {
    let vectors = vectors();
    for (opcode, request_id, payload) in requests() {
        let name = opcode.name().to_lowercase();
        let bytes = &vectors[&format!("{name}.request")];
        let request = decode_request(bytes, bytes.len() as u64, MAX_FRAME_BYTES).unwrap();
        assert_eq!(request, Request { opcode, request_id, payload: &payload }, "{name}");
        match opcode.request_size() {
            RequestSize::Fixed(size) => assert_eq!(payload.len(), size, "{name}"),
            RequestSize::Data { head } => assert!(payload.len() > head, "{name}"),
            RequestSize::Entries { head, entry } => assert_eq!((payload.len() - head) % entry, 0, "{name}"),
        }
        let bytes = &vectors[&format!("{name}.response")];
        let response = decode_response(bytes, request_id).unwrap();
        assert_eq!(
            response,
            ResponseFrame { status: Ok(Status::Ok), payload: &ok_payload(opcode) },
            "{name}"
        );
        let requested = match opcode {
            Opcode::ReadBuffer => 5,
            Opcode::Query => 3,
            _ => 0,
        };
        assert_eq!(opcode.response_capacity(requested), bytes.len(), "{name}");
    }
}

#[test]
fn fields_read_back_at_their_offsets() {
    let vectors = vectors();
    let info = DeviceInfo::read_from_bytes(&vectors["get_device_info.response"][HEADER_BYTES..]).unwrap();
    assert_eq!(info.capabilities.get(), 0x27);
    assert_eq!(info.max_buffer_bytes.get(), 4 << 30);
    assert_eq!(info.max_artifact_bytes.get(), 16_777_120);
    let (submit, bindings) = Submit::read_from_prefix(&vectors["submit.request"][HEADER_BYTES..]).unwrap();
    assert_eq!(submit.timeout_ns.get(), 1_000_000_000);
    let bindings = <[Binding]>::ref_from_bytes(bindings).unwrap();
    assert_eq!((bindings.len(), bindings[1].buffer_id.get(), bindings[1].access), (2, BUFFER2, 2));
    let config = ConfigSpace::read_from_bytes(&vectors["config.extended"]).unwrap();
    assert!(config.prefix.is_usable());
    assert_eq!(config.extension.announced(), announced());
    assert_eq!(config.extension.queues(), 4);
}
