//! What a submission costs that does next to nothing: with Vulkan alone, through the engine, and through the daemon's socket.

mod raw;

use std::time::Instant;

use accel_guest::{Client, FrontendTransport, SlotBinding};
use accel_proto::{Access, Usage};
use accel_tosa::DType::Fp32;
use accel_tosa::writer::{Attribute, Writer};
use vhost_device_accel_workspace::Daemon;

use crate::Result;
use crate::case::Unit;
use crate::device::{Device, Timing};
use crate::graph;
use crate::measure::{Measured, Outcome};

pub const NAMES: [&str; 4] = ["floor/vulkan-spin", "floor/vulkan-wait", "floor/engine", "floor/socket"];

/// Measures one of [`NAMES`].
pub fn measure(name: &str, device: &Device) -> Result<Outcome> {
    let timing = match name {
        "floor/engine" => engine(device)?,
        "floor/socket" => match socket(device)? {
            Some(timing) => timing,
            None => return Ok(Outcome::Skipped("the daemon finds no device".into())),
        },
        _ => {
            let mut raw = raw::Raw::open(device.engine.uuid())?;
            let spin = name == "floor/vulkan-spin";
            device.time(|_| raw.run(spin))?
        }
    };
    Ok(Outcome::Measured(Measured {
        to_product: None,
        timing,
        unit: Unit::Time,
        value: timing.wall * 1e6,
        ceiling: None,
        kernels: String::new(),
    }))
}

/// Adds four numbers.
fn sum() -> Writer {
    let four: &[i32] = &[4];
    graph::operator("ADD", Attribute::None, &[(Fp32, four), (Fp32, four)], (Fp32, four), graph::nothing)
}

fn engine(device: &Device) -> Result<Timing> {
    let plan = accel_kernels::lower(&accel_tosa::read(sum().finish())?, device.engine.caps())?;
    let program = std::sync::Arc::new(device.engine.load(plan)?);
    let bind = || Ok::<_, Box<dyn std::error::Error + Send + Sync>>((device.buffer(16)?, 0));
    let (inputs, outputs) = ([bind()?, bind()?], [bind()?]);
    device.time(|_| device.once(&program, &inputs, &outputs))
}

fn socket(device: &Device) -> Result<Option<Timing>> {
    let Some(daemon) = Daemon::start()? else { return Ok(None) };
    let client: Client<FrontendTransport> = daemon.connect()?;
    let context = client.create_context()?;
    let program = client.load_tosa(context, &sum().finish(), |_| ())?;
    let queue = client.create_queue(context)?;
    let mut bindings = Vec::new();
    for slot in 0..3 {
        let usage = if slot == 2 { Usage::PROGRAM_OUTPUT } else { Usage::PROGRAM_INPUT };
        let usage = usage | Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let buffer = client.allocate_buffer(context, 16, client.transfer_domain(), usage)?;
        let access = if slot == 2 { Access::Write } else { Access::Read };
        bindings.push(SlotBinding { slot, buffer, offset: 0, bytes: 16, access });
    }
    let timing = device.time(|_| {
        let start = Instant::now();
        let execution = client.execute(queue, program, &bindings)?;
        Ok((execution.gpu_ns.unwrap_or(0) as f64 / 1e9, start.elapsed().as_secs_f64()))
    })?;
    Ok(Some(timing))
}
