//! Runs graphs made with the writer on the first device, with guards around every output.
#![allow(dead_code, reason = "every test binary takes what it needs")]

use std::sync::{Arc, OnceLock, mpsc};

use accel_kernels::{DeviceCaps, DeviceKind, MatrixTuple};
use accel_tosa::writer::Writer;
use accel_vulkan::{Engine, EngineOptions, Finished, MemoryKind, Outcome, Program};

const GUARD: u8 = 0xa5;

/// The device's limits and features; `None` where there is no device.
pub fn caps() -> Option<DeviceCaps> {
    Some(engine()?.caps().clone())
}

/// Matrix shapes that failed their test.
pub fn wrong_matrices() -> Option<Vec<MatrixTuple>> {
    Some(engine()?.wrong_matrices().to_vec())
}

/// The device, or `None` with a note where there is none and `ACCEL_REQUIRE_DEVICE` is not 1.
fn engine() -> Option<Arc<Engine>> {
    static ENGINE: OnceLock<Option<Arc<Engine>>> = OnceLock::new();
    ENGINE
        .get_or_init(|| {
            let selector = std::env::var("ACCEL_DEVICE").unwrap_or_default().parse().unwrap();
            match Engine::open(&selector, &EngineOptions { validation: true, ..EngineOptions::default() }) {
                Ok(engine) => Some(engine),
                Err(error) if std::env::var("ACCEL_REQUIRE_DEVICE").as_deref() != Ok("1") => {
                    eprintln!("skipped: {error}");
                    None
                }
                Err(error) => panic!("a device is required: {error}"),
            }
        })
        .clone()
}

/// The outputs of the graph for these inputs; `None` without a device. Each binding starts at an address that is a multiple
/// of 4 alone, and the bytes around each output must stay as they were.
pub fn run(writer: &Writer, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    run_as(engine()?.caps().kind, writer, inputs)
}

/// [`run`] with the kernels for CPUs, which those for GPUs must match bit for bit.
pub fn run_both(writer: &Writer, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let outputs = run_as(DeviceKind::Cpu, writer, inputs)?;
    let others = run_as(DeviceKind::Discrete, writer, inputs)?;
    assert!(outputs == others, "the kernels for GPUs give other bits than those for CPUs");
    Some(outputs)
}

/// [`run`] with the kernels that are chosen for devices of this kind.
pub fn run_as(kind: DeviceKind, writer: &Writer, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    Some(submissions(kind, writer, &[inputs])?.remove(0))
}

/// [`run`] with the kernels that are chosen for a device with these limits and features.
pub fn run_on(caps: &DeviceCaps, writer: &Writer, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let engine = engine()?;
    let graph = accel_tosa::read(writer.finish()).unwrap();
    let plan = accel_kernels::lower(&graph, caps).unwrap();
    Some(submit(&engine, &Arc::new(engine.load(plan).unwrap()), inputs, 20))
}

/// [`run_as`] with figures that take the place of the tables', and once more with bindings at multiples of 16 bytes, which must
/// give the same bits.
pub fn run_tuned(kind: DeviceKind, tuning: &str, writer: &Writer, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let engine = engine()?;
    let graph = accel_tosa::read(writer.finish()).unwrap();
    let caps = DeviceCaps { kind, tuning: tuning.parse().unwrap(), ..engine.caps().clone() };
    let program = Arc::new(engine.load(accel_kernels::lower(&graph, &caps).unwrap()).unwrap());
    let [outputs, others] = [20, 32].map(|offset| submit(&engine, &program, inputs, offset));
    assert!(outputs == others, "the place of the bindings changes bits");
    Some(outputs)
}

/// The outputs of several submissions of one program, one after the other.
pub fn submissions(kind: DeviceKind, writer: &Writer, steps: &[&[&[u8]]]) -> Option<Vec<Vec<Vec<u8>>>> {
    let engine = engine()?;
    let graph = accel_tosa::read(writer.finish()).unwrap();
    let plan = accel_kernels::lower(&graph, &DeviceCaps { kind, ..engine.caps().clone() }).unwrap();
    let program = Arc::new(engine.load(plan).unwrap());
    Some(steps.iter().map(|inputs| submit(&engine, &program, inputs, 20)).collect())
}

fn submit(engine: &Arc<Engine>, program: &Arc<Program>, inputs: &[&[u8]], offset: u64) -> Vec<Vec<u8>> {
    let bind = |data: &[u8]| {
        let buffer = Arc::new(engine.allocate(offset + data.len() as u64 + 64, MemoryKind::Device).unwrap());
        buffer.write(0, &vec![GUARD; buffer.bytes() as usize]).unwrap();
        buffer.write(offset, data).unwrap();
        (buffer, offset)
    };
    assert_eq!(program.inputs().len(), inputs.len());
    let inputs: Vec<_> = inputs.iter().map(|data| bind(data)).collect();
    let outputs: Vec<_> =
        program.outputs().iter().map(|slot| bind(&vec![GUARD; slot.bytes as usize])).collect();
    let queue = engine.create_queue().unwrap();
    let (send, receive) = mpsc::channel();
    let finish = Box::new(move |finished: Finished| send.send(finished).unwrap());
    queue.submit(program, &inputs, &outputs, None, finish).unwrap();
    assert_eq!(receive.recv().unwrap().outcome, Outcome::Complete);
    let results = program.outputs().iter().zip(&outputs).map(|(slot, (buffer, _))| {
        let mut bytes = vec![0; buffer.bytes() as usize];
        buffer.read(0, &mut bytes).unwrap();
        let end = (offset + slot.bytes) as usize;
        let guards = bytes[..offset as usize].iter().chain(&bytes[end..]);
        assert!(guards.copied().all(|byte| byte == GUARD), "bytes around {} were written", slot.name);
        bytes[offset as usize..end].to_vec()
    });
    let results: Vec<Vec<u8>> = results.collect();
    assert_eq!(engine.validation_errors().unwrap_or_default(), Vec::<String>::new());
    results
}

/// Little-endian bytes of a list of numbers.
#[macro_export]
macro_rules! bytes {
    ($values:expr) => {
        $values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()
    };
}

/// Numbers from little-endian bytes.
#[macro_export]
macro_rules! numbers {
    ($type:ty, $bytes:expr) => {
        $bytes
            .chunks_exact(size_of::<$type>())
            .map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap()))
            .collect::<Vec<$type>>()
    };
}

/// A sequence without a short period, the same in every run.
pub fn noise(seed: u32, count: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.wrapping_mul(0x9e37_79b1)
    };
    (0..count).map(|_| next()).collect()
}
