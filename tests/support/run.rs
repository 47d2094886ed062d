//! One run of one artifact, as a guest's program would do it.

use accel_guest::{Client, Context, Program, SlotBinding, SlotInfo, Transport};
use accel_proto::{Access, Usage};

use crate::{Element, Result, Tensor};

/// Loads an artifact, runs it once, gives its outputs and releases everything.
///
/// # Errors
/// The device's refusal or failure. After a failure what was made stays on the device until the client is dropped.
pub fn run<T: Transport>(client: &Client<T>, artifact: &[u8], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let context = client.create_context()?;
    let program = client.load_tosa(context, artifact, |_| ())?;
    let outputs = bind_and_run(client, context, program, inputs)?;
    client.unload_program(program)?;
    client.destroy_context(context)?;
    Ok(outputs)
}

fn bind_and_run<T: Transport>(
    client: &Client<T>,
    context: Context,
    program: Program,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let slots = client.slots(program)?;
    let mut inputs = inputs.iter();
    let mut bindings = Vec::new();
    for (number, slot) in (0..).zip(&slots) {
        let usage = if slot.output { Usage::PROGRAM_OUTPUT } else { Usage::PROGRAM_INPUT };
        let usage = usage | Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let buffer = client.allocate_buffer(context, slot.bytes, client.transfer_domain(), usage)?;
        if !slot.output {
            let input = inputs.next().ok_or_else(|| format!("the test has no input for {}", slot.name))?;
            client.write_buffer(buffer, 0, &input.bytes)?;
        }
        let access = if slot.output { Access::Write } else { Access::Read };
        bindings.push(SlotBinding { slot: number, buffer, offset: 0, bytes: slot.bytes, access });
    }
    if inputs.next().is_some() {
        return Err("the test has more inputs than the program".into());
    }
    let queue = client.create_queue(context)?;
    client.execute(queue, program, &bindings)?;
    let outputs = slots.iter().zip(&bindings).filter(|(slot, _)| slot.output);
    let outputs = outputs.map(|(slot, binding)| read(client, slot, binding)).collect();
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
