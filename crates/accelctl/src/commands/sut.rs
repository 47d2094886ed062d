//! `accelctl sut`: the system under test for TOSA's conformance tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use accel_tosa::bind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::Target;
use crate::connection::Connection;
use crate::error::{Error, RAN, Result};
use crate::input::Input;
use crate::session::{Session, make_folder, read};

/// The parts of desc.json that matter here.
#[derive(Deserialize)]
struct Description {
    tosa_file: PathBuf,
    #[serde(default)]
    ifm_name: Vec<String>,
    #[serde(default)]
    ifm_file: Vec<PathBuf>,
    #[serde(default)]
    ofm_name: Vec<String>,
    #[serde(default)]
    ofm_file: Vec<PathBuf>,
}

/// How long one test took.
#[derive(Clone, Copy)]
pub struct Times {
    /// From the first byte of the model until the program was ready.
    load: Duration,
    /// EXECUTE, from the request to its answer.
    execute: Duration,
    /// On the accelerator, where it tells.
    device: Option<Duration>,
}

impl Times {
    fn json(&self) -> Value {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        json!({
            "load_ms": milliseconds(self.load),
            "execute_ms": milliseconds(self.execute),
            "device_ms": self.device.map(milliseconds),
        })
    }
}

/// Runs one test.
///
/// # Errors
/// Whatever keeps it from running; the exit code tells refusals from the rest.
pub fn one(connection: &Connection, desc: &Path, output_dir: Option<&Path>) -> Result<Times> {
    let content = |what: String| Error::Content { path: desc.into(), what };
    let description: Description =
        serde_json::from_slice(&read(desc)?).map_err(|error| content(error.to_string()))?;
    if description.ofm_name.len() != description.ofm_file.len() {
        return Err(content("ofm_name and ofm_file have different lengths".into()));
    }
    let folder = desc.parent().unwrap_or(Path::new("."));
    let model = folder.join(&description.tosa_file);

    // The generator's names are the model's; where they are not, the order decides.
    let known = bind::inputs(&read(&model)?).unwrap_or_default();
    let mut inputs = Vec::new();
    for (at, file) in description.ifm_file.iter().enumerate() {
        let of_name = |name: &&String| known.iter().find(|input| input.name == **name);
        let input = description.ifm_name.get(at).as_ref().and_then(of_name);
        if let Some(input) = input.filter(|input| input.dtype.values().is_some()) {
            // The scales of a block-scaled tensor are in a file beside its values.
            inputs.push(Input { name: Some(scales_name(&input.name)), path: folder.join(scales_file(file)) });
        }
        inputs.push(Input { name: input.map(|input| input.name.clone()), path: folder.join(file) });
    }
    let session = Session::load(connection.client(), &model, &inputs)?;
    session.set_inputs(&inputs)?;
    let (execute, execution) = session.execute()?;
    let times =
        Times { load: session.load_time, execute, device: execution.gpu_ns.map(Duration::from_nanos) };

    let arrays = session.read_outputs()?;
    let slots = session.outputs();
    if description.ofm_file.len() > slots.len() {
        return Err(content(format!(
            "it names {} outputs and the model has {}",
            description.ofm_file.len(),
            slots.len()
        )));
    }
    let target = output_dir.unwrap_or(folder);
    make_folder(target)?;
    for (at, (name, file)) in description.ofm_name.iter().zip(&description.ofm_file).enumerate() {
        let place = |name: &str| slots.iter().position(|slot| slot.name == name);
        arrays[place(name).unwrap_or(at)].write(&target.join(file))?;
        let scales = scales_name(name);
        let apart = description.ofm_name.iter().all(|name| *name != scales);
        if let Some(from) = place(&scales).filter(|_| apart) {
            arrays[from].write(&target.join(scales_file(file)))?;
        }
    }
    Ok(times)
}

/// The slot of a block-scaled tensor's scales.
fn scales_name(name: &str) -> String {
    format!("{name}_scale")
}

/// The file of the scales beside that of the values.
fn scales_file(values: &Path) -> PathBuf {
    let stem = values.file_stem().unwrap_or_default().to_string_lossy();
    values.with_file_name(format!("{stem}_scale.npy"))
}

/// Runs many tests over one connection and prints a line for each: its exit code, its desc.json and, where it did not
/// run, why; as JSON, also whether it was refused, and its times where it ran. A device that dies costs the test that killed it and no other.
///
/// # Errors
/// The list cannot be read, or no device can be reached.
pub fn batch(target: &Target, verbose: bool, source: &Path, json: bool) -> Result<()> {
    let mut connection = Some(Connection::open(target, verbose)?);
    for desc in list(source)? {
        let result = match &mut connection {
            Some(open) => one(open, &desc, None).map_err(|error| open.explain(error)),
            None => {
                Connection::open(target, verbose).and_then(|open| one(connection.insert(open), &desc, None))
            }
        };
        let (code, message) = match &result {
            Ok(_) => (RAN, String::new()),
            Err(error) => (error.exit_code(), error.sentence()),
        };
        if matches!(result, Err(Error::Daemon { .. } | Error::Device(accel_guest::Error::Gone))) {
            connection = None;
        }
        if json {
            let refused = result.as_ref().is_err_and(Error::is_refusal);
            let times = result.as_ref().ok().map(Times::json);
            println!(
                "{}",
                json!({ "desc": desc, "code": code, "refused": refused, "message": message, "times": times })
            );
        } else {
            println!("{code} {} {message}", desc.display());
        }
    }
    Ok(())
}

/// The desc.json files of a folder, a list file, or standard input (`-`).
fn list(source: &Path) -> Result<Vec<PathBuf>> {
    let text = if source == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).map_err(|source| Error::File {
            what: "read",
            path: "standard input".into(),
            source,
        })?
    } else if source.is_dir() {
        return below(source);
    } else {
        String::from_utf8_lossy(&read(source)?).into_owned()
    };
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(PathBuf::from).collect())
}

/// Every desc.json below a folder, in the order of their paths.
fn below(source: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |error| Error::File { what: "list", path: folder.clone(), source: error };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Not through links, which may go round in circles.
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "desc.json" {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
