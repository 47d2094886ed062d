//! What lowering needs to know of a device.

use crate::Tuning;

/// Kind of device, as far as it changes a choice of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A CPU implementation such as lavapipe.
    Cpu,
    /// Shares memory with the host.
    Integrated,
    /// Has its own memory.
    Discrete,
}

/// One advertised cooperative-matrix shape at subgroup scope (VK_KHR_cooperative_matrix).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixTuple {
    /// Rows of A and of the result.
    pub m: u32,
    /// Columns of B and of the result.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// `VkComponentTypeKHR` of A and B.
    pub operand: i32,
    /// `VkComponentTypeKHR` of the accumulator and the result.
    pub result: i32,
}

impl MatrixTuple {
    /// `VK_COMPONENT_TYPE_FLOAT16_KHR`.
    pub const FLOAT16: i32 = 0;
    /// `VK_COMPONENT_TYPE_FLOAT32_KHR`.
    pub const FLOAT32: i32 = 1;
    /// `VK_COMPONENT_TYPE_SINT8_KHR`.
    pub const SINT8: i32 = 3;
    /// `VK_COMPONENT_TYPE_SINT32_KHR`.
    pub const SINT32: i32 = 5;
    /// `VK_COMPONENT_TYPE_BFLOAT16_KHR`.
    pub const BFLOAT16: i32 = 1_000_141_000;
}

/// How a workgroup divides its tile of a product on matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixGeometry {
    /// Subgroups along m and along n.
    pub subgroups: [u32; 2],
    /// Rows and columns that a subgroup makes.
    pub part: [u32; 2],
    /// Depth of a slab of k that is staged, or held in registers, at once.
    pub slab: u32,
    /// Rows of tiles that workgroups go through before they go on along n.
    pub band: u32,
    /// Operands are packed beforehand, and go straight into registers (`gemm_packed.comp`).
    pub packed: bool,
}

/// Limits and features of a Vulkan 1.3 device. Every device that `accel-vulkan` opens has buffer device
/// addresses, 8- and 16-bit storage, `shaderInt8`, `shaderInt16`, `shaderInt64`, `shaderFloat16`, scalar
/// block layout, timeline semaphores, synchronization2 and subgroup arithmetic; kernels may rely on those.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCaps {
    /// Name for messages.
    pub name: String,
    /// Kind.
    pub kind: DeviceKind,
    /// Lanes of a subgroup.
    pub subgroup_size: u32,
    /// Most invocations of a workgroup.
    pub max_workgroup_invocations: u32,
    /// Most workgroups per dimension.
    pub max_workgroup_count: [u32; 3],
    /// Bytes of shared memory of a workgroup.
    pub shared_memory_bytes: u32,
    /// Bytes of push constants.
    pub push_constant_bytes: u32,
    /// Largest single allocation in bytes.
    pub max_allocation_bytes: u64,
    /// `shaderFloat64`.
    pub float64: bool,
    /// FP16 instructions can round to nearest even and keep subnormals (`shaderRoundingModeRTEFloat16`,
    /// `shaderDenormPreserveFloat16`).
    pub exact_half: bool,
    /// Cooperative-matrix shapes that passed the start-up self-test.
    pub matrices: Vec<MatrixTuple>,
    /// A matrix's components lie in the same lanes in every kernel, so that one can pack what another takes up: found by the
    /// start-up self-test.
    pub packs_matrices: bool,
    /// Overrides the choice among geometries for matrix units, and uses those for every product that they can
    /// run: for experiments and tests.
    pub matrix_geometry: Option<MatrixGeometry>,
    /// Figures that take the place of the tables' in experiments.
    pub tuning: Tuning,
}

impl DeviceCaps {
    /// Limits that every Vulkan 1.3 desktop device meets: for `accelctl check` without a device, and tests.
    pub fn baseline() -> Self {
        Self {
            name: "baseline Vulkan 1.3".into(),
            kind: DeviceKind::Cpu,
            subgroup_size: 8,
            max_workgroup_invocations: 256,
            max_workgroup_count: [65_535; 3],
            shared_memory_bytes: 32 << 10,
            push_constant_bytes: 128,
            max_allocation_bytes: 1 << 30,
            float64: false,
            exact_half: false,
            matrices: Vec::new(),
            packs_matrices: false,
            matrix_geometry: None,
            tuning: Tuning::default(),
        }
    }

    /// Invocations of a workgroup of kernels that stream through memory. GPUs want few workgroups to start; CPU
    /// implementations run each on one thread.
    pub fn stream_lanes(&self) -> u32 {
        if self.kind == DeviceKind::Cpu { 64 } else { 256 }
    }
}
