//! A model on the device with buffers for its slots.

use std::path::Path;
use std::time::{Duration, Instant};

use accel_guest::{Buffer, Context, Execution, Program, Queue, SlotBinding};
use accel_proto::{Access, Usage};

use crate::connection::Driver;
use crate::error::{Error, Result};
use crate::input::{Input, assign, bound};
use crate::npy::Npy;
use crate::progress::Upload;
use crate::tensor::Slot;

/// Everything that a run needs; dropped, it leaves nothing on the device.
pub struct Session<'a> {
    client: &'a Driver,
    context: Context,
    queue: Option<Queue>,
    program: Option<Program>,
    slots: Vec<Slot>,
    bindings: Vec<SlotBinding>,
    /// Time from the first byte sent until the program was ready.
    pub load_time: Duration,
}

impl<'a> Session<'a> {
    /// Loads a model, with the shapes of these arrays where it leaves its own open, and allocates its buffers.
    ///
    /// # Errors
    /// The model cannot be read, or the device refuses it.
    pub fn load(client: &'a Driver, model: &Path, inputs: &[Input]) -> Result<Self> {
        let artifact = read(model)?;
        if artifact.is_empty() {
            return Err(Error::Content { path: model.into(), what: "the file is empty".into() });
        }
        let artifact = bound(model, artifact, inputs)?;
        let context = client.create_context()?;
        let mut session = Self {
            client,
            context,
            queue: None,
            program: None,
            slots: Vec::new(),
            bindings: Vec::new(),
            load_time: Duration::ZERO,
        };
        let start = Instant::now();
        let mut upload = Upload::new("model", artifact.len() as u64);
        let program = client.load_tosa(context, &artifact, |arrived| upload.at(arrived))?;
        session.load_time = start.elapsed();
        session.program = Some(program);
        session.queue = Some(client.create_queue(context)?);
        let slots: std::result::Result<_, _> = client.slots(program)?.into_iter().map(Slot::new).collect();
        session.slots = slots.map_err(Error::Argument)?;
        for at in 0..session.slots.len() {
            let slot = &session.slots[at];
            let (usage, access) = match slot.output {
                true => (Usage::TRANSFER_SOURCE | Usage::PROGRAM_OUTPUT, Access::Write),
                false => (Usage::TRANSFER_DESTINATION | Usage::PROGRAM_INPUT, Access::Read),
            };
            let bytes = slot.bytes;
            let buffer = client.allocate_buffer(context, bytes, client.transfer_domain(), usage)?;
            session.bindings.push(SlotBinding { slot: at as u32, buffer, offset: 0, bytes, access });
        }
        Ok(session)
    }

    /// Input slots in order.
    pub fn inputs(&self) -> Vec<&Slot> {
        self.slots.iter().filter(|slot| !slot.output).collect()
    }

    /// Output slots in order.
    pub fn outputs(&self) -> Vec<&Slot> {
        self.slots.iter().filter(|slot| slot.output).collect()
    }

    /// Reads the arrays, checks them against the slots and uploads them.
    ///
    /// # Errors
    /// An array is missing, superfluous or does not fit.
    pub fn set_inputs(&self, inputs: &[Input]) -> Result<()> {
        let named: Vec<_> =
            self.inputs().into_iter().map(|slot| (slot.name.as_str(), slot.describe())).collect();
        // Inputs are the first slots.
        for (at, input) in assign(&named, inputs)?.into_iter().enumerate() {
            let array = Npy::read(&input.path)?;
            let content = |what| Error::Content { path: input.path.clone(), what };
            let bytes = self.slots[at].to_device(&array).map_err(content)?;
            let mut upload = Upload::new(&self.slots[at].name, bytes.len() as u64);
            self.client.write_buffer_with(self.buffer(at), 0, &bytes, |arrived| upload.at(arrived))?;
        }
        Ok(())
    }

    /// Runs the program to its end; the time is that of the whole round trip.
    ///
    /// # Errors
    /// The run failed.
    pub fn execute(&self) -> Result<(Duration, Execution)> {
        let (Some(queue), Some(program)) = (self.queue, self.program) else {
            return Err(Error::Argument("the model is not loaded".into()));
        };
        let start = Instant::now();
        let execution = self.client.execute(queue, program, &self.bindings)?;
        Ok((start.elapsed(), execution))
    }

    /// The outputs, in the model's order.
    ///
    /// # Errors
    /// The device failed.
    pub fn read_outputs(&self) -> Result<Vec<Npy>> {
        let outputs = self.slots.iter().enumerate().filter(|(_, slot)| slot.output);
        outputs
            .map(|(at, slot)| {
                let mut bytes = vec![0; slot.bytes as usize];
                self.client.read_buffer(self.buffer(at), 0, &mut bytes)?;
                Ok(slot.to_npy(&bytes))
            })
            .collect()
    }

    fn buffer(&self, at: usize) -> Buffer {
        self.bindings[at].buffer
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the daemon drops all of it with the connection.
        for binding in &self.bindings {
            let _ = self.client.free_buffer(binding.buffer);
        }
        if let Some(program) = self.program {
            let _ = self.client.unload_program(program);
        }
        if let Some(queue) = self.queue {
            let _ = self.client.destroy_queue(queue);
        }
        let _ = self.client.destroy_context(self.context);
    }
}

/// Reads a file whole.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::File { what: "read", path: path.into(), source })
}

/// Makes a folder where there is none.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::File {
        what: "make the folder",
        path: path.into(),
        source,
    })
}
