//! A toy device behind a real socket and real rings: just enough of the protocol to exercise the driver,
//! and levers for what a real device seldom does.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use accel_guest::{Client, FrontendTransport, Options};
use accel_proto::*;
use vhost::vhost_user::Listener;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackendMut, VhostUserDaemon, VringRwLock, VringT};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{DescriptorChain, QueueOwnedT};
use vm_memory::{Bytes, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

/// What the toy is.
#[derive(Clone)]
pub struct Toy {
    pub config: ConfigSpace,
    pub features: u64,
    /// Answer EXECUTE only when so many are there, the last first.
    pub hold: usize,
    /// Close the connection instead of answering EXECUTE.
    pub die: bool,
    /// Never answer EXECUTE.
    pub mute: bool,
    /// Claim a used length beyond the chain in answers to EXECUTE.
    pub lie: bool,
}

pub const ALL: u64 = 0b1_1111;

impl Default for Toy {
    fn default() -> Self {
        Self {
            config: ConfigSpace::new(64, 1 << 20, 1 << 20, 2, Extensions::from_bits_retain(ALL)),
            features: 1 << VIRTIO_RING_F_INDIRECT_DESC | 1 << VIRTIO_RING_F_EVENT_IDX,
            hold: 1,
            die: false,
            mute: false,
            lie: false,
        }
    }
}

/// Counters that a test looks at.
#[derive(Default)]
pub struct Seen {
    pub descriptors: Vec<usize>,
    pub opcodes: Vec<Opcode>,
    pub acked: u64,
}

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

struct Backend {
    toy: Toy,
    memory: Option<Memory>,
    event_idx: bool,
    next_id: u64,
    buffers: HashMap<u64, Vec<u8>>,
    events: HashMap<u64, u32>,
    held: Vec<(VringRwLock, u16, Chain, u64)>,
    seen: Arc<Mutex<Seen>>,
    connection: Arc<Mutex<Option<UnixStream>>>,
}

/// A running toy.
pub struct Running {
    pub socket: PathBuf,
    pub seen: Arc<Mutex<Seen>>,
    _folder: tempfile::TempDir,
}

impl Toy {
    pub fn start(self) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("toy.sock");
        let mut listener = Listener::new(&socket, true).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let connection = Arc::new(Mutex::new(None));
        let backend = Backend {
            toy: self,
            memory: None,
            event_idx: false,
            next_id: 0,
            buffers: HashMap::new(),
            events: HashMap::new(),
            held: Vec::new(),
            seen: seen.clone(),
            connection,
        };
        let backend = Arc::new(RwLock::new(backend));
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        std::thread::spawn(move || {
            let mut daemon = VhostUserDaemon::new("toy".into(), backend.clone(), memory).unwrap();
            daemon.start(&mut listener).unwrap();
            let shutdown = daemon.shutdown_handle().unwrap();
            let (watch, killer) = UnixStream::pair().unwrap();
            *backend.read().unwrap().connection.lock().unwrap() = Some(killer);
            std::thread::spawn(move || {
                let _ = io::Read::read(&mut &watch, &mut [0]);
                shutdown.shutdown();
            });
            let _ = daemon.wait();
        });
        Running { socket, seen, _folder: folder }
    }
}

impl Running {
    pub fn transport(&self, options: Options) -> FrontendTransport {
        FrontendTransport::connect(&self.socket, options).unwrap()
    }

    pub fn client(&self) -> Client<FrontendTransport> {
        let mut client = Client::new(self.transport(Options::default())).unwrap();
        client.set_timeout(Some(Duration::from_secs(20)));
        client
    }
}

impl Backend {
    fn process(&mut self, vring: &VringRwLock) {
        let memory = self.memory.as_ref().unwrap().memory();
        loop {
            let chains: Vec<Chain> = vring.get_mut().get_queue_mut().iter(memory.clone()).unwrap().collect();
            if chains.is_empty() {
                return;
            }
            for chain in chains {
                self.command(vring, chain);
            }
        }
    }

