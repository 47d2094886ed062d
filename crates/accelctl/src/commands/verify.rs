//! `accelctl verify`.

use std::path::{Path, PathBuf};

use accel_tosa::DType;
use serde_json::json;

use crate::connection::Connection;
use crate::error::{DIFFERS, Error, RAN, Result};
use crate::npy::Npy;
use crate::session::{Input, Session};
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
    let session = Session::load(connection.client(), model)?;
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
        same &= verdict.is_none();
        if json {
            outputs.push(json!({ "name": slot.name, "expect": path, "same": verdict.is_none(), "difference": verdict }));
        } else {
            println!("{}: {}", slot.describe(), verdict.as_deref().unwrap_or("as expected"));
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

/// How an output differs from what is expected; `None` when it does not. The error says why they cannot be compared.
fn compare(slot: &Slot, got: &Npy, expected: &Npy, rtol: f64) -> std::result::Result<Option<String>, String> {
    if got.shape != expected.shape {
        return Err(format!("output {} and an expected shape of {:?}", slot.describe(), expected.shape));
    }
    if !slot.dtype.is_float() {
        // Also refuses another type.
        slot.to_device(expected).map_err(|error| error.replacen("input", "output", 1))?;
        let differing: Vec<_> = differences(&values(slot.dtype, got), &values(slot.dtype, expected));
        return Ok(differing.first().map(|(at, a, b)| {
            format!("{} elements differ; element {at} is {a} and {b} is expected", differing.len())
        }));
    }
    if expected.kind != "f8" {
        slot.to_device(expected).map_err(|error| error.replacen("input", "output", 1))?;
    }
    let (got, expected) = (values(slot.dtype, got), values(slot.dtype, expected));
    let largest =
        expected.iter().filter(|value| value.is_finite()).fold(0f64, |most, value| most.max(value.abs()));
    let limit = rtol * largest;
    let mut worst = (0, 0.0);
    for (at, (a, b)) in got.iter().zip(&expected).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let error = (a - b).abs();
        if !error.is_finite() {
            return Ok(Some(format!("element {at} is {a} and {b} is expected")));
        }
        if error > worst.1 {
            worst = (at, error);
        }
    }
    Ok((worst.1 > limit).then(|| {
        format!(
            "element {} is {} and {} is expected: off by {:.3e}, and {rtol:e} of the largest magnitude {largest} is allowed",
            worst.0, got[worst.0], expected[worst.0], worst.1
        )
    }))
}

/// Unequal elements with their positions.
fn differences(got: &[f64], expected: &[f64]) -> Vec<(usize, f64, f64)> {
    let pairs = got.iter().zip(expected).enumerate();
    pairs.filter(|(_, (a, b))| a != b).map(|(at, (a, b))| (at, *a, *b)).collect()
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
        let differs = |got, expected| compare(&slot(DType::Fp32), &floats(got), &expected, 1e-3).unwrap();
        assert_eq!(differs([0.05, 100.0], doubles([0.0, 100.0])), None);
        assert!(differs([0.2, 100.0], doubles([0.0, 100.0])).unwrap().starts_with("element 0 is 0.2"));
        assert_eq!(differs([f32::NAN, f32::INFINITY], doubles([f64::NAN, f64::INFINITY])), None);
        assert!(differs([f32::NAN, 1.0], doubles([1.0, 1.0])).is_some());
        assert!(differs([f32::INFINITY, 1.0], doubles([1.0, 1.0])).is_some());
        assert_eq!(differs([1.0, 2.0], floats([1.0, 2.0])), None);
    }

    #[test]
    fn integers_must_be_equal_and_of_one_type() {
        let bytes = |values: [u8; 2]| Npy { kind: "i1".into(), shape: vec![2], data: values.into() };
        let slot = slot(DType::Int8);
        assert_eq!(compare(&slot, &bytes([1, 2]), &bytes([1, 2]), 1.0).unwrap(), None);
        let text = compare(&slot, &bytes([1, 2]), &bytes([1, 255]), 1.0).unwrap().unwrap();
        assert_eq!(text, "1 elements differ; element 1 is 2 and -1 is expected");
        assert!(compare(&slot, &bytes([1, 2]), &doubles([1.0, 2.0]), 1.0).is_err());
    }
}
