//! The backend that runs TOSA programs on a Vulkan device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accel_device::backend::{
    Backend, BackendInfo, Bound, Finished, LoadError, OnFinish, Outcome, ProgramSource, SlotInfo,
};
use accel_kernels::{BINDING_ALIGNMENT, DeviceKind, Slot};
use accel_proto::tosa::{self, Target};
use accel_proto::{DeviceClass, MemoryDomain, Status, Usage};
use accel_tosa::Rule;
use accel_vulkan::{Engine, EngineOptions, Error, Failure, MemoryKind, Selector};

/// Classes of [`LoadError`].
mod class {
    pub const MALFORMED: u32 = 1;
    pub const ERROR_IF: u32 = 2;
    pub const LEVEL: u32 = 3;
    pub const UNSUPPORTED: u32 = 4;
    pub const RESOURCES: u32 = 5;
}

/// Runs TOSA programs on one Vulkan device. Handles remember the engine that made them, so that those of a
/// lost one answer DEVICE_LOST after [`recover`](Backend::recover) has made another.
pub struct VulkanBackend {
    selector: Selector,
    options: EngineOptions,
    info: BackendInfo,
    engine: Mutex<Arc<Engine>>,
}

/// A buffer and its engine.
pub struct VulkanBuffer {
    // Before the engine: handles go first.
    buffer: Arc<accel_vulkan::Buffer>,
    engine: Arc<Engine>,
}

/// A program and its engine.
pub struct VulkanProgram {
    program: Arc<accel_vulkan::Program>,
    engine: Arc<Engine>,
}

/// An execution queue and its engine.
pub struct VulkanQueue {
    queue: accel_vulkan::ExecQueue,
    engine: Arc<Engine>,
}

impl VulkanBackend {
    /// Opens the device that `selector` means.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub fn open(selector: Selector, options: EngineOptions) -> Result<Self, Error> {
        let engine = Engine::open(&selector, &options)?;
        let caps = engine.caps();
        let class = match caps.kind {
            DeviceKind::Cpu => DeviceClass::Other,
            DeviceKind::Integrated | DeviceKind::Discrete => DeviceClass::Gpu,
        };
        let info = BackendInfo {
            uuid: engine.uuid(),
            name: caps.name.clone(),
            vendor_id: engine.vendor_id(),
            device_id: engine.device_id(),
            class: class.code(),
            domains: vec![MemoryDomain::Host, MemoryDomain::Device, MemoryDomain::Shared],
            max_buffer_bytes: caps.max_allocation_bytes.min(options.memory_limit_bytes.unwrap_or(u64::MAX)),
            operators_json: accel_kernels::operators_json(),
        };
        Ok(Self { selector, options, info, engine: Mutex::new(engine) })
    }

    fn slot(&self) -> MutexGuard<'_, Arc<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.slot())
    }
}

/// The wire's word for a failure; what a guest cannot act on goes to the log.
fn status(error: &Error) -> Status {
    match error {
        Error::OutOfMemory { .. } | Error::Allocator(_) => Status::OutOfMemory,
        Error::MemoryLimit { .. } | Error::Size { .. } => Status::ResourceLimit,
        Error::OutOfRange { .. } | Error::Binding(_) => Status::InvalidArgument,
        Error::DeviceLost => Status::DeviceLost,
        Error::Loader(_)
        | Error::NoDriver
        | Error::Vulkan { .. }
        | Error::NoDevice { .. }
        | Error::Plan(_)
        | Error::Thread(_) => {
            log::error!("{error}");
            Status::InternalError
        }
    }
}

fn load_error(error: &Error) -> LoadError {
    LoadError { status: status(error), class: class::RESOURCES, message: error.to_string() }
}

