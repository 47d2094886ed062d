//! A guest of the device model: builds requests, sends them and reads the answers.
#![allow(dead_code, reason = "every test binary uses its own part of the guest")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a guest that gets nonsense is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use accel_device::null::{self, NullBackend};
use accel_device::{Device, DeviceConfig, Request};
use accel_proto::*;

/// Long enough that it passes only when an answer never comes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// All uses a buffer can have.
pub const ANY: Usage = Usage::ALL;

pub struct Guest {
    pub device: Arc<Device<NullBackend>>,
    pub backend: Arc<NullBackend>,
    next_request: AtomicU64,
}

/// An answer still to come.
pub struct Pending {
    pub request_id: u64,
    pub bytes: Receiver<Vec<u8>>,
}

pub type Answer = Result<Vec<u8>, Status>;

impl Pending {
    /// Waits for the answer.
    pub fn wait(&self) -> Answer {
        parse(&self.bytes.recv_timeout(PATIENCE).expect("an answer comes"), self.request_id)
    }

    /// Whether no answer has come so far.
    pub fn is_open(&self) -> bool {
        matches!(self.bytes.try_recv(), Err(mpsc::TryRecvError::Empty))
    }

    /// Whether no answer came and none will: the reply was dropped.
    pub fn is_dropped(&self) -> bool {
        matches!(self.bytes.try_recv(), Err(mpsc::TryRecvError::Disconnected))
    }
}

fn parse(bytes: &[u8], request_id: u64) -> Answer {
    let response = decode_response(bytes, request_id).expect("a sound response");
    match response.status.unwrap() {
        Status::Ok => Ok(response.payload.to_vec()),
        status => {
            assert!(response.payload.is_empty(), "a failure has no payload");
            Err(status)
        }
    }
}

impl Guest {
    pub fn new() -> Self {
        Self::with(NullBackend::new(), DeviceConfig::default())
    }

    pub fn with_config(config: DeviceConfig) -> Self {
        Self::with(NullBackend::new(), config)
    }

    pub fn with(backend: Arc<NullBackend>, config: DeviceConfig) -> Self {
        let device = Device::new(Arc::clone(&backend), config);
        Self { device, backend, next_request: AtomicU64::new(1) }
    }

    /// Sends raw bytes; the channel gets what the device writes.
    pub fn send_raw(&self, bytes: &[u8], readable_bytes: u64, writable_bytes: u64) -> Receiver<Vec<u8>> {
        let (sender, receiver) = mpsc::channel();
        let reply = Box::new(move |bytes: &[u8]| {
            assert!(bytes.len() as u64 <= writable_bytes, "the answer fits");
            let _ = sender.send(bytes.to_vec());
        });
        self.device.handle(Request { queue: 0, bytes, readable_bytes, writable_bytes }, reply);
        receiver
    }

    pub fn start_with_room(&self, opcode: Opcode, parts: &[&[u8]], writable: u64) -> Pending {
        let request_id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let frame = encode_request(opcode, request_id, parts);
        Pending { request_id, bytes: self.send_raw(&frame, frame.len() as u64, writable) }
    }

    pub fn start(&self, opcode: Opcode, parts: &[&[u8]]) -> Pending {
        self.start_with_room(opcode, parts, 1 << 20)
    }

    pub fn call(&self, opcode: Opcode, parts: &[&[u8]]) -> Answer {
        self.start(opcode, parts).wait()
    }

