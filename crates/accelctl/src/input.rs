//! Arrays for the inputs of a model, and the shapes that they give to a model that leaves its own open.

use std::path::{Path, PathBuf};

use accel_tosa::bind;

use crate::error::{Error, Result};
use crate::npy::Npy;

/// A named array for an input.
pub struct Input {
    /// Name of the slot; the next free one in order when absent.
    pub name: Option<String>,
    /// File.
    pub path: PathBuf,
}

impl Input {
    /// Understands `[NAME=]FILE.npy`; a file whose own name has a `=` wins.
    pub fn parse(text: &str) -> Self {
        match text.split_once('=') {
            Some((name, path)) if !Path::new(text).exists() => {
                Self { name: Some(name.into()), path: path.into() }
            }
            _ => Self { name: None, path: text.into() },
        }
    }
}

/// The array of each input of a model, in the model's order; `named` has the inputs' names and what to say of each.
pub fn assign<'i>(named: &[(&str, String)], inputs: &'i [Input]) -> Result<Vec<&'i Input>> {
    let list = || named.iter().map(|(_, said)| said.as_str()).collect::<Vec<_>>().join(", ");
    let mut taken: Vec<Option<&Input>> = vec![None; named.len()];
    for input in inputs {
        let mut free = (0..named.len()).filter(|&at| taken[at].is_none());
        let at = match &input.name {
            Some(name) => free.find(|&at| named[at].0 == name),
            // Those that are named elsewhere are not for the taking.
            None => free.find(|&at| inputs.iter().all(|other| other.name.as_deref() != Some(named[at].0))),
        };
        let at = at.ok_or_else(|| match &input.name {
            Some(name) => {
                Error::Argument(format!("the model has no free input {name}; its inputs are {}", list()))
            }
            None => Error::Argument(format!(
                "{} inputs were given and the model takes {}: {}",
                inputs.len(),
                named.len(),
                list()
            )),
        })?;
        taken[at] = Some(input);
    }
    let given = taken.iter().flatten().count();
    if given < named.len() {
        let text = format!("{given} of {} inputs were given; the model takes {}", named.len(), list());
        return Err(Error::Argument(text));
    }
    Ok(taken.into_iter().flatten().collect())
}

/// The artifact of a model; where that leaves dimensions of its inputs open, with the shapes of the arrays.
///
/// # Errors
/// The model leaves dimensions open, and the arrays are not one for each input, cannot be read or contradict it.
pub fn bound(model: &Path, artifact: Vec<u8>, inputs: &[Input]) -> Result<Vec<u8>> {
    let open = match bind::inputs(&artifact) {
        Ok(open) if open.iter().any(bind::Input::is_open) => open,
        // A file that cannot be understood is for the device to refuse.
        _ => return Ok(artifact),
    };
    if let Some(packed) = open.iter().find(|input| input.dtype.is_of_blocks()) {
        return Err(Error::Argument(format!(
            "the shape of {packed}, of type {}, cannot be told from an array; bind shapes with accelctl bind first",
            packed.dtype
        )));
    }
    let named: Vec<_> = open.iter().map(|input| (input.name.as_str(), input.to_string())).collect();
    let shapes = assign(&named, inputs)?.into_iter().map(|input| {
        let extent = |extent| {
            u32::try_from(extent).map_err(|_| Error::Content {
                path: input.path.clone(),
                what: format!(
                    "the array has a dimension of {extent}, and a tensor has fewer than 2^31 elements"
                ),
            })
        };
        Npy::read(&input.path)?.shape.into_iter().map(extent).collect()
    });
    let shapes: Vec<Vec<u32>> = shapes.collect::<Result<_>>()?;
    bind::bind_shapes(&artifact, &shapes).map_err(|refusal| Error::Refused { path: model.into(), refusal })
}
