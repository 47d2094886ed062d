//! Opens engines, builds plans and collects what callbacks say.

use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use accel_kernels::{DeviceKind, Dispatch, PipelineSpec, Place, Plan, Region, Segment, Slot, State};
use accel_vulkan::{
    Buffer, Engine, EngineOptions, Finished, MemoryKind, OnFinish, Program, Selector, devices,
};

use crate::kernels;

/// Longer than anything a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An engine whose validation errors fail the test at its end.
pub struct Checked(pub Arc<Engine>);

impl Deref for Checked {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let errors = self.0.validation_errors().unwrap_or_default();
            assert!(errors.is_empty(), "the validation layer found {errors:#?}");
        }
    }
}

/// Opens the device that `ACCEL_TEST_DEVICE` selects, or else a CPU implementation, or else the best; `None`
/// means skip.
pub fn open_with(options: EngineOptions) -> Option<Checked> {
    let _ = env_logger::builder().is_test(true).try_init();
    let mut usable = devices().unwrap_or_default();
    usable.retain(|device| device.unsuitable.is_none());
    if usable.is_empty() && std::env::var_os("ACCEL_REQUIRE_DEVICE").is_none_or(|v| v != "1") {
        println!("skipped: there is no Vulkan device");
        return None;
    }
    let selector = match std::env::var("ACCEL_TEST_DEVICE") {
        Ok(wanted) => wanted.parse().unwrap(),
        Err(_) if usable.iter().any(|device| device.kind == DeviceKind::Cpu) => Selector::Cpu,
        Err(_) => Selector::Best,
    };
    Some(Checked(Engine::open(&selector, &EngineOptions { validation: true, ..options }).unwrap()))
}

pub fn open() -> Option<Checked> {
    open_with(EngineOptions::default())
}

pub fn slot(name: &str, words: u32) -> Slot {
    Slot { name: name.into(), dtype: "INT32", shape: vec![words], bytes: u64::from(words) * 4 }
}

pub fn place(region: Region) -> Place {
    Place { region, offset: 0 }
}

pub fn dispatch(
    pipeline: u32,
    operands: Vec<Place>,
    params: Vec<u32>,
    words: u32,
    barrier: bool,
) -> Dispatch {
    let groups = [words.div_ceil(64), 1, 1];
    Dispatch { pipeline, operands, params, groups, barrier, label: format!("test {pipeline}") }
}

/// `output = input * factor + add`.
pub fn affine_plan(words: u32, factor: u32, add: u32) -> Plan {
    Plan {
        inputs: vec![slot("in", words)],
        outputs: vec![slot("out", words)],
        pipelines: vec![PipelineSpec { module: kernels::affine(), constants: vec![(3, factor)] }],
        dispatches: vec![dispatch(
            0,
            vec![place(Region::Input(0)), place(Region::Output(0))],
            vec![words, add],
            words,
            false,
        )],
        segments: Segment::whole(1),
        decisions: 0,
        constants: Vec::new(),
        state: State::default(),
        arena_bytes: 0,
    }
}

/// A program that takes about `millis` milliseconds on this device, as it is loaded at present.
pub fn slow(engine: &Engine, millis: u64) -> Arc<Program> {
    const PROBE: u32 = 100_000;
    let mailbox = Mailbox::new();
    let binding = [(buffer(engine, &[0; 64]), 0)];
    let probe = load(engine, slow_plan(PROBE));
    let queue = engine.create_queue().unwrap();
    let once = || {
        queue.submit(&probe, &binding, &binding, None, mailbox.callback(0)).unwrap();
        mailbox.next().1.gpu_ns.max(1)
    };
    // The quickest of several: one that was preempted would make the kernel far too short.
    let took = (0..10).map(|_| once()).min().unwrap();
    let rounds = u64::from(PROBE) * millis * 1_000_000 / took;
    load(engine, slow_plan(rounds.try_into().unwrap()))
}

/// Runs the slow kernel.
pub fn slow_plan(rounds: u32) -> Plan {
    Plan {
        inputs: vec![slot("in", 64)],
        outputs: vec![slot("out", 64)],
        pipelines: vec![PipelineSpec { module: kernels::slow(), constants: vec![] }],
        dispatches: vec![dispatch(
            0,
            vec![place(Region::Input(0)), place(Region::Output(0))],
            vec![rounds],
            64,
            false,
        )],
        segments: Segment::whole(1),
        decisions: 0,
        constants: Vec::new(),
        state: State::default(),
        arena_bytes: 0,
    }
}

pub fn load(engine: &Engine, plan: Plan) -> Arc<Program> {
    Arc::new(engine.load(plan).unwrap())
}

pub fn buffer(engine: &Engine, words: &[u32]) -> Arc<Buffer> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffer = engine.allocate(bytes.len() as u64, MemoryKind::Device).unwrap();
    buffer.write(0, &bytes).unwrap();
    Arc::new(buffer)
}

pub fn words(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// A callback that sends `tag` with the result, and where it arrives.
pub struct Mailbox {
    sender: mpsc::Sender<(u32, Finished)>,
    receiver: mpsc::Receiver<(u32, Finished)>,
}

impl Mailbox {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    pub fn callback(&self, tag: u32) -> OnFinish {
        let sender = self.sender.clone();
        // A test that has failed no longer listens.
        Box::new(move |finished| {
            let _ = sender.send((tag, finished));
        })
    }

    pub fn next(&self) -> (u32, Finished) {
        self.receiver.recv_timeout(PATIENCE).unwrap()
    }

    /// Nothing has come that was not taken.
    pub fn is_empty(&self) -> bool {
        self.receiver.try_recv().is_err()
    }
}
