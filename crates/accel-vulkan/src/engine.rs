//! An open device, ready for programs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use accel_kernels::{DeviceCaps, DeviceKind, MatrixTuple, Plan, Tuning};

use crate::Error;
use crate::completion::Threads;
use crate::core::Core;
use crate::instance::Instance;
use crate::matrices;
use crate::memory::{Buffer, MemoryKind};
use crate::pipeline::Pipelines;
use crate::program::Program;
use crate::queue::ExecQueue;
use crate::select::{Candidate, Selector, choose};
use crate::submit::Scheduler;

/// Setting this to `1` turns [`EngineOptions::validation`] on.
const VALIDATION_VARIABLE: &str = "ACCEL_VULKAN_VALIDATION";

/// How to open an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory of pipeline cache files; made if it is missing. `None`: nothing is kept.
    pub pipeline_cache_dir: Option<PathBuf>,
    /// Turn the Khronos validation layer on, where it is installed.
    pub validation: bool,
    /// Most bytes of all buffers, constants and arenas together.
    pub memory_limit_bytes: Option<u64>,
    /// Submissions on the device at once, 1..=64; the others wait on the host, where they can be cancelled.
    pub window: u32,
    /// How long one submission may run before the device counts as lost; `None`: 60 s on GPUs and 10 min on
    /// CPU implementations. A program that decides has this time for all its stretches together, and ends with
    /// [`Failure::DeadlineExpired`](crate::Failure::DeadlineExpired); the device is lost only where one alone takes it.
    pub watchdog: Option<Duration>,
    /// Treat device and shared memory as if the host could not map it, so that every transfer goes through
    /// the staging ring: for tests of that path on devices that map everything.
    pub staged: bool,
    /// Use matrix units (cooperative matrices) where the device has them and they pass a test when it is opened.
    pub matrices: bool,
    /// Figures that take the place of the kernels' tables in experiments.
    pub tuning: Tuning,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pipeline_cache_dir: None,
            validation: false,
            memory_limit_bytes: None,
            window: 4,
            watchdog: None,
            staged: false,
            matrices: true,
            tuning: Tuning::default(),
        }
    }
}

impl EngineOptions {
    pub(crate) fn watchdog_for(&self, kind: DeviceKind) -> Duration {
        self.watchdog.unwrap_or(match kind {
            DeviceKind::Cpu => Duration::from_secs(600),
            DeviceKind::Integrated | DeviceKind::Discrete => Duration::from_secs(60),
        })
    }
}

/// An open device. Dropping the engine cancels what waits and ends when the device has finished what it runs.
pub struct Engine {
    // First: ends before what it works on.
    _threads: Threads,
    scheduler: Arc<Scheduler>,
    pipelines: Arc<Pipelines>,
    core: Arc<Core>,
    caps: DeviceCaps,
    wrong_matrices: Vec<MatrixTuple>,
}

impl Engine {
    /// Opens the device that `selector` means.
    ///
    /// # Errors
    /// [`Error::Loader`] without a Vulkan loader, [`Error::NoDevice`] when no usable device matches, and
    /// whatever the driver answers.
    pub fn open(selector: &Selector, options: &EngineOptions) -> Result<Arc<Self>, Error> {
        let validation =
            options.validation || std::env::var_os(VALIDATION_VARIABLE).is_some_and(|v| v == "1");
        let instance = Instance::new(validation)?;
        let candidate = choose(Candidate::all(&instance)?, selector)?;
        let core = Arc::new(Core::open(instance, candidate, options)?);
        let pipelines = Arc::new(Pipelines::new(&core, options.pipeline_cache_dir.as_deref())?);
        let scheduler = Arc::new(Scheduler::new(&core, options.window.clamp(1, 64))?);
        let threads = Threads::start(&scheduler)?;
        let caps = core.properties.caps.clone();
        log::info!("opened the device {} ({:?}, {})", caps.name, caps.kind, core.properties.driver);
        let mut engine =
            Self { _threads: threads, scheduler, pipelines, core, caps, wrong_matrices: Vec::new() };
        if options.matrices {
            let tested = matrices::test(&engine, &engine.core.properties.matrices);
            log::info!("matrix units: {:?}", tested.right);
            engine.caps.packs_matrices = tested.packs && !tested.right.is_empty();
            engine.caps.matrices = tested.right;
            engine.wrong_matrices = tested.wrong;
        }
        engine.caps.tuning = options.tuning.clone();
        Ok(Arc::new(engine))
    }

    /// Limits and features.
    pub fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    /// Matrix shapes that the driver lists, that our kernels would use, and that failed the test when the device was
    /// opened.
    pub fn wrong_matrices(&self) -> &[MatrixTuple] {
        &self.wrong_matrices
    }

    /// Stable id of the physical device.
    pub fn uuid(&self) -> [u8; 16] {
        self.core.properties.uuid
    }

    /// PCI-style vendor id.
    pub fn vendor_id(&self) -> u32 {
        self.core.properties.vendor_id
    }

    /// Device id.
    pub fn device_id(&self) -> u32 {
        self.core.properties.device_id
    }

    /// Bytes of buffers, constants and arenas in use.
    pub fn memory_used(&self) -> u64 {
        self.core.accounting.used()
    }

    /// Whether the device was lost: then everything answers [`Error::DeviceLost`], and a new engine is due.
    pub fn lost(&self) -> bool {
        self.core.is_lost()
    }

    /// The first error messages of the validation layer; `None` when it is off or not installed.
    pub fn validation_errors(&self) -> Option<Vec<String>> {
        self.core.instance.validation_errors()
    }

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::MemoryLimit`], [`Error::OutOfMemory`], [`Error::DeviceLost`].
    pub fn allocate(&self, bytes: u64, kind: MemoryKind) -> Result<Buffer, Error> {
        Buffer::new(&self.core, bytes, kind)
    }

    /// Makes the pipelines of a plan, uploads its constants and allocates its arena.
    ///
    /// # Errors
    /// [`Error::Plan`] where the plan contradicts itself or the device, and those of
    /// [`allocate`](Self::allocate).
    pub fn load(&self, plan: Plan) -> Result<Program, Error> {
        if self.lost() {
            return Err(Error::DeviceLost);
        }
        Program::new(&self.core, &self.pipelines, plan)
    }

    /// Makes an execution queue.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn create_queue(&self) -> Result<ExecQueue, Error> {
        self.scheduler.queue()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("device", &self.caps().name)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
