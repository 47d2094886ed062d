//! An unmodified client of the published protocol (`virtio-accel-guest`) drives our device over the
//! vhost-user socket.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a broken exchange is a failure")]

use std::convert::Infallible;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use accel_guest::{FrontendTransport, Options, Token, Transport};
use vhost_device_accel_workspace::{Daemon, Result as TestResult, Tensor, compare, data_entries};
use virtio_accel_guest::{
    AccessMode, Binding, Buffer, BufferDesc, BufferRange, BufferUsage, Completion, Context, EventState,
    GuestClient, GuestConfig, MemoryDomain, Operation, Program, ProgramDesc, RequestPoll, StartResult,
    SubmissionOutcome,
};
use virtio_accel_proto::WireConfig;
use virtio_accel_transport::{
    ChainId, DriverChainBuffer, DriverQueue, NotificationHint, NotificationRecheck, PublishError,
    PublishErrorKind, PublishedChain, QueueConfigError, QueueEpoch, QueueError, QueuePort, QueueSize,
    QueueState, ReclaimedChain, UsedChain, UsedLength,
};
use zerocopy::FromBytes;

/// A request and room for its response.
#[derive(Debug)]
struct Chain {
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Chain {
    fn new(readable: usize, writable: usize) -> Self {
        Self { request: vec![0; readable], response: vec![0; writable] }
    }
}

impl DriverChainBuffer for Chain {
    type Error = Infallible;

    fn device_readable_len(&self) -> u64 {
        self.request.len() as u64
    }

    fn device_writable_len(&self) -> u64 {
        self.response.len() as u64
    }

    fn write_device_readable(&mut self, offset: u64, source: &[u8]) -> Result<(), Infallible> {
        self.request[offset as usize..][..source.len()].copy_from_slice(source);
        Ok(())
    }

    fn read_device_writable(&self, offset: u64, target: &mut [u8]) -> Result<(), Infallible> {
        target.copy_from_slice(&self.response[offset as usize..][..target.len()]);
        Ok(())
    }
}

/// Their driver's queue over our front-end transport.
struct Queue {
    transport: FrontendTransport,
    in_flight: Vec<(ChainId, Token, Chain)>,
    next: u64,
}

const QUEUE_SIZE: u16 = 256;

impl QueuePort for Queue {
    fn state(&self) -> QueueState {
        let size = QueueSize::new(QUEUE_SIZE).unwrap();
        QueueState::new(size, Some(size), true, QueueEpoch::INITIAL).unwrap()
    }
}

impl DriverQueue for Queue {
    type Chain = Chain;
    type Reclaimed = Vec<ReclaimedChain<Chain>>;
    type Error = accel_guest::Error;

    fn publish(&mut self, chain: Chain) -> Result<PublishedChain, PublishError<Chain, Self::Error>> {
        match self.transport.submit(0, &[&chain.request], chain.response.len()) {
            Ok(token) => {
                self.next += 1;
                let id = ChainId::new(QueueEpoch::INITIAL, self.next);
                self.in_flight.push((id, token, chain));
                Ok(PublishedChain::new(id, NotificationHint::Notify))
            }
            Err(error) => Err(PublishError::new(chain, PublishErrorKind::Transport(error))),
        }
    }

    fn pop_used(&mut self) -> Result<Option<UsedChain<Chain>>, QueueError<Self::Error>> {
        for index in 0..self.in_flight.len() {
            match self.transport.wait(self.in_flight[index].1, Some(Duration::from_millis(1))) {
                Ok(written) => {
                    let (id, _, mut chain) = self.in_flight.swap_remove(index);
                    chain.response[..written.len()].copy_from_slice(&written);
                    return Ok(Some(UsedChain::new(id, UsedLength::new(written.len() as u32), chain)));
                }
                Err(accel_guest::Error::TimedOut(_)) => {}
                Err(error) => return Err(QueueError::Transport(error)),
            }
        }
        Ok(None)
    }

    fn disable_used_notifications(&mut self) -> Result<(), QueueError<Self::Error>> {
        Ok(())
    }

    fn enable_used_notifications(&mut self) -> Result<NotificationRecheck, QueueError<Self::Error>> {
        Ok(NotificationRecheck::WorkPending)
    }

