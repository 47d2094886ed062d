//! What the device model needs of whatever executes programs.

use std::time::Duration;

use accel_proto::{MemoryDomain, Status, Usage};

/// Identity and limits of a backend, constant for its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Stable id of the physical device.
    pub uuid: [u8; 16],
    /// Name for people.
    pub name: String,
    /// PCI-style vendor id.
    pub vendor_id: u32,
    /// Device id.
    pub device_id: u32,
    /// Device class of the wire format: 0 other, 1 NPU, 2 GPU, 3 DSP.
    pub class: u16,
    /// Placement domains that allocation serves.
    pub domains: Vec<MemoryDomain>,
    /// Largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// Answer to QUERY of operators: the generated operator x type table, as UTF-8 JSON.
    pub operators_json: String,
}

/// A program as it came over the wire.
#[derive(Clone, Copy)]
pub struct ProgramSource<'a> {
    /// Artifact format id.
    pub format: u32,
    /// Target words.
    pub target: [u32; 12],
    /// Artifact bytes.
    pub artifact: &'a [u8],
    /// Charges the guest for all that the program will hold, in bytes; to be called before that is allocated. `false`
    /// when it is more than the guest may have: the load then fails for want of resources.
    pub reserve: &'a dyn Fn(u64) -> bool,
}

/// Why a load was refused: the status for a 1.0 guest and the sentence for QUERY(last error) and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Wire status.
    pub status: Status,
    /// Refusal class: 0 none, 1 malformed, 2 TOSA ERROR_IF, 3 level, 4 unsupported, 5 resources.
    pub class: u32,
    /// What was refused and why.
    pub message: String,
}

/// How a slot of a loaded program must be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Tensor name.
    pub name: String,
    /// TOSA type name.
    pub dtype: String,
    /// Dimensions.
    pub shape: Vec<u32>,
    /// Exact bytes.
    pub bytes: u64,
    /// Written by the program.
    pub output: bool,
}

/// A buffer bound to a slot; the device model has checked range, usage and slot uniqueness.
#[derive(Debug)]
pub struct Bound<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Slot.
    pub slot: u32,
    /// The program may read it.
    pub read: bool,
    /// The program may write it.
    pub write: bool,
}

/// How a submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// `Status::Ok`, or why it failed; `Cancelled` is told by [`Outcome`].
    pub outcome: Outcome,
    /// Device time in nanoseconds, 0 where it is unknown.
    pub gpu_ns: u64,
}

/// Terminal state of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All results are visible to `read`.
    Complete,
    /// It failed with this status.
    Failed(Status),
    /// Cancellation won.
    Cancelled,
}

/// Called exactly once, from any thread (also from within `submit` or `cancel`), with no lock of the backend held.
pub type OnFinish = Box<dyn FnOnce(Finished) + Send>;

/// Executes programs. All methods take `&self` and may be called from several threads at once; handles
/// release what they hold when dropped, and a submission in flight keeps its own references.
pub trait Backend: Send + Sync + 'static {
    /// A zeroed allocation.
    type Buffer: Send + Sync + 'static;
    /// A loaded program.
    type Program: Send + Sync + 'static;
    /// An execution queue: its submissions run in order.
    type Queue: Send + Sync + 'static;
    /// A submission, for cancellation.
    type Submission: Send + Sync + 'static;

    /// Identity and limits.
    fn info(&self) -> &BackendInfo;

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, UNSUPPORTED domain, RESOURCE_LIMIT.
    fn allocate(
        &self,
        bytes: u64,
        alignment: u64,
        domain: MemoryDomain,
        usage: Usage,
    ) -> Result<Self::Buffer, Status>;

    /// Copies host bytes into a buffer; in range.
    ///
    /// # Errors
    /// DEVICE_LOST, OUT_OF_MEMORY.
    fn write(&self, buffer: &Self::Buffer, offset: u64, data: &[u8]) -> Result<(), Status>;

    /// Copies a buffer's bytes out; in range.
    ///
    /// # Errors
    /// DEVICE_LOST, OUT_OF_MEMORY.
    fn read(&self, buffer: &Self::Buffer, offset: u64, data: &mut [u8]) -> Result<(), Status>;

    /// Checks and compiles a program. May take seconds; the device model holds no lock meanwhile.
    ///
    /// # Errors
    /// A [`LoadError`] with the reason.
    fn load(&self, source: ProgramSource<'_>) -> Result<Self::Program, LoadError>;

    /// Slots of a program in slot order.
    fn slots(&self, program: &Self::Program) -> Vec<SlotInfo>;

    /// Makes an execution queue.
    ///
    /// # Errors
    /// RESOURCE_LIMIT, DEVICE_LOST.
    fn create_queue(&self) -> Result<Self::Queue, Status>;

    /// Admits a submission. On `Err` nothing is retained and `on_finish` is dropped uncalled.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where bindings do not fit the program's slots, DEVICE_LOST, RESOURCE_LIMIT.
    fn submit(
        &self,
        queue: &Self::Queue,
        program: &Self::Program,
        bindings: &[Bound<'_, Self::Buffer>],
        timeout: Option<Duration>,
        on_finish: OnFinish,
    ) -> Result<Self::Submission, Status>;

    /// Tries to cancel; `true` when cancellation won (`on_finish` is then called with `Cancelled`).
    fn cancel(&self, submission: &Self::Submission) -> bool;

    /// Whether the device was lost since the last `recover`.
    fn lost(&self) -> bool;

    /// Makes a lost device anew; called by a reset of the guest's device, after its objects were dropped.
    /// Handles of the lost device stay valid to drop and fail with DEVICE_LOST otherwise. The default is for
    /// backends that cannot be lost or never come back.
    ///
    /// # Errors
    /// DEVICE_LOST while it cannot be made anew: the guest's device then goes on needing a reset.
    fn recover(&self) -> Result<(), Status> {
        if self.lost() { Err(Status::DeviceLost) } else { Ok(()) }
    }
}
