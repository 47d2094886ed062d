//! Times geometries of the matrix kernels: `tune_matrices [--seconds N] [--check] [--device NAME] CASE...`
//!
//! A case is `TYPE:MxNxK` or `TYPE:MxNxK:SUBGROUPS_MxSUBGROUPS_NxROWSxCOLUMNSxSLABxBAND[:packed]`, TYPE one of f16, f16f32, bf16, i8, e4m3 and
//! e5m2. Without a geometry the plan chooses. A line a case tells the median of the device's time, and the rate.
//! `--check` compares some elements with sums in double precision.

use std::error::Error;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use accel_kernels::MatrixGeometry;
use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};
use accel_vulkan::{Buffer, Engine, EngineOptions, Finished, MemoryKind, Outcome, Selector};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The clock of a GPU that was idle needs this long to rise.
const WARM_UP: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    env_logger::init();
    let (mut check, mut limit, mut selector) = (false, Duration::from_secs(3600), Selector::Best);
    let (mut cases, mut arguments) = (Vec::new(), std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => check = true,
            "--seconds" => {
                limit = Duration::from_secs(arguments.next().ok_or("--seconds needs a number")?.parse()?);
            }
            "--device" => selector = arguments.next().ok_or("--device needs a name")?.parse()?,
            _ => cases.push(argument),
        }
    }
    let started = Instant::now();
    let engine = Engine::open(&selector, &EngineOptions::default())?;
    println!(
        "{}, opened in {:.2} s: {:?}",
        engine.caps().name,
        started.elapsed().as_secs_f64(),
        engine.caps().matrices
    );
    for case in cases {
        if started.elapsed() > limit {
            println!("the time is over");
            break;
        }
        if let Err(error) = time(&engine, &case, check) {
            println!("{case}: {error}");
        }
    }
    Ok(())
}

fn time(engine: &Arc<Engine>, case: &str, check: bool) -> Result<()> {
    let mut parts = case.split(':');
    let types = parts.next().unwrap_or_default();
    let numbers = |text: Option<&str>| -> Result<Vec<u32>> {
        Ok(text.unwrap_or_default().split('x').map(str::parse).collect::<std::result::Result<_, _>>()?)
    };
    let &[m, n, k] = numbers(parts.next())?.as_slice() else { return Err("a size is MxNxK".into()) };
    let (from, to) = match types {
        "f16" => (DType::Fp16, DType::Fp16),
        "f16f32" => (DType::Fp16, DType::Fp32),
        "bf16" => (DType::Bf16, DType::Fp32),
        "i8" => (DType::Int8, DType::Int32),
        "e4m3" => (DType::Fp8E4M3, DType::Fp16),
        "e5m2" => (DType::Fp8E5M2, DType::Fp16),
        _ => return Err("the type is unknown".into()),
    };
    let mut caps = engine.caps().clone();
    if let Some(geometry) = parts.next() {
        let packed = parts.next() == Some("packed");
        let &[rows, columns, part_m, part_n, slab, band] = numbers(Some(geometry))?.as_slice() else {
            return Err("a geometry has six numbers".into());
        };
        caps.matrix_geometry =
            Some(MatrixGeometry { subgroups: [rows, columns], part: [part_m, part_n], slab, band, packed });
    }
    let zero = &[0; 2][..from.bytes().unwrap_or(1)];
    let mut w = Writer::new();
    w.input("a", from, &[1, m as i32, k as i32]);
    w.input("b", from, &[1, k as i32, n as i32]);
    w.constant("a_zp", from, &[1], zero);
    w.constant("b_zp", from, &[1], zero);
    w.op("MATMUL", Attribute::None, &["a", "b", "a_zp", "b_zp"], "c", to, &[1, m as i32, n as i32]);
    w.output("c");
    let plan = accel_kernels::lower(&accel_tosa::read(w.finish())?, &caps)?;
    let label = plan.dispatches.iter().map(|d| d.label.clone()).collect::<Vec<_>>().join(" + ");
    if caps.matrix_geometry.is_some() && !(label.contains("gemm_matrix") || label.contains("gemm_packed")) {
        return Err("the geometry does not fit".into());
    }
    let made = Instant::now();
    let program = Arc::new(engine.load(plan)?);
    let made = made.elapsed();
    let operand = |seed: u32, count: u32| -> Result<(Arc<Buffer>, Vec<u8>)> {
        let bytes = random(from, seed, count as usize);
        let buffer = engine.allocate(bytes.len() as u64, MemoryKind::Device)?;
        buffer.write(0, &bytes)?;
        Ok((Arc::new(buffer), bytes))
    };
    let ((a, a_bytes), (b, b_bytes)) = (operand(1, m * k)?, operand(2, k * n)?);
    let c = Arc::new(engine.allocate(program.outputs()[0].bytes, MemoryKind::Device)?);
    let queue = engine.create_queue()?;
    let run = || -> Result<u64> {
        let (send, receive) = mpsc::channel();
        let finish = Box::new(move |finished: Finished| {
            let _ = send.send(finished);
        });
        queue.submit(&program, &[(a.clone(), 0), (b.clone(), 0)], &[(c.clone(), 0)], None, finish)?;
        let finished = receive.recv()?;
        match finished.outcome {
            Outcome::Complete => Ok(finished.gpu_ns),
            outcome => Err(format!("the submission ended as {outcome:?}").into()),
        }
    };
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        run()?;
    }
    let mut times = (0..30).map(|_| run()).collect::<Result<Vec<u64>>>()?;
    times.sort_unstable();
    let median = times[times.len() / 2] as f64;
    let rate = 2.0 * f64::from(m) * f64::from(n) * f64::from(k) / median / 1e3;
    let mut error = String::new();
    if check {
        let mut bytes = vec![0; c.bytes() as usize];
        c.read(0, &mut bytes)?;
        let worst = (0..64).map(|i| {
            let (row, column) = if i == 0 { (m - 1, n - 1) } else { (i * 977 % m, i * 1543 % n) };
            let (mut sum, mut size) = (0.0, 0.0);
            for depth in 0..k {
                let term =
                    number(from, &a_bytes, row * k + depth) * number(from, &b_bytes, depth * n + column);
                (sum, size) = (sum + term, size + f64::abs(term));
            }
            (number(to, &bytes, row * n + column) - sum).abs() / size
        });
        error = format!(" error/sum of sizes {:.1e}", worst.fold(0.0, f64::max));
    }
    println!("{case} {rate:.1} T/s {:.1} us{error}, made in {} ms: {label}", median / 1e3, made.as_millis());
    Ok(())
}