    fn reset(&mut self, _: QueueEpoch) -> Result<Self::Reclaimed, QueueError<Self::Error>> {
        Err(QueueError::InvalidConfiguration(QueueConfigError::NonIncreasingEpoch))
    }
}

type Client = GuestClient<Queue>;

fn connect(daemon: &Daemon) -> Client {
    let transport = FrontendTransport::connect(daemon.socket(), Options::default()).unwrap();
    let (wire, _) = WireConfig::read_from_prefix(transport.config()).unwrap();
    let queue = Queue { transport, in_flight: Vec::new(), next: 0 };
    GuestClient::new(queue, GuestConfig::new(wire, 0, 16).unwrap()).unwrap()
}

/// Runs one operation to its end and expects success.
fn finish<O: Operation>(client: &mut Client, started: StartResult<Queue, O>) -> (O::Output, Chain) {
    let mut pending = started.map_err(|e| format!("{:?}", e.kind())).unwrap();
    loop {
        pending = match client.poll(pending) {
            RequestPoll::Pending(pending) => pending,
            RequestPoll::Ready(Completion::Success { output, chain }) => return (output, chain),
            RequestPoll::Ready(Completion::DeviceError { status, .. }) => panic!("status {status:?}"),
            _ => panic!("the exchange broke"),
        };
    }
}

fn allocate(client: &mut Client, context: &Context, bytes: u64, usage: BufferUsage) -> Buffer {
    let desc = BufferDesc::new(bytes, 64, MemoryDomain::Shared, usage).unwrap();
    let started = client.allocate_buffer(Chain::new(16 + 40, 24), context, desc);
    finish(client, started).0
}

/// A model of the repository's test data, loaded by their client.
struct Loaded {
    program: Program,
    input: Buffer,
    output: Buffer,
    reference: Tensor,
}

fn load(client: &mut Client, context: &Context, name: &str) -> TestResult<Loaded> {
    let folders = data_entries("models")?;
    let folder = folders.iter().find(|f| f.ends_with(name)).ok_or_else(|| format!("no model {name}"))?;
    let artifact = std::fs::read(folder.join("model.tosa"))?;
    let input_data = Tensor::load(&folder.join("in0.npy"))?;
    let reference = Tensor::load(&folder.join("ref0.npy"))?;
    let mut target = [0_u32; 12];
    let profile = if reference.element.is_float() { 2 } else { 1 };
    target[..7].copy_from_slice(&[0x544f_5341, 1, 1, 0, 0, profile, 1]);
    let resident = NonZeroU64::new(u64::MAX).unwrap();
    let desc = ProgramDesc::new(NonZeroU32::new(0x544f_5341).unwrap(), target, resident);
    let started = client.load_program(Chain::new(16 + 80 + artifact.len(), 24), context, desc, &artifact[..]);
    let program = finish(client, started).0;
    let usage = BufferUsage::PROGRAM_INPUT | BufferUsage::TRANSFER_DESTINATION;
    let input = allocate(client, context, input_data.bytes.len() as u64, usage);
    let usage = BufferUsage::PROGRAM_OUTPUT | BufferUsage::TRANSFER_SOURCE;
    let output = allocate(client, context, reference.bytes.len() as u64, usage);
    let chain = Chain::new(16 + 24 + input_data.bytes.len(), 16);
    let started = client.write_buffer(chain, &input, 0, &input_data.bytes[..]);
    finish(client, started);
    Ok(Loaded { program, input, output, reference })
}

#[test]
fn the_published_client_discovers_loads_two_programs_and_reads_results() -> TestResult<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let mut client = connect(&daemon);
    let started = client.get_device_info(Chain::new(16, 92));
    let info = finish(&mut client, started).0;
    assert!(info.supports_event_cancellation());

    let started = client.create_context(Chain::new(16 + 8, 24));
    let context = finish(&mut client, started).0;
    let loaded = [load(&mut client, &context, "et_mlp_fp")?, load(&mut client, &context, "et_mlp_int8")?];
    let started = client.create_execution_queue(Chain::new(16 + 16, 24), &context);
    let queue = finish(&mut client, started).0;

    // Both programs are in flight before either is waited for.
    let mut events = Vec::new();
    for model in &loaded {
        let binding = |buffer, bytes, slot, access| Binding {
            buffer,
            range: BufferRange::new(0, bytes).unwrap(),
            slot,
            access,
        };
        let bindings = [
            binding(&model.input, model.input.desc().bytes(), 0, AccessMode::Read),
            binding(&model.output, model.output.desc().bytes(), 1, AccessMode::Write),
        ];
        let chain = Chain::new(16 + 32 + 2 * 32, 24);
        let started = client.submit(chain, &queue, &model.program, &bindings, 0);
        match finish(&mut client, started).0 {
            SubmissionOutcome::Accepted(event) => events.push(event),
            SubmissionOutcome::Indeterminate { status, .. } => panic!("indeterminate: {status:?}"),
        }
    }
    for event in events {
        loop {
            let started = client.poll_event(Chain::new(16 + 8, 24), &event);
            match finish(&mut client, started).0 {
                EventState::Pending => {}
                state => break assert_eq!(state, EventState::Complete),
            }
        }
        let started = client.destroy_event(Chain::new(16 + 8, 16), event);
        finish(&mut client, started);
    }
    for model in loaded {
        let bytes = model.reference.bytes.len();
        let range = BufferRange::new(0, bytes as u64).unwrap();
        let started = client.read_buffer(Chain::new(16 + 24, 16 + bytes), &model.output, range);
        let (output, chain) = finish(&mut client, started);
        assert_eq!(output.bytes, bytes as u64);
        let (element, shape) = (model.reference.element, model.reference.shape.clone());
        compare(&Tensor { element, shape, bytes: chain.response[16..].to_vec() }, &model.reference)?;
        let started = client.free_buffer(Chain::new(16 + 8, 16), model.input);
        finish(&mut client, started);
        let started = client.free_buffer(Chain::new(16 + 8, 16), model.output);
        finish(&mut client, started);
        let started = client.unload_program(Chain::new(16 + 8, 16), model.program);
        finish(&mut client, started);
    }
    let started = client.destroy_execution_queue(Chain::new(16 + 8, 16), queue);
    finish(&mut client, started);
    let started = client.destroy_context(Chain::new(16 + 8, 16), context);
    finish(&mut client, started);
    Ok(())
}
