//! `accelctl bind`.

use std::path::Path;

use accel_tosa::bind::bind_shapes;

use crate::args::Shape;
use crate::error::{Error, Result};
use crate::session::read;

/// Writes a model with these shapes for its inputs to `output`.
///
/// # Errors
/// The model cannot be read, the shapes do not fit it, or the file cannot be written.
pub fn bind(model: &Path, shapes: &[Shape], output: &Path) -> Result<()> {
    let shapes: Vec<_> = shapes.iter().map(|shape| shape.0.clone()).collect();
    let bound = bind_shapes(&read(model)?, &shapes)
        .map_err(|refusal| Error::Refused { path: model.into(), refusal })?;
    std::fs::write(output, bound).map_err(|source| Error::File { what: "write", path: output.into(), source })
}
