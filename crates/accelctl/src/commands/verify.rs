//! `accelctl verify`.

use std::path::{Path, PathBuf};

use accel_tosa::DType;
use serde_json::json;

use crate::connection::Connection;
use crate::error::{DIFFERS, Error, RAN, Result};
use crate::input::Input;
use crate::npy::Npy;
use crate::session::Session;
use crate::tensor::{Slot, values};

/// Runs a model and compares its outputs; returns the exit code.
///
/// # Errors
/// The device refuses the model, or files do not fit it.
pub fn verify(
    connection: &Connection,
    model: &Path,
    inputs: &[Input],
    expect: &[PathBuf],
    rtol: Option<f64>,
    json: bool,
) -> Result<u8> {
    let session = Session::load(connection.client(), model, inputs)?;
    let slots = session.outputs();
    if slots.len() != expect.len() {
        let text = format!("the model has {} outputs and {} are expected", slots.len(), expect.len());
        return Err(Error::Argument(text));
    }
    session.set_inputs(inputs)?;
    session.execute()?;
    let mut same = true;
    let mut outputs = Vec::new();
    for ((slot, array), path) in slots.into_iter().zip(session.read_outputs()?).zip(expect) {
        let expected = Npy::read(path)?;
        let limit = rtol.unwrap_or_else(|| default_rtol(slot.dtype));
        let verdict = compare(slot, &array, &expected, limit)
            .map_err(|what| Error::Content { path: path.clone(), what })?;
        same &= verdict.same;
        if json {
            outputs.push(
                json!({ "name": slot.name, "expect": path, "same": verdict.same, "text": verdict.text }),
            );
        } else {
            println!("{}: {}", slot.describe(), verdict.text);
        }
    }
    if json {
        println!("{:#}", json!({ "model": model, "same": same, "outputs": outputs }));
    }
    Ok(if same { RAN } else { DIFFERS })
}

fn default_rtol(dtype: DType) -> f64 {
    match dtype {
        DType::Fp16 => 1e-2,
        DType::Bf16 => 5e-2,
        DType::Fp8E4M3 | DType::Fp8E5M2 => 0.25,
        _ => 1e-4,
    }
}

/// How an output compares with what is expected.
struct Verdict {
    same: bool,
    text: String,
}

/// The error says why the two cannot be compared.
fn compare(slot: &Slot, got: &Npy, expected: &Npy, rtol: f64) -> std::result::Result<Verdict, String> {
    if got.shape != expected.shape {
        return Err(format!(
            "output {} has another shape than the expected {:?}",
            slot.describe(),
            expected.shape
        ));
    }
    if !(slot.dtype.is_float() && expected.kind == "f8") {
        // Refuses an array of another type.
        slot.to_device(expected).map_err(|error| error.replacen("input", "output", 1))?;
    }
    let (got, expected) = (values(slot.dtype, got), values(slot.dtype, expected));
    Ok(if slot.dtype.is_float() { near(&got, &expected, rtol) } else { equal(&got, &expected) })
}

fn equal(got: &[f64], expected: &[f64]) -> Verdict {
    let pairs = || got.iter().zip(expected).enumerate().filter(|(_, (a, b))| a != b);
    let text = match pairs().next() {
        None => "equal".into(),
        Some((at, (a, b))) => {
            format!("{} elements differ; element {at} is {a} and {b} is expected", pairs().count())
        }
    };
    Verdict { same: pairs().next().is_none(), text }
}

fn near(got: &[f64], expected: &[f64], rtol: f64) -> Verdict {
    let largest =
        expected.iter().filter(|value| value.is_finite()).fold(0f64, |most, value| most.max(value.abs()));
    let mut worst = (0, 0.0);
    for (at, (a, b)) in got.iter().zip(expected).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let error = (a - b).abs();
        if !error.is_finite() {
            return Verdict { same: false, text: format!("element {at} is {a} and {b} is expected") };
        }
        if error > worst.1 {
            worst = (at, error);
        }
    }
    let (at, error) = worst;
    let (same, words) = match error <= rtol * largest {
        true => (true, "near enough".into()),
        false => (false, format!("element {at} is {} and {} is expected", got[at], expected[at])),
    };
    let text = format!("{words}: off by {error:.2e} at most, with {rtol:e} of {largest:.4} allowed");
    Verdict { same, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(dtype: DType) -> Slot {
        Slot { name: "y".into(), dtype, shape: vec![2], bytes: 0, output: true }
    }

    fn floats(values: [f32; 2]) -> Npy {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Npy { kind: "f4".into(), shape: vec![2], data }
    }

    fn doubles(values: [f64; 2]) -> Npy {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Npy { kind: "f8".into(), shape: vec![2], data }
    }

    #[test]
    fn floats_may_differ_by_a_fraction_of_the_largest() {
        let verdict = |got, expected| compare(&slot(DType::Fp32), &floats(got), &expected, 1e-3).unwrap();
        let same = |got, expected| verdict(got, expected).same;
        assert!(same([0.05, 100.0], doubles([0.0, 100.0])));
        assert!(!same([0.2, 100.0], doubles([0.0, 100.0])));
        assert!(verdict([0.2, 100.0], doubles([0.0, 100.0])).text.starts_with("element 0 is 0.2"));
        assert!(same([f32::NAN, f32::INFINITY], doubles([f64::NAN, f64::INFINITY])));
        assert!(!same([f32::NAN, 1.0], doubles([1.0, 1.0])));
        assert!(!same([f32::INFINITY, 1.0], doubles([1.0, 1.0])));
        assert!(same([0.0, -0.0], doubles([0.0, 0.0])));
        assert!(same([1.0, 2.0], floats([1.0, 2.0])));
    }

    #[test]
    fn integers_must_be_equal_and_of_one_type() {
        let bytes = |values: [u8; 2]| Npy { kind: "i1".into(), shape: vec![2], data: values.into() };
        let slot = slot(DType::Int8);
        assert!(compare(&slot, &bytes([1, 2]), &bytes([1, 2]), 1.0).unwrap().same);
        let verdict = compare(&slot, &bytes([1, 2]), &bytes([1, 255]), 1.0).unwrap();
        assert!(!verdict.same);
        assert_eq!(verdict.text, "1 elements differ; element 1 is 2 and -1 is expected");
        assert!(compare(&slot, &bytes([1, 2]), &doubles([1.0, 2.0]), 1.0).is_err());
    }
}