    /// As `call`; an answer that a reset took away is INTERNAL_ERROR, which the null backend never gives here.
    pub fn try_call(&self, opcode: Opcode, parts: &[&[u8]]) -> Answer {
        let pending = self.start(opcode, parts);
        match pending.bytes.recv_timeout(PATIENCE) {
            Ok(bytes) => parse(&bytes, pending.request_id),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Status::InternalError),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{opcode} is neither answered nor dropped"),
        }
    }

    pub fn try_make(&self, opcode: Opcode, parts: &[&[u8]]) -> Result<u64, Status> {
        self.try_call(opcode, parts).map(|payload| u64::from_le_bytes(payload.try_into().unwrap()))
    }

    pub fn try_buffer(&self, context: u64) -> Result<u64, Status> {
        self.try_make(Opcode::AllocateBuffer, &[allocation(context, 16, ANY).as_bytes()])
    }

    pub fn on(&self, opcode: Opcode, id: u64) -> Answer {
        self.call(opcode, &[&id.to_le_bytes()])
    }

    fn make(&self, opcode: Opcode, parts: &[&[u8]]) -> Result<u64, Status> {
        self.call(opcode, parts).map(|payload| u64::from_le_bytes(payload.try_into().unwrap()))
    }

    pub fn context(&self) -> Result<u64, Status> {
        self.make(Opcode::CreateContext, &[&[0; 8]])
    }

    pub fn buffer(&self, context: u64, bytes: u64, usage: Usage) -> Result<u64, Status> {
        self.make(Opcode::AllocateBuffer, &[allocation(context, bytes, usage).as_bytes()])
    }

    pub fn queue(&self, context: u64) -> Result<u64, Status> {
        let create = CreateQueue { context_id: context.into(), ..CreateQueue::default() };
        self.make(Opcode::CreateQueue, &[create.as_bytes()])
    }

    pub fn program(&self, context: u64, key: u32, slots: &[u32]) -> Result<u64, Status> {
        let artifact = null::artifact(key, slots);
        self.make(Opcode::LoadProgram, &[load_head(context, artifact.len()).as_bytes(), &artifact])
    }

    pub fn program_from(&self, context: u64, bytes: usize, buffer: u64, offset: u64) -> Result<u64, Status> {
        let load = LoadProgramFromBuffer {
            program: load_head(context, bytes),
            buffer_id: buffer.into(),
            offset: offset.into(),
        };
        self.make(Opcode::LoadProgramFromBuffer, &[load.as_bytes()])
    }

    pub fn write(&self, buffer: u64, offset: u64, data: &[u8]) -> Answer {
        self.call(Opcode::WriteBuffer, &[transfer(buffer, offset, data.len() as u64).as_bytes(), data])
    }

    pub fn read(&self, buffer: u64, offset: u64, bytes: u64) -> Answer {
        self.call(Opcode::ReadBuffer, &[transfer(buffer, offset, bytes).as_bytes()])
    }

    pub fn copy(&self, source: (u64, u64), destination: (u64, u64), bytes: u64) -> Answer {
        let copy = CopyBuffer {
            source_id: source.0.into(),
            source_offset: source.1.into(),
            destination_id: destination.0.into(),
            destination_offset: destination.1.into(),
            bytes: bytes.into(),
        };
        self.call(Opcode::CopyBuffer, &[copy.as_bytes()])
    }

    pub fn submit(&self, work: &Work) -> Result<u64, Status> {
        let (head, bindings) = work.payload();
        self.make(Opcode::Submit, &[head.as_bytes(), bindings.as_bytes()])
    }

    pub fn execute(&self, work: &Work) -> Pending {
        let (head, bindings) = work.payload();
        self.start(Opcode::Execute, &[head.as_bytes(), bindings.as_bytes()])
    }

    pub fn wait_event(&self, event: u64, timeout: Duration) -> Pending {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap();
        let wait = WaitEvent { event_id: event.into(), timeout_ns: timeout_ns.into() };
        self.start(Opcode::WaitEvent, &[wait.as_bytes()])
    }

    /// Phase and error of an event.
    pub fn poll(&self, event: u64) -> Result<(EventPhase, Status), Status> {
        self.on(Opcode::PollEvent, event).map(|payload| event_state(&payload))
    }

    /// Answer of WAIT_EVENT without a deadline.
    pub fn finish(&self, event: u64) -> (EventPhase, Status) {
        event_state(&self.wait_event(event, Duration::ZERO).wait().unwrap()[..8])
    }

    pub fn query(
        &self,
        topic: QueryTopic,
        object: u64,
        offset: u64,
        room: u64,
    ) -> Result<(u64, Vec<u8>), Status> {
        let query = Query {
            topic: topic.code().into(),
            reserved: 0.into(),
            object_id: object.into(),
            offset: offset.into(),
        };
        let answer = self.start_with_room(Opcode::Query, &[query.as_bytes()], 24 + room).wait()?;
        let (header, piece) = QueryHeader::read_from_prefix(&answer).unwrap();
        Ok((header.total_bytes.get(), piece.to_vec()))
    }
}

