//! What the device can do at most, measured by loops that do nothing else.

use std::collections::HashMap;

use accel_kernels::{DeviceKind, MatrixTuple};

use crate::Result;
use crate::case::Arithmetic;
use crate::device::{Device, Raw};
use crate::graph::pattern;

/// Seconds that a multiply-add loop is made to take.
const LOOP: f64 = 2e-3;

/// The best figures of all loops.
#[derive(Clone, Debug, Default)]
pub struct Ceilings {
    /// Bytes read a second.
    pub read: f64,
    /// Bytes read and written a second.
    pub copy: f64,
    /// Multiplications and additions a second, by what units there are.
    pub arithmetic: HashMap<Arithmetic, f64>,
    /// Every loop and its figure, for the report: name, value, unit.
    pub lines: Vec<(String, f64, &'static str)>,
}

impl Ceilings {
    pub fn measure(device: &Device) -> Result<Self> {
        let mut ceilings = Self::default();
        ceilings.memory(device)?;
        for (name, arithmetic, scalar) in [
            ("multiply_add.f32", Some(Arithmetic::F32), 1),
            ("multiply_add.f16", Some(Arithmetic::F16), 1),
            ("multiply_add.i32", None, 1),
            ("dot", Some(Arithmetic::I8), 4),
        ] {
            // 8 x 16 multiply-adds a step.
            let rate = ceilings.looped(device, name, &[], 256, 2 * 128 * scalar, None)?;
            if let Some(arithmetic) = arithmetic {
                ceilings.raise(arithmetic, rate);
            }
        }
        for tuple in &device.engine.caps().matrices {
            ceilings.matrix(device, tuple)?;
        }
        Ok(ceilings)
    }

    /// Seconds that a case takes at least, and the ceiling that says so.
    pub fn least(&self, read: u64, written: u64, work: Option<(u64, Arithmetic)>) -> (f64, &'static str) {
        // Writes are what makes a copy slower than a read.
        let memory = if written * 8 < read {
            ((read + written) as f64 / self.read, "read")
        } else {
            ((read + written) as f64 / self.copy, "copy")
        };
        let work = work.and_then(|(operations, arithmetic)| {
            let rate = self.arithmetic.get(&arithmetic)?;
            Some((operations as f64 / rate, "multiply-add"))
        });
        work.filter(|work| work.0 > memory.0).unwrap_or(memory)
    }

    fn memory(&mut self, device: &Device) -> Result<()> {
        let bytes: u64 = if device.engine.caps().kind == DeviceKind::Cpu { 1 << 26 } else { 1 << 30 };
        let vectors = (bytes / 16) as u32;
        let (from, to) = (device.buffer(bytes)?, device.buffer(bytes)?);
        device.fill(&from, (u32::MAX, 0))?;
        let (from, to) = ([(from, 0)], [(to, 0)]);
        for (groups, loads) in [(1024, 4), (1024, 8), (2048, 4), (2048, 8)] {
            let program = device.load_raw(&Raw {
                module: "read",
                constants: &[(0, loads)],
                writes: u64::from(groups) * 1024,
                reads: Some(bytes),
                params: &[vectors],
                groups: [groups, 1, 1],
            })?;
            let time = device.time(|_| device.once(&program, &from, &to))?.gpu;
            self.read = self.read.max(bytes as f64 / time);
        }
        for lanes in [128, 256, 512, 1024] {
            if lanes > device.engine.caps().max_workgroup_invocations {
                continue;
            }
            let groups = vectors.div_ceil(lanes);
            if groups > device.engine.caps().max_workgroup_count[0] {
                continue;
            }
            let program = device.load_raw(&Raw {
                module: "copy",
                constants: &[(0, lanes)],
                writes: bytes,
                reads: Some(bytes),
                params: &[vectors],
                groups: [groups, 1, 1],
            })?;
            let time = device.time(|_| device.once(&program, &from, &to))?.gpu;
            self.copy = self.copy.max(2.0 * bytes as f64 / time);
        }
        let words = bytes / 4;
        let program = device.load_raw(&Raw {
            module: "fill",
            constants: &[],
            writes: bytes,
            reads: None,
            params: &[(words / 4) as u32, 0, 0],
            groups: [
                (words / 4).div_ceil(256).min(32_768) as u32,
                (words / 4).div_ceil(256 * 32_768) as u32,
                1,
            ],
        })?;
        let time = device.time(|_| device.once(&program, &[], &to))?.gpu;
        self.lines.push(("write".into(), bytes as f64 / time / 1e9, "GB/s"));
        self.lines.push(("read".into(), self.read / 1e9, "GB/s"));
        self.lines.push(("copy".into(), self.copy / 1e9, "GB/s"));
        Ok(())
    }

