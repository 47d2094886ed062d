//! Runs conformance cases straight on an engine: `run_case [--repeat N] [--plan] [--discrete] [--matrices |
//! --no-matrices] DIR...`
//!
//! A case is a folder with `desc.json` (`tosa_file`, `ifm_file`, `ofm_file`), the graph and its inputs as `.npy`. The
//! outputs are written beside them, and a line a case says how it went: `ran`, `refused` with the rule and the
//! sentence, or `failed`. With `--repeat` the best device time of N runs is told; `--plan` prints the dispatches;
//! `--discrete` lowers as for a GPU of its own memory, whatever the device is, to test the kernels chosen there; `--matrices`
//! runs every product on matrix units that can, whatever its size, and `--no-matrices` none.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};

use accel_kernels::{MatrixGeometry, Slot};
use accel_tosa::Refusal;
use accel_vulkan::{Engine, EngineOptions, MemoryKind, Outcome, Selector};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A geometry that most devices with matrix units run.
const SMALL: MatrixGeometry =
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 32, band: 8, packed: false };

struct Options {
    repeat: u32,
    plan: bool,
    discrete: bool,
    /// Whether products run on matrix units; by their size where this is not said.
    matrices: Option<bool>,
}

fn main() -> Result<()> {
    env_logger::init();
    let mut options = Options { repeat: 1, plan: false, discrete: false, matrices: None };
    let mut folders = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--repeat" => options.repeat = arguments.next().ok_or("--repeat needs a number")?.parse()?,
            "--discrete" => options.discrete = true,
            "--matrices" => options.matrices = Some(true),
            "--no-matrices" => options.matrices = Some(false),
            "--plan" => options.plan = true,
            _ => folders.push(argument),
        }
    }
    let selector: Selector = std::env::var("ACCEL_DEVICE").unwrap_or_default().parse()?;
    let engine = Engine::open(&selector, &EngineOptions::default())?;
    for folder in folders {
        match run(&engine, Path::new(&folder), &options) {
            Ok(nanoseconds) => println!("{folder}: ran {:.3} ms", nanoseconds as f64 / 1e6),
            Err(error) => match error.downcast_ref::<Refusal>() {
                Some(refusal) => println!("{folder}: refused {:?} {refusal}", refusal.rule),
                None => println!("{folder}: failed {error}"),
            },
        }
    }
    for error in engine.validation_errors().unwrap_or_default() {
        println!("validation: {error}");
    }
    Ok(())
}

fn run(engine: &Arc<Engine>, folder: &Path, options: &Options) -> Result<u64> {
    let description: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("desc.json"))?)?;
    let files = |key: &str| -> Vec<String> {
        let list = description[key].as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let artifact =
        fs::read(folder.join(description["tosa_file"].as_str().ok_or("desc.json names no tosa_file")?))?;
    let graph = accel_tosa::read(artifact)?;
    let mut caps = engine.caps().clone();
    if options.discrete {
        caps.kind = accel_kernels::DeviceKind::Discrete;
    }
    match options.matrices {
        Some(true) => caps.matrix_geometry = Some(SMALL),
        Some(false) => caps.matrices.clear(),
        None => {}
    }
    let plan = accel_kernels::lower(&graph, &caps)?;
    if options.plan {
        plan.dispatches.iter().for_each(|d| println!("  {}{}", if d.barrier { "| " } else { "  " }, d.label));
    }
    let program = Arc::new(engine.load(plan)?);
    let mut inputs = Vec::new();
    for (slot, file) in program.inputs().iter().zip(files("ifm_file")) {
        let data = to_slot(slot.dtype, read_npy(&fs::read(folder.join(file))?)?);
        if data.len() as u64 != slot.bytes {
            return Err(
                format!("the input {} has {} bytes, not {}", slot.name, data.len(), slot.bytes).into()
            );
        }
        let buffer = Arc::new(engine.allocate(slot.bytes, MemoryKind::Device)?);
        buffer.write(0, &data)?;
        inputs.push((buffer, 0));
    }
    let mut outputs = Vec::new();
    for slot in program.outputs() {
        outputs.push((Arc::new(engine.allocate(slot.bytes, MemoryKind::Device)?), 0));
    }
    let queue = engine.create_queue()?;
    let mut best = u64::MAX;
    for _ in 0..options.repeat {
        let (send, receive) = mpsc::channel();
        let finish = Box::new(move |finished| {
            let _ = send.send(finished);
        });
        queue.submit(&program, &inputs, &outputs, None, finish)?;
        let finished = receive.recv()?;
        if finished.outcome != Outcome::Complete {
            return Err(format!("the submission ended as {:?}", finished.outcome).into());
        }
        best = best.min(finished.gpu_ns);
    }
    for ((slot, (buffer, _)), file) in program.outputs().iter().zip(&outputs).zip(files("ofm_file")) {
        let mut data = vec![0; slot.bytes as usize];
        buffer.read(0, &mut data)?;
        fs::write(folder.join(file), write_npy(slot.dtype, &slot.shape, &from_slot(slot, data))?)?;
    }
    Ok(best)
}

/// Arrays keep an INT4 in a byte and an INT48 in eight; bindings are packed.
fn to_slot(dtype: &str, array: Vec<u8>) -> Vec<u8> {
    match dtype {
        "INT4" => {
            array.chunks(2).map(|pair| pair[0] & 15 | pair.get(1).map_or(0, |high| high << 4)).collect()
        }
        "INT48" => array.chunks_exact(8).flat_map(|value| &value[..6]).copied().collect(),
        _ => array,
    }
}

fn from_slot(slot: &Slot, data: Vec<u8>) -> Vec<u8> {
    match slot.dtype {
        "INT4" => {
            let extend = |nibble: u8| ((nibble << 4) as i8 >> 4) as u8;
            let elements = slot.shape.iter().product::<u32>() as usize;
            data.iter().flat_map(|&pair| [extend(pair & 15), extend(pair >> 4)]).take(elements).collect()
        }
        "INT48" => {
            let extend = |value: &[u8]| {
                let sign = if value[5] < 128 { 0 } else { 0xff };
                [value, &[sign; 2]].concat()
            };
            data.chunks_exact(6).flat_map(extend).collect()
        }
        _ => data,
    }
}

/// The data of a C-ordered `.npy` file (format versions 1 and 2).
fn read_npy(file: &[u8]) -> Result<Vec<u8>> {
    let length = match file.get(..10) {
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high]) => {
            10 + u16::from_le_bytes([*low, *high]) as usize
        }
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', ..]) => {
            12 + u32::from_le_bytes(file.get(8..12).ok_or("a cut .npy file")?.try_into()?) as usize
        }
        _ => return Err("not a .npy file".into()),
    };
    Ok(file.get(length..).ok_or("a cut .npy file")?.to_vec())
}

fn write_npy(dtype: &str, shape: &[u32], data: &[u8]) -> Result<Vec<u8>> {
    let kind = match dtype {
        "BOOL" => "|b1",
        "INT4" | "INT8" => "|i1",
        "INT48" | "INT64" => "<i8",
        "INT16" => "<i2",
        "INT32" => "<i4",
        "FP16" => "<f2",
        "FP32" => "<f4",
        "BF16" => "<V2",
        "FP8E4M3" => "<V1",
        "FP8E5M2" => "|u1",
        other => return Err(format!(".npy has no name for {other}").into()),
    };
    // As NumPy writes tuples; the verifier reads no other form.
    let shape = match shape {
        [extent] => format!("{extent},"),
        _ => shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header = format!("{header:<width$}\n", width = padded - 1);
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    Ok(file)
}