/// Numbers of about 1, of either sign.
fn random(dtype: DType, seed: u32, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    // A sign, an exponent near the bias and a fraction.
    let mut float = |bias: u32, fraction: u32| {
        let x = next();
        let exponent = bias - 3 + (x >> 28) % 4;
        (exponent << fraction) | ((x >> 8) % (1 << fraction)) | ((x >> 31) << 31)
    };
    let sign = |x: u32, bits: u32| (x & 0x7fff_ffff) | ((x >> 31) << (bits - 1));
    match dtype {
        DType::Fp16 => (0..count).flat_map(|_| (sign(float(15, 10), 16) as u16).to_le_bytes()).collect(),
        DType::Bf16 => (0..count).flat_map(|_| (sign(float(127, 7), 16) as u16).to_le_bytes()).collect(),
        DType::Fp8E4M3 => (0..count).map(|_| sign(float(7, 3), 8) as u8).collect(),
        DType::Fp8E5M2 => (0..count).map(|_| sign(float(15, 2), 8) as u8).collect(),
        _ => (0..count).map(|_| (next() >> 20) as u8).collect(),
    }
}

/// Element `at`, as a number.
fn number(dtype: DType, bytes: &[u8], at: u32) -> f64 {
    let at = at as usize;
    let half = |at: usize| u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
    let word = || [0, 1, 2, 3].map(|i| bytes[4 * at + i]);
    match dtype {
        DType::Fp32 => f32::from_le_bytes(word()).into(),
        DType::Int32 => i32::from_le_bytes(word()).into(),
        DType::Fp16 => half::f16::from_bits(half(at)).into(),
        DType::Bf16 => half::bf16::from_bits(half(at)).into(),
        DType::Fp8E5M2 => half::f16::from_bits(u16::from(bytes[at]) << 8).into(),
        // The bits of a finite number of at least 2^-6 in FP16, with another bias.
        DType::Fp8E4M3 => {
            let magnitude = half::f16::from_bits((u16::from(bytes[at] & 0x7f) << 7) + (8 << 10)).to_f64();
            if bytes[at] > 0x7f { -magnitude } else { magnitude }
        }
        _ => f64::from(bytes[at] as i8),
    }
}