pub fn event_state(payload: &[u8]) -> (EventPhase, Status) {
    let state = EventState::read_from_bytes(payload).unwrap();
    let phase = EventPhase::from_code(state.state.get()).unwrap();
    (phase, Status::from_code(state.error.get()).unwrap())
}

pub fn allocation(context: u64, bytes: u64, usage: Usage) -> AllocateBuffer {
    AllocateBuffer {
        context_id: context.into(),
        bytes: bytes.into(),
        alignment: 64.into(),
        memory_domain: MemoryDomain::Device.code(),
        usage: usage.bits().into(),
        ..AllocateBuffer::default()
    }
}

pub fn transfer(buffer: u64, offset: u64, bytes: u64) -> Transfer {
    Transfer { buffer_id: buffer.into(), offset: offset.into(), bytes: bytes.into() }
}

pub fn load_head(context: u64, artifact_bytes: usize) -> LoadProgram {
    LoadProgram {
        context_id: context.into(),
        format: null::FORMAT.into(),
        flags: 0.into(),
        target: [U32::ZERO; 12],
        payload_bytes: (artifact_bytes as u64).into(),
        resident_bytes: u64::MAX.into(),
    }
}

/// A submission in the making.
#[derive(Clone)]
pub struct Work {
    pub queue: u64,
    pub program: u64,
    pub bindings: Vec<Binding>,
    pub timeout: Duration,
}

impl Work {
    fn payload(&self) -> (Submit, &[Binding]) {
        let head = Submit {
            queue_id: self.queue.into(),
            program_id: self.program.into(),
            binding_count: u32::try_from(self.bindings.len()).unwrap().into(),
            flags: 0.into(),
            timeout_ns: u64::try_from(self.timeout.as_nanos()).unwrap().into(),
        };
        (head, &self.bindings)
    }
}

pub fn binding(slot: u32, buffer: u64, bytes: u64, access: Access) -> Binding {
    Binding {
        buffer_id: buffer.into(),
        offset: 0.into(),
        bytes: bytes.into(),
        slot: slot.into(),
        access: access.code(),
        reserved: [0; 3],
    }
}

/// A context with a program that xors 16 bytes with 0xff, and its buffers.
pub struct Bench {
    pub guest: Guest,
    pub context: u64,
    pub queue: u64,
    pub program: u64,
    pub input: u64,
    pub output: u64,
}

impl Bench {
    pub fn new() -> Self {
        Self::of(Guest::new())
    }

    pub fn of(guest: Guest) -> Self {
        let context = guest.context().unwrap();
        let program = guest.program(context, 0xff, &[16, 16 | null::OUTPUT]).unwrap();
        let input = guest.buffer(context, 16, ANY).unwrap();
        let output = guest.buffer(context, 16, ANY).unwrap();
        let queue = guest.queue(context).unwrap();
        guest.write(input, 0, &INPUT).unwrap();
        Self { guest, context, queue, program, input, output }
    }

    /// The program from `input` to `output`.
    pub fn work(&self) -> Work {
        Work {
            queue: self.queue,
            program: self.program,
            bindings: vec![
                binding(0, self.input, 16, Access::Read),
                binding(1, self.output, 16, Access::Write),
            ],
            timeout: Duration::ZERO,
        }
    }

    /// The same with another key.
    pub fn work_with_key(&self, key: u32) -> Work {
        let program = self.guest.program(self.context, key, &[16, 16 | null::OUTPUT]).unwrap();
        Work { program, ..self.work() }
    }
}

pub const INPUT: [u8; 16] = *b"sixteen bytes in";

pub fn inverted() -> Vec<u8> {
    INPUT.iter().map(|byte| !byte).collect()
}