/// An artifact that breaks TOSA's rules or limits is INCOMPATIBLE: the frame that carries it is well-formed, so
/// it is no INVALID_ARGUMENT. Valid TOSA that is not there yet is UNSUPPORTED.
fn refused(refusal: &accel_tosa::Refusal) -> LoadError {
    let (status, class) = match refusal.rule {
        Rule::Malformed => (Status::Incompatible, class::MALFORMED),
        Rule::ErrorIf => (Status::Incompatible, class::ERROR_IF),
        Rule::Level => (Status::Incompatible, class::LEVEL),
        Rule::Unsupported => (Status::Unsupported, class::UNSUPPORTED),
    };
    LoadError { status, class, message: refusal.to_string() }
}

fn slot_info(slot: &Slot, output: bool) -> SlotInfo {
    SlotInfo {
        name: slot.name.clone(),
        dtype: slot.dtype.to_owned(),
        shape: slot.shape.clone(),
        bytes: slot.bytes,
        output,
    }
}

impl Backend for VulkanBackend {
    type Buffer = VulkanBuffer;
    type Program = VulkanProgram;
    type Queue = VulkanQueue;
    type Submission = accel_vulkan::Ticket;

    fn info(&self) -> &BackendInfo {
        &self.info
    }

    // Addresses are never shown to a guest, so every alignment that it can ask for holds.
    fn allocate(
        &self,
        bytes: u64,
        _alignment: u64,
        domain: MemoryDomain,
        _usage: Usage,
    ) -> Result<VulkanBuffer, Status> {
        let kind = match domain {
            MemoryDomain::Host => MemoryKind::Host,
            MemoryDomain::Device => MemoryKind::Device,
            MemoryDomain::Shared => MemoryKind::Shared,
        };
        let engine = self.engine();
        let buffer = engine.allocate(bytes, kind).map_err(|error| status(&error))?;
        Ok(VulkanBuffer { buffer: Arc::new(buffer), engine })
    }

    fn write(&self, buffer: &VulkanBuffer, offset: u64, data: &[u8]) -> Result<(), Status> {
        buffer.buffer.write(offset, data).map_err(|error| status(&error))
    }

    fn read(&self, buffer: &VulkanBuffer, offset: u64, data: &mut [u8]) -> Result<(), Status> {
        buffer.buffer.read(offset, data).map_err(|error| status(&error))
    }

    fn load(&self, source: ProgramSource<'_>) -> Result<VulkanProgram, LoadError> {
        if source.format != tosa::FORMAT {
            let message =
                format!("The format id {:#010x} is not TOSA, {:#010x}.", source.format, tosa::FORMAT);
            return Err(LoadError { status: Status::Unsupported, class: class::UNSUPPORTED, message });
        }
        Target::from_words(&source.target).map_err(|error| LoadError {
            status: Status::Incompatible,
            class: class::MALFORMED,
            message: error.to_string(),
        })?;
        let engine = self.engine();
        let graph = accel_tosa::read(source.artifact).map_err(|refusal| refused(&refusal))?;
        let plan = accel_kernels::lower(&graph, engine.caps()).map_err(|refusal| refused(&refusal))?;
        let bytes = plan.bytes();
        if !(source.reserve)(bytes) {
            let message = format!(
                "The program needs {bytes} bytes of device memory for its constants and intermediate tensors, which \
                 is more than the guest has left; free buffers or programs, or give the daemon a larger \
                 --memory-limit."
            );
            return Err(LoadError { status: Status::ResourceLimit, class: class::RESOURCES, message });
        }
        let program = engine.load(plan).map_err(|error| load_error(&error))?;
        Ok(VulkanProgram { program: Arc::new(program), engine })
    }

    fn slots(&self, program: &VulkanProgram) -> Vec<SlotInfo> {
        let inputs = program.program.inputs().iter().map(|slot| slot_info(slot, false));
        inputs.chain(program.program.outputs().iter().map(|slot| slot_info(slot, true))).collect()
    }

    fn create_queue(&self) -> Result<VulkanQueue, Status> {
        let engine = self.engine();
        let queue = engine.create_queue().map_err(|error| status(&error))?;
        Ok(VulkanQueue { queue, engine })
    }