    fn command(&mut self, vring: &VringRwLock, chain: Chain) {
        let head = chain.head_index();
        let memory = chain.memory();
        let mut frame = Vec::new();
        for descriptor in chain.clone().readable() {
            let at = frame.len();
            frame.resize(at + descriptor.len() as usize, 0);
            memory.read_slice(&mut frame[at..], descriptor.addr()).unwrap();
        }
        let request =
            decode_request(&frame, frame.len() as u64, self.toy.config.prefix.max_request_bytes.get());
        let request = request.unwrap();
        {
            let mut seen = self.seen.lock().unwrap();
            seen.descriptors.push(chain.clone().count());
            seen.opcodes.push(request.opcode);
        }
        let writable: usize = chain.clone().writable().map(|d| d.len() as usize).sum();
        if request.opcode == Opcode::Execute {
            return self.execute(vring, head, chain, request.request_id);
        }
        let reply = match self.answer(request, writable) {
            Ok(payload) => encode_response(Status::Ok, request.request_id, &payload),
            Err(status) => encode_response(status, request.request_id, &[]),
        };
        respond(vring, head, &chain, &reply, 0);
    }

    fn execute(&mut self, vring: &VringRwLock, head: u16, chain: Chain, id: u64) {
        if self.toy.die {
            // Dropping our end wakes the thread that shuts the connection down.
            *self.connection.lock().unwrap() = None;
            return;
        }
        if self.toy.mute {
            return;
        }
        self.held.push((vring.clone(), head, chain, id));
        if self.held.len() == self.toy.hold {
            while let Some((vring, head, chain, id)) = self.held.pop() {
                let result = ExecuteResult { gpu_ns: (1000 + id).into() };
                let lie = if self.toy.lie { 1 << 20 } else { 0 };
                respond(&vring, head, &chain, &encode_response(Status::Ok, id, result.as_bytes()), lie);
            }
        }
    }

    fn new_id(&mut self) -> Vec<u8> {
        self.next_id += 1;
        self.next_id.to_le_bytes().to_vec()
    }

    fn answer(&mut self, request: Request<'_>, writable: usize) -> Result<Vec<u8>, Status> {
        let payload = request.payload;
        let object = || u64::from_le_bytes(payload[..8].try_into().unwrap());
        match request.opcode {
            Opcode::GetDeviceInfo => {
                let info = DeviceInfo {
                    class: DeviceClass::Other.code().into(),
                    capabilities: Capabilities::HOST_VISIBLE_MEMORY.bits().into(),
                    max_buffer_bytes: (1 << 30).into(),
                    ..Default::default()
                };
                Ok(info.as_bytes().to_vec())
            }
            Opcode::AllocateBuffer => {
                let request = AllocateBuffer::read_from_bytes(payload).unwrap();
                if request.bytes.get() > 1 << 30 {
                    return Err(Status::ResourceLimit);
                }
                let id = self.new_id();
                self.buffers.insert(self.next_id, vec![0; request.bytes.get() as usize]);
                Ok(id)
            }
            Opcode::WriteBuffer => {
                let (head, data) = Transfer::read_from_prefix(payload).unwrap();
                let at = head.offset.get() as usize;
                let buffer = self.buffers.get_mut(&head.buffer_id.get()).ok_or(Status::StaleObject)?;
                buffer.get_mut(at..at + data.len()).ok_or(Status::OutOfBounds)?.copy_from_slice(data);
                Ok(Vec::new())
            }
            Opcode::ReadBuffer => {
                let head = Transfer::read_from_bytes(payload).unwrap();
                let at = head.offset.get() as usize;
                let buffer = self.buffers.get(&head.buffer_id.get()).ok_or(Status::StaleObject)?;
                let data = buffer.get(at..at + head.bytes.get() as usize);
                Ok(data.ok_or(Status::OutOfBounds)?.to_vec())
            }
            Opcode::CopyBuffer => {
                let head = CopyBuffer::read_from_bytes(payload).unwrap();
                let from = self.buffers[&head.source_id.get()].clone();
                let to = self.buffers.get_mut(&head.destination_id.get()).unwrap();
                let (at, len) = (head.source_offset.get() as usize, head.bytes.get() as usize);
                let target = head.destination_offset.get() as usize;
                to[target..target + len].copy_from_slice(&from[at..at + len]);
                Ok(Vec::new())
            }
            Opcode::LoadProgram => self.load(&payload[LoadProgram::BYTES..]),
            Opcode::LoadProgramFromBuffer => {
                let head = LoadProgramFromBuffer::read_from_bytes(payload).unwrap();
                let len = head.program.payload_bytes.get() as usize;
                let artifact = self.buffers[&head.buffer_id.get()][..len].to_vec();
                self.load(&artifact)
            }
            Opcode::Query => {
                let head = Query::read_from_bytes(payload).unwrap();
                let text = match QueryTopic::from_code(head.topic.get()) {
                    Some(QueryTopic::DeviceName) => "Toy ".repeat(40_000),
                    Some(QueryTopic::LastLoadError) => {
                        r#"{"status":3,"class":2,"message":"operator 0 (ADD): made up"}"#.into()
                    }
                    Some(QueryTopic::ProgramSlots) => {
                        r#"[{"name":"x","dtype":"FP32","shape":[2,3],"bytes":24,"output":true}]"#.into()
                    }
                    _ => return Err(Status::Unsupported),
                };
                let total = text.len() as u64;
                let rest = &text.as_bytes()[head.offset.get() as usize..];
                let fits = rest.len().min(writable - 24);
                Ok([&total.to_le_bytes(), &rest[..fits]].concat())
            }
            Opcode::Submit => {
                let id = self.new_id();
                self.events.insert(self.next_id, 3);
                Ok(id)
            }
            Opcode::PollEvent => {
                let left = self.events.get_mut(&object()).ok_or(Status::StaleObject)?;
                *left = left.saturating_sub(1);
                let phase = if *left == 0 { EventPhase::Complete } else { EventPhase::Pending };
                let state = EventState { state: phase.code().into(), ..Default::default() };
                Ok(state.as_bytes().to_vec())
            }
            Opcode::DestroyEvent => {
                self.events.remove(&object()).map(|_| Vec::new()).ok_or(Status::StaleObject)
            }
            Opcode::FreeBuffer => {
                self.buffers.remove(&object()).map(|_| Vec::new()).ok_or(Status::StaleObject)
            }
            Opcode::CreateContext | Opcode::CreateQueue => Ok(self.new_id()),
            _ => Ok(Vec::new()),
        }
    }

