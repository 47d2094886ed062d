//! `accelctl run`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::Result;
use crate::input::Input;
use crate::npy::Npy;
use crate::session::{Session, make_folder};
use crate::tensor::{Slot, Summary, summary, values};

/// What to run.
pub struct Job<'a> {
    /// Model.
    pub model: &'a Path,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// Where outputs go.
    pub output_dir: Option<&'a Path>,
    /// Runs.
    pub repeat: u32,
}

/// Runs a model and reports.
///
/// # Errors
/// The device refuses the model, or the inputs do not fit it.
pub fn run(connection: &Connection, job: &Job<'_>, json: bool) -> Result<()> {
    let session = Session::load(connection.client(), job.model, &job.inputs)?;
    session.set_inputs(&job.inputs)?;
    let mut trips = Vec::new();
    let mut gpu = Vec::new();
    for _ in 0..job.repeat {
        let (trip, execution) = session.execute()?;
        trips.push(trip);
        gpu.extend(execution.gpu_ns.map(Duration::from_nanos));
    }
    let arrays = session.read_outputs()?;
    let slots = session.outputs();
    let mut files = vec![None; arrays.len()];
    if let Some(folder) = job.output_dir {
        make_folder(folder)?;
        for (at, array) in arrays.iter().enumerate() {
            let path = folder.join(file_name(&slots, at));
            array.write(&path)?;
            files[at] = Some(path);
        }
    }
    let outputs: Vec<Output> = slots
        .into_iter()
        .zip(&arrays)
        .zip(files)
        .map(|((slot, array), file)| Output { slot, summary: summarise(slot, array), file })
        .collect();
    let times = [
        ("load_ms", Some(session.load_time)),
        ("execute_min_ms", trips.iter().min().copied()),
        ("execute_median_ms", median(&mut trips)),
        ("gpu_min_ms", gpu.iter().min().copied()),
        ("gpu_median_ms", median(&mut gpu)),
    ];
    if json {
        let times: serde_json::Map<String, Value> =
            times.iter().map(|(key, time)| ((*key).into(), time.map(milliseconds).into())).collect();
        let outputs: Vec<_> = outputs.iter().map(Output::json).collect();
        println!(
            "{:#}",
            json!({ "model": job.model, "outputs": outputs, "repeat": job.repeat, "times": times })
        );
        return Ok(());
    }
    for output in &outputs {
        output.print();
    }
    let words = ["load", "execute min", "execute median", "gpu min", "gpu median"];
    let words: Vec<_> = words
        .iter()
        .zip(times)
        .filter_map(|(word, (_, time))| time.map(|time| format!("{word} {:.3} ms", milliseconds(time))))
        .collect();
    println!("{} ({} runs)", words.join(", "), job.repeat);
    Ok(())
}

struct Output<'a> {
    slot: &'a Slot,
    summary: Summary,
    file: Option<PathBuf>,
}

impl Output<'_> {
    fn json(&self) -> Value {
        json!({
            "name": self.slot.name,
            "dtype": self.slot.dtype.name(),
            "shape": self.slot.shape,
            "file": self.file,
            "min": self.summary.min,
            "max": self.summary.max,
            "mean": self.summary.mean,
            "nan": self.summary.nan,
            "first": self.summary.first,
        })
    }

    fn print(&self) {
        let summary = &self.summary;
        let nan = if summary.nan > 0 { format!(", {} NaN", summary.nan) } else { String::new() };
        let first: Vec<_> = summary.first.iter().map(|value| number(*value)).collect();
        println!(
            "{}: min {}, max {}, mean {}{nan}; begins with {}",
            self.slot.describe(),
            number(summary.min),
            number(summary.max),
            number(summary.mean),
            first.join(" ")
        );
        if let Some(file) = &self.file {
            println!("  in {}", file.display());
        }
    }
}

fn summarise(slot: &Slot, array: &Npy) -> Summary {
    summary(&values(slot.dtype, array))
}

/// A file name for an output: its name where that is one and nothing else has it, else its number.
fn file_name(slots: &[&Slot], at: usize) -> String {
    let plain = |name: &str| -> String {
        name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
    };
    let name = plain(&slots[at].name);
    let unique = slots.iter().filter(|slot| plain(&slot.name) == name).count() == 1;
    if unique && !name.is_empty() && !name.starts_with('.') && name.len() < 200 {
        format!("{name}.npy")
    } else {
        format!("output-{at}.npy")
    }
}

/// A number in few digits.
fn number(value: f64) -> String {
    match value.abs() {
        magnitude if value == value.trunc() && magnitude < 1e15 => format!("{value}"),
        1e-3..1e7 => format!("{value:.6}"),
        _ => format!("{value:.5e}"),
    }
}

fn median(times: &mut [Duration]) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use accel_tosa::DType;

    #[test]
    fn names_of_tensors_become_names_of_files() {
        let slot = |name: &str| Slot {
            name: name.into(),
            dtype: DType::Int8,
            shape: vec![1],
            bytes: 1,
            output: true,
        };
        let slots = [slot("result-0"), slot("a/b"), slot("a:b"), slot("../x"), slot("")];
        let slots: Vec<_> = slots.iter().collect();
        let names: Vec<_> = (0..slots.len()).map(|at| file_name(&slots, at)).collect();
        assert_eq!(names, ["result-0.npy", "output-1.npy", "output-2.npy", "output-3.npy", "output-4.npy"]);
    }
}
