//! What can go wrong between a plan and the device.

use ash::vk;

/// Failures of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Vulkan loader on this machine.
    #[error(
        "the Vulkan loader could not be opened; install libvulkan1 and a driver (mesa-vulkan-drivers where there is no GPU)"
    )]
    Loader(#[source] ash::LoadingError),
    /// The loader found no driver.
    #[error(
        "there is no Vulkan driver on this machine; install one (mesa-vulkan-drivers where there is no GPU)"
    )]
    NoDriver,
    /// A Vulkan call failed in a way that has no better name here.
    #[error("the Vulkan call {call} failed")]
    Vulkan {
        /// Name of the call.
        call: &'static str,
        /// What it answered.
        source: vk::Result,
    },
    /// The selector matches no usable device.
    #[error("no Vulkan device matches \"{wanted}\"; choose among: {found}")]
    NoDevice {
        /// The selector.
        wanted: String,
        /// What there is, with the reasons against each.
        found: String,
    },
    /// The device has no memory left.
    #[error("the device has no memory for {bytes} more bytes")]
    OutOfMemory {
        /// Bytes asked for; 0 where the driver ran out by itself.
        bytes: u64,
    },
    /// The configured limit would be exceeded.
    #[error(
        "{bytes} more bytes would exceed the memory limit of {limit} bytes, of which {used} are in use; free buffers or raise the limit"
    )]
    MemoryLimit {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes in use.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// One allocation is larger than the device allows.
    #[error(
        "a buffer of {bytes} bytes is outside 1..={limit} bytes, what one allocation of this device can have"
    )]
    Size {
        /// Bytes asked for.
        bytes: u64,
        /// Largest allocation.
        limit: u64,
    },
    /// A host access or a binding reaches past the end of a buffer.
    #[error("the range of {bytes} bytes from offset {offset} does not lie inside a buffer of {size} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// Size of the buffer.
        size: u64,
    },
    /// Buffers bound to a program do not fit its slots.
    #[error("{0}")]
    Binding(String),
    /// A plan contradicts itself or the device: a fault of the lowering.
    #[error("the plan cannot run on this device: {0}")]
    Plan(String),
    /// The device was lost or hung; open a new engine.
    #[error("the device was lost; open it anew")]
    DeviceLost,
    /// A thread could not be started.
    #[error("a thread of the engine could not be started")]
    Thread(#[source] std::io::Error),
    /// The allocator failed in a way that has no better name here.
    #[error("the memory allocator failed")]
    Allocator(#[source] gpu_allocator::AllocationError),
}

impl Error {
    /// For `map_err`: names the call, and tells loss and exhaustion from other failures.
    pub(crate) fn of(call: &'static str) -> impl Fn(vk::Result) -> Self {
        move |source| match source {
            vk::Result::ERROR_DEVICE_LOST => Self::DeviceLost,
            vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => {
                Self::OutOfMemory { bytes: 0 }
            }
            source => Self::Vulkan { call, source },
        }
    }
}