    fn submit(
        &self,
        queue: &VulkanQueue,
        program: &VulkanProgram,
        bindings: &[Bound<'_, VulkanBuffer>],
        timeout: Option<Duration>,
        on_finish: OnFinish,
    ) -> Result<accel_vulkan::Ticket, Status> {
        // A mixture of handles from before and after a loss is refused by the engine as bindings that do not
        // belong to it; to the guest that is the loss.
        if queue.engine.lost() || program.engine.lost() || bindings.iter().any(|b| b.buffer.engine.lost()) {
            return Err(Status::DeviceLost);
        }
        let ordered = fit(program.program.inputs(), program.program.outputs(), bindings)?;
        if overlaps(bindings) {
            return Err(Status::InvalidArgument);
        }
        let bound: Vec<_> = ordered.iter().map(|b| (Arc::clone(&b.buffer.buffer), b.offset)).collect();
        let (inputs, outputs) = bound.split_at(program.program.inputs().len());
        let on_finish = Box::new(move |finished: accel_vulkan::Finished| on_finish(translated(finished)));
        queue
            .queue
            .submit(&program.program, inputs, outputs, timeout, on_finish)
            .map_err(|error| status(&error))
    }

    fn cancel(&self, submission: &accel_vulkan::Ticket) -> bool {
        submission.cancel()
    }

    fn lost(&self) -> bool {
        self.slot().lost()
    }

    fn recover(&self) -> Result<(), Status> {
        let old = {
            let mut slot = self.slot();
            if !slot.lost() {
                return Ok(());
            }
            let engine = Engine::open(&self.selector, &self.options).map_err(|error| {
                log::error!("the device could not be made anew: {error}");
                Status::DeviceLost
            })?;
            std::mem::replace(&mut *slot, engine)
        };
        // Outside the lock: the old engine's threads end first.
        drop(old);
        Ok(())
    }
}

fn translated(finished: accel_vulkan::Finished) -> Finished {
    let outcome = match finished.outcome {
        accel_vulkan::Outcome::Complete => Outcome::Complete,
        accel_vulkan::Outcome::Cancelled => Outcome::Cancelled,
        accel_vulkan::Outcome::Failed(Failure::DeadlineExpired) => Outcome::Failed(Status::DeadlineExpired),
        accel_vulkan::Outcome::Failed(Failure::DeviceLost) => Outcome::Failed(Status::DeviceLost),
        accel_vulkan::Outcome::Failed(Failure::OutOfMemory) => Outcome::Failed(Status::OutOfMemory),
    };
    Finished { outcome, gpu_ns: finished.gpu_ns }
}

/// Puts bindings into slot order; each must have its slot's exact bytes and an aligned offset
/// (INVALID_ARGUMENT), and access that allows what the program does with it (INCOMPATIBLE).
fn fit<'a, 'b, B>(
    inputs: &[Slot],
    outputs: &[Slot],
    bindings: &'a [Bound<'b, B>],
) -> Result<Vec<&'a Bound<'b, B>>, Status> {
    let slots = || inputs.iter().map(|slot| (slot, false)).chain(outputs.iter().map(|slot| (slot, true)));
    if bindings.len() != inputs.len() + outputs.len() {
        return Err(Status::InvalidArgument);
    }
    let mut ordered: Vec<_> = bindings.iter().collect();
    ordered.sort_unstable_by_key(|bound| bound.slot);
    for (index, ((slot, output), bound)) in (0..).zip(slots().zip(&ordered)) {
        let placed = bound.slot == index
            && bound.bytes == slot.bytes
            && bound.offset.is_multiple_of(BINDING_ALIGNMENT);
        if !placed {
            return Err(Status::InvalidArgument);
        }
        if !(if output { bound.write } else { bound.read }) {
            return Err(Status::Incompatible);
        }
    }
    Ok(ordered)
}

