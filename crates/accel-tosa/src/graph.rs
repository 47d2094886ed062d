//! The graph that every later room works on.

use std::ops::Range;
use std::sync::Arc;

use crate::{BLOCK, DType, Op};

/// Index of a tensor in [`Graph::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Bytes of a constant: ranges of the artifact, kept without a copy and not aligned to anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Range in [`Graph::artifact`], exactly the tensor's bytes; of a block-scaled tensor, its values'.
    pub range: Range<usize>,
    /// The scales of a block-scaled tensor; empty for every other.
    pub scales: Range<usize>,
}

/// A tensor: type, shape and, for constants, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Name in the artifact.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first; empty for rank 0. Each is at least 1.
    pub shape: Vec<u32>,
    /// Set when the tensor is produced by a CONST.
    pub constant: Option<Constant>,
}

impl Tensor {
    /// Number of elements (1 for rank 0). Level checks keep this below 2^31.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&d| u64::from(d)).product()
    }

    /// Bytes as bound by a guest; of a block-scaled tensor, those of its values.
    pub fn bytes(&self) -> u64 {
        (self.elements() * self.dtype.bits() as u64).div_ceil(8)
    }

    /// Shape of the scales that belong to values of this shape; `None` where blocks do not fill the last dimension.
    pub fn scales_shape(&self) -> Option<Vec<u32>> {
        let mut shape = self.shape.clone();
        let last = shape.last_mut().filter(|last| last.is_multiple_of(BLOCK))?;
        *last /= BLOCK;
        Some(shape)
    }
}

/// A tensor that keeps its value from one submission of a program to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The tensor; only VARIABLE_READ and VARIABLE_WRITE name it, by its place in [`Graph::variables`].
    pub tensor: TensorId,
    /// Its value before the first submission; zeros where there is none.
    pub initial: Option<Constant>,
}

/// One operator in execution order.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Position in the artifact's block, counting every operator, for messages.
    pub position: u32,
    /// What to compute; compile-time operands are already inside.
    pub op: Op,
    /// Data operands only, in TOSA's order (see [`Op`] for what stays). Where a number that belongs into the operator is
    /// computed at run time (EXT-DYNAMIC), all tensor operands are here, and the operator has 0 in place of the number.
    pub inputs: Vec<TensorId>,
    /// Results.
    pub outputs: Vec<TensorId>,
}

/// The graph of a COND_IF or WHILE_LOOP. Its tensors are its own: values come in and go out by its lists alone, except
/// for the variables, which every block sees. A region that several operators name is a block of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Operators, in an order in which every operand is defined before use.
    pub nodes: Vec<Node>,
    /// What the operator's operands are inside.
    pub inputs: Vec<TensorId>,
    /// What becomes its results. May name a constant, an input, or a tensor twice.
    pub outputs: Vec<TensorId>,
}

/// Version stamp of the artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major number.
    pub major: i32,
    /// Minor number.
    pub minor: i32,
    /// Patch number.
    pub patch: i32,
    /// Whether the writer called it a draft.
    pub draft: bool,
}

/// Which profiles the graph's operators need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// PRO-INT.
    pub integer: bool,
    /// PRO-FP.
    pub float: bool,
}

/// A checked graph: the main block, with operators in an order in which every operand is defined before use.
/// CONST and CONST_SHAPE leave no node behind: they are [`Tensor::constant`].
#[derive(Clone, Debug)]
pub struct Graph {
    /// The artifact that constants point into.
    pub artifact: Arc<[u8]>,
    /// Version stamp.
    pub version: Version,
    /// Profiles used.
    pub profile: Profile,
    /// All tensors, those of inner blocks too.
    pub tensors: Vec<Tensor>,
    /// Variables.
    pub variables: Vec<Variable>,
    /// Operators.
    pub nodes: Vec<Node>,
    /// Block inputs in declared order: slots 0..inputs.len().
    pub inputs: Vec<TensorId>,
    /// Block outputs in declared order: the slots after the inputs. May name a constant, or an input.
    pub outputs: Vec<TensorId>,
}

impl Graph {
    /// The tensor behind an id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// Bytes of a constant tensor, `None` when it is computed.
    pub fn constant(&self, id: TensorId) -> Option<&[u8]> {
        self.tensor(id).constant.as_ref().map(|c| &self.artifact[c.range.clone()])
    }
}
