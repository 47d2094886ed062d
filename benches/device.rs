//! The device under test, and its raw runs.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use accel_kernels::{Dispatch, Module, PipelineSpec, Place, Plan, Region, Segment, Slot, State};
use accel_vulkan::{Buffer, Engine, EngineOptions, ExecQueue, MemoryKind, Outcome, Program, devices};

use crate::Result;
use crate::args::Args;

/// The benches' own shaders.
mod shaders {
    use accel_kernels::Module;
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

/// A buffer and the first byte that a slot sees.
pub type Binding = (Arc<Buffer>, u64);

/// Longest time that the measured runs of one case may take; fewer are made then.
const BUDGET: Duration = Duration::from_secs(5);

/// What one case took.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Median time between the timestamps around the dispatches, in seconds.
    pub gpu: f64,
    /// Median time from before the submission until the completion's callback, in seconds.
    pub wall: f64,
    /// Measured runs.
    pub runs: usize,
}

/// An open device.
pub struct Device {
    pub engine: Arc<Engine>,
    pub driver: String,
    queue: ExecQueue,
    warm_up: Duration,
    runs: usize,
}

impl Device {
    pub fn open(args: &Args) -> Result<Self> {
        let engine = Engine::open(&args.selector(), &EngineOptions::default())?;
        let named = devices()?.into_iter().find(|device| device.uuid == engine.uuid());
        Ok(Self {
            driver: named.map_or_else(String::new, |device| {
                format!("{}, Vulkan {}", device.driver, device.api_version)
            }),
            queue: engine.create_queue()?,
            engine,
            warm_up: args.warm_up(),
            runs: args.runs(),
        })
    }

    pub fn buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        Ok(Arc::new(self.engine.allocate(bytes.max(16), MemoryKind::Device)?))
    }

    /// Loads one dispatch of a bench's own shader: its operands are one output and, where `reads`, one input.
    pub fn load_raw(&self, raw: &Raw<'_>) -> Result<Arc<Program>> {
        let module = module(raw.module)?;
        let slot = |bytes| Slot { name: raw.module.into(), dtype: "INT8", shape: vec![bytes as u32], bytes };
        let place = |region| Place { region, offset: 0 };
        let mut operands = vec![place(Region::Output(0))];
        operands.extend(raw.reads.map(|_| place(Region::Input(0))));
        let plan = Plan {
            inputs: raw.reads.map(slot).into_iter().collect(),
            outputs: vec![slot(raw.writes)],
            pipelines: vec![PipelineSpec { module, constants: raw.constants.to_vec() }],
            dispatches: vec![Dispatch {
                pipeline: 0,
                operands,
                params: raw.params.to_vec(),
                groups: raw.groups,
                barrier: false,
                label: raw.module.into(),
            }],
            segments: Segment::whole(1),
            decisions: 0,
            constants: Vec::new(),
            state: State::default(),
            arena_bytes: 0,
        };
        Ok(Arc::new(self.engine.load(plan)?))
    }

    /// Fills a buffer with [`pattern`](crate::graph::pattern)'s words.
    pub fn fill(&self, buffer: &Arc<Buffer>, (keep, set): (u32, u32)) -> Result<()> {
        // What is left of the last vector stays zero.
        let vectors = buffer.bytes() / 16;
        let groups = vectors.div_ceil(256);
        let program = self.load_raw(&Raw {
            module: "fill",
            constants: &[],
            writes: vectors * 16,
            reads: None,
            params: &[vectors as u32, keep, set],
            groups: [groups.min(32_768) as u32, groups.div_ceil(32_768) as u32, 1],
        })?;
        self.once(&program, &[], &[(Arc::clone(buffer), 0)]).map(drop)
    }

    /// Runs a program once: time between its timestamps, and until its completion.
    pub fn once(
        &self,
        program: &Arc<Program>,
        inputs: &[Binding],
        outputs: &[Binding],
    ) -> Result<(f64, f64)> {
        let (send, receive) = mpsc::channel();
        let finish = Box::new(move |finished| {
            let _ = send.send((finished, Instant::now()));
        });
        let start = Instant::now();
        self.queue.submit(program, inputs, outputs, None, finish)?;
        let (finished, end) = receive.recv()?;
        match finished.outcome {
            Outcome::Complete => Ok((finished.gpu_ns as f64 / 1e9, (end - start).as_secs_f64())),
            outcome => Err(format!("the submission ended as {outcome:?}").into()),
        }
    }

    /// Warms up and gives the medians of `run`, which is told a serial number.
    pub fn time(&self, mut run: impl FnMut(usize) -> Result<(f64, f64)>) -> Result<Timing> {
        let start = Instant::now();
        let mut serial = 0;
        while serial == 0 || start.elapsed() < self.warm_up {
            run(serial)?;
            serial += 1;
        }
        let start = Instant::now();
        let (mut gpu, mut wall) = (Vec::new(), Vec::new());
        while gpu.len() < self.runs && (gpu.is_empty() || start.elapsed() < BUDGET) {
            let (one, other) = run(serial)?;
            gpu.push(one);
            wall.push(other);
            serial += 1;
        }
        Ok(Timing { gpu: median(&mut gpu), wall: median(&mut wall), runs: gpu.len() })
    }
}

/// A dispatch of a bench's own shader.
pub struct Raw<'a> {
    pub module: &'a str,
    pub constants: &'a [(u32, u32)],
    /// Bytes of the output.
    pub writes: u64,
    /// Bytes of the input.
    pub reads: Option<u64>,
    pub params: &'a [u32],
    pub groups: [u32; 3],
}

fn module(name: &str) -> Result<&'static Module> {
    let found = shaders::MODULES.iter().find(|module| module.name == name);
    found.ok_or_else(|| format!("the benches have no shader {name}").into())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