/// Whether a range that may be written overlaps another binding.
fn overlaps<B>(bindings: &[Bound<'_, B>]) -> bool {
    let mut ranges: Vec<_> = bindings
        .iter()
        .map(|b| (std::ptr::from_ref(b.buffer).addr(), b.offset, b.offset.saturating_add(b.bytes), b.write))
        .collect();
    ranges.sort_unstable();
    // The buffer that is swept, and how far any range and any written range reach in it.
    let (mut buffer, mut reach, mut written) = (0, 0, 0);
    ranges.into_iter().any(|(address, start, end, write)| {
        if address != buffer {
            (buffer, reach, written) = (address, 0, 0);
        }
        let clash = start < written || (write && start < reach);
        reach = reach.max(end);
        if write {
            written = written.max(end);
        }
        clash
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(bytes: u64) -> Slot {
        Slot { name: "t".into(), dtype: "INT8", shape: vec![bytes as u32], bytes }
    }

    fn bound(buffer: &u8, slot: u32, offset: u64, bytes: u64, write: bool) -> Bound<'_, u8> {
        Bound { buffer, offset, bytes, slot, read: !write, write }
    }

    #[test]
    fn bindings_fit_only_whole_exact_and_aligned() {
        let (a, b) = (1, 2);
        let (inputs, outputs) = ([slot(5), slot(8)], [slot(3)]);
        let good = || vec![bound(&a, 2, 12, 3, true), bound(&b, 0, 4, 5, false), bound(&b, 1, 0, 8, false)];
        let order: Vec<_> = fit(&inputs, &outputs, &good()).unwrap().iter().map(|b| b.slot).collect();
        assert_eq!(order, [0, 1, 2]);
        let refused = |change: fn(&mut Vec<Bound<'_, u8>>)| {
            let mut bindings = good();
            change(&mut bindings);
            fit(&inputs, &outputs, &bindings).err()
        };
        let refuse = |change| assert_eq!(refused(change), Some(Status::InvalidArgument));
        refuse(|b| b.truncate(2));
        refuse(|b| b[0].slot = 3);
        refuse(|b| b[0].bytes = 4);
        refuse(|b| b[1].offset = 2);
        assert_eq!(refused(|b| b[0].write = false), Some(Status::Incompatible));
        assert_eq!(refused(|b| b[1].read = false), Some(Status::Incompatible));
        // More than is needed is no harm.
        let mut both = good();
        both[0].read = true;
        assert!(fit(&inputs, &outputs, &both).is_ok());
    }

    #[test]
    fn written_ranges_stand_alone() {
        let (a, b) = (1, 2);
        let clash = |x: Bound<'_, u8>, y| overlaps(&[x, y]);
        assert!(!clash(bound(&a, 0, 0, 8, false), bound(&a, 1, 4, 8, false)), "readers share");
        assert!(!clash(bound(&a, 0, 0, 8, true), bound(&a, 1, 8, 8, false)), "neighbours");
        assert!(!clash(bound(&a, 0, 0, 8, true), bound(&b, 1, 0, 8, true)), "other buffers");
        for (first, second) in [(true, true), (true, false), (false, true)] {
            assert!(clash(bound(&a, 0, 0, 8, first), bound(&a, 1, 4, 8, second)));
            assert!(clash(bound(&a, 0, 4, 8, first), bound(&a, 1, 0, 8, second)));
            assert!(clash(bound(&a, 0, 0, 16, first), bound(&a, 1, 4, 4, second)));
        }
        let long = [bound(&a, 0, 0, 100, false), bound(&a, 1, 4, 4, false), bound(&a, 2, 50, 4, true)];
        assert!(overlaps(&long), "the long one is remembered");
    }
    /// Opens a CPU implementation, or else the best device; `None` means skip.
    fn open(options: EngineOptions) -> Option<VulkanBackend> {
        let options = EngineOptions { validation: true, ..options };
        let opened = VulkanBackend::open(Selector::Cpu, options.clone());
        match opened.or_else(|_| VulkanBackend::open(Selector::Best, options)) {
            Ok(backend) => Some(backend),
            Err(error) if std::env::var_os("ACCEL_REQUIRE_DEVICE").is_none_or(|v| v != "1") => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn target() -> [u32; 12] {
        Target { profiles: tosa::PROFILE_INTEGER | tosa::PROFILE_FLOAT, level: tosa::LEVEL_8K, extensions: 0 }
            .words()
    }

    fn model() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/models/et_mlp_fp/model.tosa");
        std::fs::read(path).unwrap()
    }

    #[test]
    fn artifacts_that_are_no_programs_are_refused_with_status_and_class() {
        let Some(backend) = open(EngineOptions::default()) else { return };
        let refuse = |format, target, artifact: &[u8]| {
            let error =
                backend.load(ProgramSource { format, target, artifact, reserve: &|_| true }).err().unwrap();
            assert!(error.message.len() > 10, "{error:?}");
            (error.status, error.class)
        };
        let mut model = model();
        assert_eq!(refuse(1, target(), &model), (Status::Unsupported, class::UNSUPPORTED));
        assert_eq!(refuse(tosa::FORMAT, [0; 12], &model), (Status::Incompatible, class::MALFORMED));
        assert_eq!(refuse(tosa::FORMAT, target(), b""), (Status::Incompatible, class::MALFORMED));
        assert_eq!(refuse(tosa::FORMAT, target(), &model[..900]), (Status::Incompatible, class::MALFORMED));
        model[4] = b'X';
        assert_eq!(refuse(tosa::FORMAT, target(), &model), (Status::Incompatible, class::MALFORMED));
    }

    #[test]
    fn a_program_runs_and_a_lost_device_is_made_anew() {
        // With no time at all for the device, whatever is submitted loses it.
        for watchdog in [None, Some(Duration::ZERO)] {
            let Some(backend) = open(EngineOptions { watchdog, ..EngineOptions::default() }) else { return };
            let source = ProgramSource {
                format: tosa::FORMAT,
                target: target(),
                artifact: &model(),
                reserve: &|_| true,
            };
            let program = backend.load(source).map_err(|error| error.message).unwrap();
            let queue = backend.create_queue().unwrap();
            let slots = backend.slots(&program);
            let (domain, usage) = (MemoryDomain::Device, Usage::ALL);
            let buffers: Vec<_> =
                slots.iter().map(|slot| backend.allocate(slot.bytes, 64, domain, usage).unwrap()).collect();
            let bindings: Vec<_> = (0..)
                .zip(buffers.iter().zip(&slots))
                .map(|(slot, (buffer, info))| Bound {
                    buffer,
                    offset: 0,
                    bytes: info.bytes,
                    slot,
                    read: !info.output,
                    write: info.output,
                })
                .collect();
            let run = || {
                let (sender, receiver) = std::sync::mpsc::channel();
                let on_finish = Box::new(move |finished: Finished| sender.send(finished).unwrap());
                backend.submit(&queue, &program, &bindings, None, on_finish).unwrap();
                receiver.recv_timeout(Duration::from_secs(60)).unwrap().outcome
            };
            if watchdog.is_none() {
                assert_eq!(run(), Outcome::Complete);
                assert!(!backend.lost());
                continue;
            }
            // A device that is done before anyone looks is not lost.
            let outcome = (0..1000).map(|_| run()).find(|outcome| *outcome != Outcome::Complete).unwrap();
            assert_eq!(outcome, Outcome::Failed(Status::DeviceLost));
            assert!(backend.lost());
            assert_eq!(backend.allocate(4, 4, domain, usage).err(), Some(Status::DeviceLost));
            backend.recover().unwrap();
            assert!(!backend.lost());
            let new = backend.allocate(4, 4, domain, usage).unwrap();
            assert_eq!(backend.write(&new, 0, &[1]), Ok(()));
            assert_eq!(backend.write(&buffers[0], 0, &[1]), Err(Status::DeviceLost), "old handles stay lost");
            let ignored = Box::new(|_| ());
            let again = backend.submit(&queue, &program, &bindings, None, ignored);
            assert_eq!(again.err(), Some(Status::DeviceLost));
        }
    }
}