    fn matrix(&mut self, device: &Device, tuple: &MatrixTuple) -> Result<()> {
        let (module, arithmetic, dtype) = match (tuple.operand, tuple.result) {
            (MatrixTuple::FLOAT16, MatrixTuple::FLOAT32) => {
                ("matrix.f16", Arithmetic::F16, accel_tosa::DType::Fp16)
            }
            (MatrixTuple::BFLOAT16, MatrixTuple::FLOAT32) => {
                ("matrix.bf16", Arithmetic::Bf16, accel_tosa::DType::Bf16)
            }
            (MatrixTuple::SINT8, MatrixTuple::SINT32) => {
                ("matrix.i8", Arithmetic::I8, accel_tosa::DType::Int8)
            }
            _ => return Ok(()),
        };
        let (m, n, k) = (tuple.m, tuple.n, tuple.k);
        let tiles = device.buffer(u64::from(4 * k * m.max(n)) * 4)?;
        device.fill(&tiles, pattern(dtype))?;
        let lanes = 4 * device.engine.caps().subgroup_size;
        let constants = [(0, lanes), (1, m), (2, n), (3, k)];
        let operations = 2 * 16 * u64::from(m * n * k) * 4 / u64::from(lanes);
        let rate = self.looped(device, module, &constants, lanes, operations, Some(&tiles))?;
        self.lines.last_mut().into_iter().for_each(|line| line.0 += &format!(" {m}x{n}x{k}"));
        self.raise(arithmetic, rate);
        Ok(())
    }

    fn raise(&mut self, arithmetic: Arithmetic, rate: f64) {
        let best = self.arithmetic.entry(arithmetic).or_default();
        *best = best.max(rate);
    }

    /// Operations a second of a loop that does `operations` a step and invocation; its length is fitted to the device.
    fn looped(
        &mut self,
        device: &Device,
        module: &str,
        constants: &[(u32, u32)],
        lanes: u32,
        operations: u64,
        tiles: Option<&std::sync::Arc<accel_vulkan::Buffer>>,
    ) -> Result<f64> {
        let groups = if device.engine.caps().kind == DeviceKind::Cpu { 16 } else { 132 * 16 };
        let bytes = u64::from(groups) * 4 * u64::from(lanes).max(1024);
        let sums = [(device.buffer(bytes)?, 0)];
        let inputs: Vec<_> = tiles.map(|tiles| (std::sync::Arc::clone(tiles), 0)).into_iter().collect();
        let timed = |steps: u32| -> Result<f64> {
            let program = device.load_raw(&Raw {
                module,
                constants,
                writes: bytes,
                reads: tiles.map(|tiles| tiles.bytes()),
                params: &[steps, 3],
                groups: [groups, 1, 1],
            })?;
            Ok(device.time(|_| device.once(&program, &inputs, &sums))?.gpu)
        };
        let probe = timed(16)?;
        let steps = (16.0 * LOOP / probe).clamp(16.0, 1e5) as u32;
        let time = timed(steps)?;
        let rate = f64::from(groups) * f64::from(lanes) * f64::from(steps) * operations as f64 / time;
        self.lines.push((format!("multiply-add {module}"), rate / 1e12, "T/s"));
        Ok(rate)
    }
}
