//! Whether a result is right.

use crate::{Element, Result, Tensor};

/// Compares a result with its reference: integers bit for bit; floats within a part of the reference's largest
/// magnitude that their type sets (FP32 1e-4, FP16 1e-2, BF16 4e-2).
///
/// # Errors
/// What differs, where, and by how much.
pub fn compare(result: &Tensor, reference: &Tensor) -> Result<()> {
    if result.shape != reference.shape {
        return Err(format!("the shape is {:?} and must be {:?}", result.shape, reference.shape).into());
    }
    let tolerance = match result.element {
        Element::F32 | Element::F64 => 1e-4,
        Element::F16 => 1e-2,
        Element::Bf16 => 4e-2,
        _ if result.element != reference.element => {
            return Err(
                format!("the type is {:?} and must be {:?}", result.element, reference.element).into()
            );
        }
        _ => 0.0,
    };
    let (results, references) = (result.to_f64(), reference.to_f64());
    let scale = references.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let (at, worst) = results
        .iter()
        .zip(&references)
        .map(|(result, reference)| match (result.is_nan(), reference.is_nan()) {
            (true, true) => 0.0,
            (false, false) if result == reference => 0.0,
            (false, false) => (result - reference).abs(),
            _ => f64::INFINITY,
        })
        .enumerate()
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .unwrap_or_default();
    if worst <= tolerance * scale {
        return Ok(());
    }
    Err(format!(
        "element {at} is {} and must be {}; {worst:e} is {:e} of the largest magnitude, and {tolerance:e} is allowed",
        results[at],
        references[at],
        worst / scale,
    )
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(element: Element, values: &[f64]) -> Tensor {
        Tensor::from_f64(element, &[values.len()], values.iter().copied())
    }

    #[test]
    fn integers_must_be_equal_and_floats_near() {
        let reference = tensor(Element::F64, &[100.0, -1.0]);
        assert!(compare(&tensor(Element::F32, &[100.0, -1.009]), &reference).is_ok());
        assert!(compare(&tensor(Element::F32, &[100.0, -1.011]), &reference).is_err());
        assert!(compare(&tensor(Element::F16, &[100.5, -1.0]), &reference).is_ok());
        assert!(compare(&tensor(Element::F32, &[f64::NAN, -1.0]), &reference).is_err());
        let reference = tensor(Element::I8, &[3.0, -4.0]);
        assert!(compare(&reference, &reference).is_ok());
        assert!(compare(&tensor(Element::I8, &[3.0, -3.0]), &reference).is_err());
        assert!(compare(&tensor(Element::I32, &[3.0, -4.0]), &reference).is_err());
    }
}
