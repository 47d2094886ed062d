//! Lowers a TOSA graph to a plan of Vulkan kernels. No Vulkan calls.
#![forbid(unsafe_code)]

mod caps;
mod module;
mod plan;

pub use caps::{DeviceCaps, DeviceKind, MatrixTuple};
pub use module::Module;
pub use plan::{BINDING_ALIGNMENT, Dispatch, PipelineSpec, Place, Plan, REGION_ALIGNMENT, Region, Slot};

/// Lowers `graph` for a device.
///
/// # Errors
/// A refusal of kind [`accel_tosa::Rule::Unsupported`] that names the operator when no kernel covers it.
pub fn lower(graph: &accel_tosa::Graph, caps: &DeviceCaps) -> Result<Plan, accel_tosa::Refusal> {
    let _ = (graph, caps);
    Err(accel_tosa::Refusal { at: None, rule: accel_tosa::Rule::Unsupported, message: "lowering is being built".into() })
}
