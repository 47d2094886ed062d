//! One run of one artifact, as a guest's program would do it.

use accel_guest::{Client, Context, Program, SlotBinding, SlotInfo, Transport};
use accel_proto::{Access, Usage};

use crate::{Element, Result, Tensor};

/// Loads an artifact, runs it once, gives its outputs and releases everything.
///
/// # Errors
/// As for [`run_steps`].
pub fn run<T: Transport>(client: &Client<T>, artifact: &[u8], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(run_steps(client, artifact, &[inputs.to_vec()])?.remove(0))
}

/// Loads an artifact, runs it once for each step's inputs, gives each step's outputs and releases everything. What
/// variables hold goes from step to step.
///
/// # Errors
/// The device's refusal or failure. After a failure what was made stays on the device until the client is dropped.
pub fn run_steps<T: Transport>(
    client: &Client<T>,
    artifact: &[u8],
    steps: &[Vec<Tensor>],
) -> Result<Vec<Vec<Tensor>>> {
    let context = client.create_context()?;
    let program = client.load_tosa(context, artifact, |_| ())?;
    let outputs = bind_and_run(client, context, program, steps)?;
    client.unload_program(program)?;
    client.destroy_context(context)?;
    Ok(outputs)
}

fn bind_and_run<T: Transport>(
    client: &Client<T>,
    context: Context,
    program: Program,
    steps: &[Vec<Tensor>],
) -> Result<Vec<Vec<Tensor>>> {
    let slots = client.slots(program)?;
    let mut bindings = Vec::new();
    for (number, slot) in (0..).zip(&slots) {
        let usage = if slot.output { Usage::PROGRAM_OUTPUT } else { Usage::PROGRAM_INPUT };
        let usage = usage | Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let buffer = client.allocate_buffer(context, slot.bytes, client.transfer_domain(), usage)?;
        let access = if slot.output { Access::Write } else { Access::Read };
        bindings.push(SlotBinding { slot: number, buffer, offset: 0, bytes: slot.bytes, access });
    }
    let queue = client.create_queue(context)?;
    let bound = |output| slots.iter().zip(&bindings).filter(move |(slot, _)| slot.output == output);
    let step = |inputs: &Vec<Tensor>| {
        if inputs.len() != bound(false).count() {
            let text = format!("{} inputs for a program with {}", inputs.len(), bound(false).count());
            return Err(text.into());
        }
        for ((_, binding), input) in bound(false).zip(inputs) {
            client.write_buffer(binding.buffer, 0, &input.bytes)?;
        }
        client.execute(queue, program, &bindings)?;
        bound(true).map(|(slot, binding)| read(client, slot, binding)).collect()
    };
    let outputs = steps.iter().map(step).collect();
    client.destroy_queue(queue)?;
    for binding in bindings {
        client.free_buffer(binding.buffer)?;
    }
    outputs
}

fn read<T: Transport>(client: &Client<T>, slot: &SlotInfo, binding: &SlotBinding) -> Result<Tensor> {
    let mut bytes = vec![0; slot.bytes as usize];
    client.read_buffer(binding.buffer, 0, &mut bytes)?;
    let shape = slot.shape.iter().map(|&extent| extent as usize).collect();
    Ok(Tensor { element: Element::of_tosa(&slot.dtype)?, shape, bytes })
}
