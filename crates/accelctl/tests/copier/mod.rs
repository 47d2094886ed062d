//! The real device model on a real socket over a backend that reads TOSA but only copies: every output gets the
//! bytes of all inputs, exclusive-or'ed. That is what IDENTITY of one input is, and IDENTITY is all that it loads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use accel_device::backend::{BackendInfo, Bound, LoadError, OnFinish, ProgramSource, SlotInfo};
use accel_device::null::{self, NullBackend, NullBuffer, NullProgram};
use accel_device::{Backend, Device, DeviceConfig};
use accel_proto::{MemoryDomain, Status, Usage, tosa};
use accel_tosa::{Op, Rule, Tensor};
use vhost_device_accel::{Server, Stop};

struct Copier(Arc<NullBackend>);

struct Program {
    inner: NullProgram,
    slots: Vec<SlotInfo>,
}

fn refuse(class: u32, message: impl ToString) -> LoadError {
    LoadError { status: Status::Incompatible, class, message: message.to_string() }
}

impl Backend for Copier {
    type Buffer = NullBuffer;
    type Program = Program;
    type Queue = ();
    type Submission = u64;

    fn info(&self) -> &BackendInfo {
        self.0.info()
    }

    fn allocate(
        &self,
        bytes: u64,
        alignment: u64,
        domain: MemoryDomain,
        usage: Usage,
    ) -> Result<NullBuffer, Status> {
        self.0.allocate(bytes, alignment, domain, usage)
    }

    fn write(&self, buffer: &NullBuffer, offset: u64, data: &[u8]) -> Result<(), Status> {
        self.0.write(buffer, offset, data)
    }

    fn read(&self, buffer: &NullBuffer, offset: u64, data: &mut [u8]) -> Result<(), Status> {
        self.0.read(buffer, offset, data)
    }

    fn load(&self, source: ProgramSource<'_>) -> Result<Program, LoadError> {
        assert_eq!(source.format, tosa::FORMAT);
        let graph = accel_tosa::read(source.artifact.to_vec()).map_err(|refusal| {
            let class = match refusal.rule {
                Rule::Malformed => 1,
                Rule::ErrorIf => 2,
                Rule::Level => 3,
                Rule::Unsupported => 4,
            };
            refuse(class, refusal)
        })?;
        if graph.nodes.iter().any(|node| node.op != Op::Identity) {
            return Err(refuse(4, "only IDENTITY is copied"));
        }
        let slot = |tensor: &Tensor, output| SlotInfo {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name().into(),
            shape: tensor.shape.clone(),
            bytes: tensor.bytes(),
            output,
        };
        let inputs = graph.inputs.iter().map(|id| slot(graph.tensor(*id), false));
        let slots: Vec<_> =
            inputs.chain(graph.outputs.iter().map(|id| slot(graph.tensor(*id), true))).collect();
        let words: Vec<_> =
            slots.iter().map(|slot| slot.bytes as u32 | if slot.output { null::OUTPUT } else { 0 }).collect();
        let artifact = null::artifact(0, &words);
        let source = ProgramSource { format: null::FORMAT, artifact: &artifact, ..source };
        Ok(Program { inner: self.0.load(source)?, slots })
    }

    fn slots(&self, program: &Program) -> Vec<SlotInfo> {
        program.slots.clone()
    }

    fn create_queue(&self) -> Result<(), Status> {
        self.0.create_queue()
    }

    fn submit(
        &self,
        queue: &(),
        program: &Program,
        bindings: &[Bound<'_, NullBuffer>],
        timeout: Option<Duration>,
        on_finish: OnFinish,
    ) -> Result<u64, Status> {
        self.0.submit(queue, &program.inner, bindings, timeout, on_finish)
    }

    fn cancel(&self, submission: &u64) -> bool {
        self.0.cancel(submission)
    }

    fn lost(&self) -> bool {
        self.0.lost()
    }

    fn recover(&self) -> Result<(), Status> {
        self.0.recover()
    }
}

/// A served device; stopped when dropped.
pub struct Served {
    pub socket: PathBuf,
    stop: Arc<Stop>,
    thread: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

pub fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("accel.sock");
    let config = DeviceConfig { command_queues: 2, max_request_bytes: 1 << 20, ..DeviceConfig::default() };
    let device = Device::new(Arc::new(Copier(NullBackend::new())), config);
    let stop = Arc::new(Stop::new().unwrap());
    let mut server = Server::bind(&socket, device, 2, stop.clone()).unwrap();
    let thread = std::thread::spawn(move || server.serve(false).unwrap());
    Served { socket, stop, thread: Some(thread), _folder: folder }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}
