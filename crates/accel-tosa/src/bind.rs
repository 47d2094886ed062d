//! Shapes for a graph that leaves dimensions of its inputs open (-1 in the file).
//!
//! With the shapes of the inputs every other open dimension follows by the operators' rules. What comes out is an artifact
//! like any other, with all shapes known, so whatever loads programs loads it.

use std::collections::HashMap;
use std::fmt;

use crate::block::Reader;
use crate::read::{clipped, start};
use crate::site::{Result, UNKNOWN, Value, shape_fits, show};
use crate::{DType, Refusal, Rule, TensorId};

/// An input as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Its dimensions, `None` for an open one.
    pub shape: Vec<Option<u32>>,
}

impl Input {
    /// Whether a dimension is open.
    pub fn is_open(&self) -> bool {
        self.shape.contains(&None)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = |extent: &Option<u32>| extent.map_or("?".to_owned(), |extent| extent.to_string());
        let extents: Vec<_> = self.shape.iter().map(extent).collect();
        write!(f, "{} [{}]", self.name, extents.join(", "))
    }
}

/// The inputs of an artifact, in order. Its operators are not looked at.
///
/// # Errors
/// The file is no `.tosa` file, or its names and types are wrong.
pub fn inputs(artifact: &[u8]) -> Result<Vec<Input>> {
    let (_, reader) = start(artifact).map_err(clipped)?;
    let input = |id| {
        let tensor = reader.values.tensor(id);
        let extent = |&extent: &u32| Some(extent).filter(|&extent| extent != UNKNOWN);
        let shape = tensor.shape.iter().map(extent).collect();
        Input { name: tensor.name.clone(), dtype: tensor.dtype, shape }
    };
    Ok(ids(&reader).into_iter().map(input).collect())
}

/// The artifact with these shapes as those of its inputs, in order, and with what follows from them everywhere else.
///
/// # Errors
/// There are more or fewer inputs, a shape contradicts what the file says of its input or makes too large a tensor, or the
/// graph breaks a rule with these shapes. A region that two operators would need with different shapes is not supported.
pub fn bind_shapes(artifact: &[u8], shapes: &[Vec<u32>]) -> Result<Vec<u8>> {
    bound(artifact, shapes).map_err(clipped)
}

fn bound(artifact: &[u8], shapes: &[Vec<u32>]) -> Result<Vec<u8>> {
    let (_, mut reader) = start(artifact)?;
    let inputs = ids(&reader);
    if inputs.len() != shapes.len() {
        let message = format!(
            "{} shapes are given for the graph's {} inputs; each needs one.",
            shapes.len(),
            inputs.len()
        );
        return Err(Refusal::of_file(Rule::ErrorIf, message));
    }
    for (id, shape) in inputs.into_iter().zip(shapes) {
        enter(&mut reader, id, shape)?;
    }
    reader.operators()?;
    reader.slots()?;
    write(artifact, &reader)
}

fn ids(reader: &Reader<'_>) -> Vec<TensorId> {
    let id = |name| match reader.names.get(name)?.value {
        Value::Tensor(id) => Some(id),
        Value::Shape(_) => None,
    };
    reader.block.inputs().unwrap_or_default().iter().filter_map(id).collect()
}

/// Gives an input its shape.
fn enter(reader: &mut Reader<'_>, id: TensorId, shape: &[u32]) -> Result<()> {
    let tensor = &mut reader.values.tensors[id.0 as usize];
    let fits = tensor.shape.len() == shape.len()
        && tensor
            .shape
            .iter()
            .zip(shape)
            .all(|(&declared, &extent)| extent != 0 && (declared == UNKNOWN || declared == extent));
    if !fits {
        let message = format!(
            "the input {:?} has the shape {} in the file, where -1 is open, and cannot have {shape:?}.",
            tensor.name,
            show(&tensor.shape)
        );
        return Err(Refusal::of_file(Rule::ErrorIf, message));
    }
    tensor.shape = shape.to_vec();
    shape_fits(tensor).map_err(|(rule, message)| Refusal::of_file(rule, message))
}

/// Writes what was found for open dimensions over the file. Its tables stay where they are: shapes of tensors go to its end,
/// because those in it may be shared.
fn write(artifact: &[u8], reader: &Reader<'_>) -> Result<Vec<u8>> {
    let mut found: HashMap<usize, Vec<u32>> = HashMap::new();
    let mut tensors: Vec<_> = reader.open_shapes.iter().collect();
    tensors.sort_unstable_by_key(|(id, _)| **id);
    let mut file = artifact.to_vec();
    for (id, open) in tensors {
        let tensor = reader.values.tensor(*id);
        match found.insert(open.field, tensor.shape.clone()) {
            None => {}
            Some(other) if other == tensor.shape => continue,
            Some(_) => return Err(twice(&format!("the tensor {:?}", tensor.name))),
        }
        file.resize(file.len().next_multiple_of(4), 0);
        let offset = i32::try_from(file.len() - open.field).map_err(|_| {
            Refusal::of_file(Rule::Malformed, "the file has no room: offsets in it reach 2 GiB.".to_owned())
        })?;
        file[open.field..open.field + 4].copy_from_slice(&offset.to_le_bytes());
        file.extend((tensor.shape.len() as u32).to_le_bytes());
        // A tensor that nothing uses stays open.
        let extent = |&extent: &u32| if extent == UNKNOWN { -1 } else { extent as i32 };
        file.extend(tensor.shape.iter().flat_map(|dim| extent(dim).to_le_bytes()));
    }
    let mut elements = HashMap::new();
    for &(position, extent) in &reader.elements {
        if elements.insert(position, extent).is_some_and(|other| other != extent) {
            return Err(twice("an open element of a constant shape"));
        }
        file[position..position + 8].copy_from_slice(&i64::from(extent).to_le_bytes());
    }
    Ok(file)
}

fn twice(what: &str) -> Refusal {
    let message = format!("{what} would need two shapes, since operators share it; give each its own.");
    Refusal::of_file(Rule::Unsupported, message)
}
