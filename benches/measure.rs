//! One case on the device: memory, rotation, time.

use std::sync::Arc;

use accel_kernels::{DeviceCaps, DeviceKind, Plan, Slot};
use accel_tosa::DType;

use crate::Result;
use crate::case::{Case, Unit};
use crate::ceiling::Ceilings;
use crate::device::{Binding, Device, Timing};
use crate::graph::pattern;

/// Bytes that the runs of a case walk through, so that no cache keeps a tensor until it is used again.
const ROTATION: u64 = 256 << 20;
/// Longest time of one run that the ceiling may promise.
const LONGEST: f64 = 1.0;

/// How a case went.
#[derive(Clone, Debug)]
pub enum Outcome {
    Measured(Measured),
    /// Why not: memory, or a time beyond all patience.
    Skipped(String),
    Failed(String),
}

/// A case's figures.
#[derive(Clone, Debug)]
pub struct Measured {
    pub timing: Timing,
    pub unit: Unit,
    /// In the unit.
    pub value: f64,
    /// The ceiling that bounds it, in the unit, and its name.
    pub ceiling: Option<(f64, &'static str)>,
    /// The speed as a part of that of the MATMUL with the same m, n and k.
    pub to_product: Option<f64>,
    /// Kernels, for the reader of a bad figure.
    pub kernels: String,
}

impl From<Result<Self>> for Outcome {
    fn from(result: Result<Self>) -> Self {
        result.unwrap_or_else(|error| Self::Failed(error.to_string()))
    }
}

/// Runs a case as it is lowered for `caps`, and the product that it is compared with.
pub fn case(device: &Device, caps: &DeviceCaps, ceilings: &Ceilings, case: &Case) -> Result<Outcome> {
    let outcome = alone(device, caps, ceilings, case)?;
    let (Outcome::Measured(measured), Some(product)) = (&outcome, &case.product) else { return Ok(outcome) };
    let to_product = match alone(device, caps, ceilings, product)? {
        Outcome::Measured(product) => Some(product.timing.gpu / measured.timing.gpu),
        Outcome::Skipped(_) | Outcome::Failed(_) => None,
    };
    Ok(Outcome::Measured(Measured { to_product, ..measured.clone() }))
}

fn alone(device: &Device, caps: &DeviceCaps, ceilings: &Ceilings, case: &Case) -> Result<Outcome> {
    let graph = accel_tosa::read((case.graph)().finish())?;
    let plan = accel_kernels::lower(&graph, caps)?;
    let bytes = |slots: &[Slot]| slots.iter().map(|slot| slot.bytes).sum::<u64>();
    let (read, written) = (bytes(&plan.inputs) + plan.constants.len() as u64, bytes(&plan.outputs));
    let (least, bound) = ceilings.least(read, written, case.work);
    if least > LONGEST {
        return Ok(Outcome::Skipped(format!("by the {bound} ceiling a run takes {least:.0} s")));
    }
    let rotation = Rotation::of(&plan);
    if let Some(free) = free_memory(device) {
        let needed = rotation.bytes() + plan.arena_bytes + plan.constants.len() as u64;
        if needed > free / 2 {
            return Ok(Outcome::Skipped(format!(
                "{needed} bytes are needed and {free} are free, of which half is taken"
            )));
        }
    }
    let kernels = kernels(&plan);
    let program = Arc::new(device.engine.load(plan)?);
    let pools = match rotation.pools(device) {
        Ok(pools) => pools,
        Err(error) => return Ok(Outcome::Skipped(error.to_string())),
    };
    let inputs = program.inputs().len();
    let timing = device.time(|serial| {
        let bindings = rotation.bindings(&pools, serial);
        let (inputs, outputs) = bindings.split_at(inputs);
        device.once(&program, inputs, outputs)
    })?;
    let (amount, unit) = match (case.unit, case.work) {
        (Unit::Operations, Some((operations, _))) => (operations as f64 / 1e12, Unit::Operations),
        _ => ((read + written) as f64 / 1e9, Unit::Bytes),
    };
    Ok(Outcome::Measured(Measured {
        value: amount / timing.gpu,
        ceiling: Some((amount / least, bound)),
        timing,
        unit,
        to_product: None,
        kernels,
    }))
}

/// Names of a plan's kernels in order, each once.
fn kernels(plan: &Plan) -> String {
    let mut names: Vec<String> = Vec::new();
    for dispatch in &plan.dispatches {
        let name = plan.pipelines[dispatch.pipeline as usize].module.name;
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    format!("{} launches: {}", plan.dispatches.len(), names.join(", "))
}

/// A pool a slot, each with room for as many tensors as make [`ROTATION`] in all.
struct Rotation {
    slots: Vec<(u64, DType)>,
    sets: u64,
}

impl Rotation {
    fn of(plan: &Plan) -> Self {
        let slot = |slot: &Slot| (slot.bytes.next_multiple_of(256), dtype(slot));
        let slots: Vec<_> = plan.inputs.iter().chain(&plan.outputs).map(slot).collect();
        let set: u64 = slots.iter().map(|slot| slot.0).sum();
        Self { slots, sets: ROTATION.div_ceil(set.max(1)) }
    }

    fn bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.0 * self.sets).sum()
    }

    fn pools(&self, device: &Device) -> Result<Vec<Arc<accel_vulkan::Buffer>>> {
        let pool = |&(bytes, dtype): &(u64, DType)| {
            let buffer = device.buffer(bytes * self.sets)?;
            device.fill(&buffer, pattern(dtype))?;
            Ok(buffer)
        };
        self.slots.iter().map(pool).collect()
    }

    fn bindings(&self, pools: &[Arc<accel_vulkan::Buffer>], serial: usize) -> Vec<Binding> {
        let set = serial as u64 % self.sets;
        self.slots.iter().zip(pools).map(|(slot, pool)| (Arc::clone(pool), slot.0 * set)).collect()
    }
}

fn dtype(slot: &Slot) -> DType {
    let all = (0..).map_while(|code| DType::from_code(code + 1));
    all.into_iter().find(|dtype| dtype.name() == slot.dtype).unwrap_or(DType::Int8)
}

/// Bytes free for a device that has the host's memory, which would end the process rather than refuse.
fn free_memory(device: &Device) -> Option<u64> {
    if device.engine.caps().kind == DeviceKind::Discrete {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