    fn load(&mut self, artifact: &[u8]) -> Result<Vec<u8>, Status> {
        if artifact.starts_with(b"bad") {
            return Err(Status::InvalidArgument);
        }
        Ok(self.new_id())
    }
}

fn respond(vring: &VringRwLock, head: u16, chain: &Chain, mut reply: &[u8], lie: u32) {
    let len = reply.len() as u32;
    for descriptor in chain.clone().writable() {
        let fits = reply.len().min(descriptor.len() as usize);
        chain.memory().write_slice(&reply[..fits], descriptor.addr()).unwrap();
        reply = &reply[fits..];
    }
    vring.add_used(head, len + lie).unwrap();
    if vring.needs_notification().unwrap() {
        vring.signal_used_queue().unwrap();
    }
}

impl VhostUserBackendMut for Backend {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        4
    }

    fn max_queue_size(&self) -> usize {
        1024
    }

    fn features(&self) -> u64 {
        self.toy.features | 1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&mut self, features: u64) {
        self.seen.lock().unwrap().acked = features;
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
    }

    fn set_event_idx(&mut self, enabled: bool) {
        self.event_idx = enabled;
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let mut bytes = self.toy.config.as_bytes().to_vec();
        bytes.resize((offset + size) as usize, 0);
        bytes[offset as usize..].to_vec()
    }

    fn update_memory(&mut self, memory: Memory) -> io::Result<()> {
        self.memory = Some(memory);
        Ok(())
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK).ok()
    }

    fn handle_event(&mut self, event: u16, _: EventSet, vrings: &[VringRwLock], _: usize) -> io::Result<()> {
        let vring = &vrings[usize::from(event)];
        if !self.event_idx {
            self.process(vring);
            return Ok(());
        }
        loop {
            vring.disable_notification().unwrap();
            self.process(vring);
            if !vring.enable_notification().unwrap() {
                return Ok(());
            }
        }
    }
}
