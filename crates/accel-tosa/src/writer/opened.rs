//! Opens dimensions of a file, as a converter leaves them where it does not know a batch or a size.

use crate::flat::Bytes;
use crate::operators;
use crate::read::start;
use crate::schema::SHAPE_FIELD;
use crate::site::{Result, Value};

/// The artifact with these dimensions of every computed tensor of the main block open (-1), and of the new shapes of its
/// RESHAPEs. Constants and tensors of too small a rank stay as they are.
///
/// # Errors
/// Those of [`read`](crate::read()).
pub fn opened(artifact: &[u8], dimensions: &[usize]) -> Result<Vec<u8>> {
    let (_, mut reader) = start(artifact)?;
    reader.operators()?;
    let mut file = artifact.to_vec();
    for tensor in reader.block.tensors().unwrap_or_default().iter() {
        let named = tensor.name().and_then(|name| reader.names.get(name));
        let Some(Value::Tensor(id)) = named.map(|named| named.value) else { continue };
        let known = reader.values.tensor(id);
        let Some(vector) = tensor.0.field::<Bytes<'_>>(SHAPE_FIELD).filter(|_| known.constant.is_none())
        else {
            continue;
        };
        for &dimension in dimensions.iter().filter(|&&dimension| dimension < known.shape.len()) {
            let at = vector.start + 4 * dimension;
            file[at..at + 4].copy_from_slice(&(-1i32).to_le_bytes());
        }
    }
    let operators = reader.block.operators().unwrap_or_default();
    for operator in operators.iter().filter(|operator| operator.op() == operators::code("RESHAPE")) {
        let shape =
            operator.inputs().unwrap_or_default().iter().nth(1).and_then(|name| reader.names.get(name));
        let Some(Value::Shape(index)) = shape.map(|named| named.value) else { continue };
        let shape = &reader.values.shapes[index];
        for &dimension in dimensions.iter().filter(|&&dimension| dimension < shape.rank) {
            let at = shape.data.start + 8 * dimension;
            file[at..at + 8].copy_from_slice(&(-1i64).to_le_bytes());
        }
    }
    Ok(file)
}
