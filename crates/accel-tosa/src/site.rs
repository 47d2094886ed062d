//! One operator under check: its operands resolved, its types matched.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use crate::flat::Bytes;
use crate::operators::{Operand, OperandKind, OperatorInfo};
use crate::schema::TosaOperator;
use crate::{BLOCK, DType, NanMode, Refusal, Rule, Tensor, TensorId, Version, level};

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// What a name stands for once its producer has been seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Tensor(TensorId),
    /// Index into the shape values.
    Shape(usize),
}

/// A shape of the block.
pub(crate) struct ShapeValue<'a> {
    pub name: &'a str,
    /// Number of elements that the file declares.
    pub rank: usize,
    /// Bytes stored with it, for CONST_SHAPE.
    pub data: Bytes<'a>,
    /// Its value, once its producer has been seen.
    pub dims: Vec<i64>,
}

/// What operators refer to.
pub(crate) struct Values<'a> {
    pub artifact: &'a [u8],
    pub version: Version,
    pub tensors: Vec<Tensor>,
    pub shapes: Vec<ShapeValue<'a>>,
    /// Constants whose elements have been found in range: a constant may serve many operators, and looking at it
    /// again for each would let a small file ask for endless work.
    pub checked: RefCell<HashSet<TensorId>>,
}

impl Values<'_> {
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }
}

/// An operator with its operands, of the kinds that the operator table asks for.
pub(crate) struct Site<'a> {
    pub values: &'a Values<'a>,
    pub info: &'static OperatorInfo,
    pub position: u32,
    /// Tensor operands in order.
    pub tensors: Vec<TensorId>,
    /// Shape operands in order, by index into the shape values.
    shapes: Vec<usize>,
    results: &'a [TensorId],
    pub attribute: TosaOperator<'a>,
    /// Whether a number that the operator needs is computed at run time (EXT-DYNAMIC).
    dynamic: Cell<bool>,
    /// Extents of dimensions that the file leaves open, as the rules want them.
    inferred: RefCell<Vec<Inferred>>,
}

/// The extent of an open dimension.
pub(crate) struct Inferred {
    pub of: Open,
    pub dimension: usize,
    pub extent: u32,
}

/// What leaves a dimension open.
#[derive(Clone, Copy)]
pub(crate) enum Open {
    Tensor(TensorId),
    /// Index into the shape values.
    Shape(usize),
}

/// Returns an ERROR_IF refusal unless the condition holds.
macro_rules! require {
    ($site:expr, $condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($site.refuse(crate::Rule::ErrorIf, format!($($message)+)));
        }
    };
}
pub(crate) use require;

/// What stands for a dimension that the file leaves open; no dimension that it gives is 0.
pub(crate) const UNKNOWN: u32 = 0;

/// Whether all dimensions of a tensor are known; the message names the tensor.
pub(crate) fn known(tensor: &Tensor) -> std::result::Result<(), String> {
    match tensor.shape.contains(&UNKNOWN) {
        false => Ok(()),
        true => Err(format!(
            "the tensor {:?} has an unknown dimension (-1) in its shape {}; the shapes of the graph's inputs must be bound \
             before it is loaded.",
            tensor.name,
            show(&tensor.shape)
        )),
    }
}

/// A shape for messages, with -1 for unknown dimensions as in the file.
pub(crate) fn show(shape: &[u32]) -> String {
    if shape.is_empty() {
        return "[] (rank 0)".to_owned();
    }
    let dims: Vec<String> =
        shape.iter().map(|&d| if d == UNKNOWN { "-1".to_owned() } else { d.to_string() }).collect();
    format!("[{}]", dims.join(", "))
}

impl<'a> Site<'a> {
    /// An operator whose operands and result have been found; their number is right, their kinds are checked here.
    pub fn new(
        values: &'a Values<'a>,
        info: &'static OperatorInfo,
        position: u32,
        attribute: TosaOperator<'a>,
        operands: &[Value],
        results: &'a [TensorId],
    ) -> Result<Self> {
        let mut site = Self {
            values,
            info,
            position,
            tensors: Vec::new(),
            shapes: Vec::new(),
            results,
            attribute,
            dynamic: Cell::new(false),
            inferred: RefCell::default(),
        };
        for (index, value) in operands.iter().enumerate() {
            let operand = if info.variadic { &info.inputs[0] } else { &info.inputs[index] };
            site.operand(operand, *value)?;
        }
        Ok(site)
    }

    /// A refusal that names this operator.
    pub fn refuse(&self, rule: Rule, message: String) -> Refusal {
        Refusal { at: Some((self.position, self.info.name)), rule, message }
    }

    /// Refuses unless `found` is at most `limit`.
    pub fn limit(&self, what: &str, found: i64, name: &str, limit: i64) -> Result<()> {
        if found <= limit {
            return Ok(());
        }
        Err(self.refuse(Rule::Level, format!("{what} is {found}, above the {limit} of {name} in level 8K.")))
    }

    /// The tensor operand number `index`, not counting shapes.
    pub fn input(&self, index: usize) -> &'a Tensor {
        self.values.tensor(self.tensors[index])
    }

    /// What the operator table says of the tensor operand number `index`.
    pub fn description(&self, index: usize) -> &'static Operand {
        let mut tensors = self.info.inputs.iter().filter(|operand| operand.kind != OperandKind::Shape);
        // The operands of a list share one description.
        tensors.nth(index).unwrap_or(&self.info.inputs[0])
    }

    /// TOSA's name for the tensor operand number `index`.
    pub fn input_name(&self, index: usize) -> &'static str {
        self.description(index).name
    }

    /// The first result, which is the only one but for transforms.
    pub fn output(&self) -> &'a Tensor {
        self.values.tensor(self.results[0])
    }

    /// All results.
    pub fn outputs(&self) -> impl Iterator<Item = &'a Tensor> {
        self.results.iter().map(|id| self.values.tensor(*id))
    }

    /// Number of shape operands.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// The elements of the shape operand number `index`, not counting tensors.
    pub fn shape(&self, index: usize) -> &'a [i64] {
        &self.values.shapes[self.shapes[index]].dims
    }

    /// The elements of the shape operand number `index`, not counting tensors, which must be `length`. The name is
    /// TOSA's for the operand.
    pub fn dims(&self, index: usize, length: usize) -> Result<(&'static str, &'a [i64])> {
        let dims = self.shape(index);
        let mut shapes = self.info.inputs.iter().filter(|operand| operand.kind == OperandKind::Shape);
        let name = shapes.nth(index).map_or("shape", |operand| operand.name);
        require!(self, dims.len() == length, "{name} has {} elements where {length} are needed.", dims.len());
        Ok((name, dims))
    }

    /// The elements of the shape operand number `index`, not counting tensors, which must be `N`.
    pub fn numbers<const N: usize>(&self, index: usize) -> Result<[i64; N]> {
        let mut values = [0; N];
        values.copy_from_slice(self.dims(index, N)?.1);
        Ok(values)
    }

    /// Bytes of the constant operand number `index`.
    pub fn constant(&self, index: usize) -> &'a [u8] {
        let range = self.input(index).constant.as_ref().map_or(0..0, |constant| constant.range.clone());
        &self.values.artifact[range]
    }

    /// The attribute table, which must be present.
    pub fn attribute<T: crate::flat::Item<'a>>(&self) -> Result<T> {
        self.attribute
            .attribute()
            .ok_or_else(|| self.refuse(Rule::Malformed, "its attribute table is missing.".to_owned()))
    }

    /// The rank of an operand.
    pub fn rank(&self, what: &str, tensor: &Tensor, wanted: usize) -> Result<()> {
        require!(
            self,
            tensor.shape.len() == wanted,
            "{what} {:?} has rank {} where {wanted} is needed.",
            tensor.name,
            tensor.shape.len()
        );
        Ok(())
    }

    /// Rank at least 1.
    pub fn not_scalar(&self, tensor: &Tensor) -> Result<()> {
        require!(self, !tensor.shape.is_empty(), "{:?} has rank 0 where at least 1 is needed.", tensor.name);
        Ok(())
    }

    /// Whether a dimension of a result has the extent that a rule wants. One that the file leaves open gets it.
    pub fn has_extent(&self, result: usize, dimension: usize, wanted: u64) -> bool {
        let tensor = self.results[result];
        match self.values.tensor(tensor).shape[dimension] {
            UNKNOWN if wanted != 0 => {
                // What does not fit is above the level, which is checked when the extents are entered.
                let extent = u32::try_from(wanted).unwrap_or(u32::MAX);
                self.infer(Inferred { of: Open::Tensor(tensor), dimension, extent });
                true
            }
            found => found != UNKNOWN && u64::from(found) == wanted,
        }
    }

    /// Notes the extent of an open dimension.
    fn infer(&self, inferred: Inferred) {
        self.inferred.borrow_mut().push(inferred);
    }

    /// Notes the extent of an open element of the shape operand number `index`.
    pub fn infer_element(&self, index: usize, dimension: usize, extent: u64) {
        let extent = u32::try_from(extent).unwrap_or(u32::MAX);
        self.infer(Inferred { of: Open::Shape(self.shapes[index]), dimension, extent });
    }

    /// The extents found for open dimensions.
    pub fn inferred(&self) -> Vec<Inferred> {
        self.inferred.take()
    }

    /// Whether the first result has exactly this shape; `rule` says in words where the shape comes from.
    pub fn output_shape(&self, wanted: &[u64], rule: &str) -> Result<()> {
        self.result_shape(0, wanted, rule)
    }

    /// Whether result number `index` has exactly this shape.
    pub fn result_shape(&self, index: usize, wanted: &[u64], rule: &str) -> Result<()> {
        let output = self.values.tensor(self.results[index]);
        let same = output.shape.len() == wanted.len()
            && (0..).zip(wanted).all(|(dimension, &wanted)| self.has_extent(index, dimension, wanted));
        require!(
            self,
            same,
            "the output {:?} has the shape {} where {wanted:?} is needed: {rule}.",
            output.name,
            show(&output.shape)
        );
        Ok(())
    }

    /// The result has the shape of the operand number `index`.
    pub fn output_like(&self, index: usize) -> Result<()> {
        let shape: Vec<u64> = self.input(index).shape.iter().map(|&d| d.into()).collect();
        self.output_shape(&shape, "the shape of the input")
    }

    /// A one-element operand of rank 1, as its little-endian bits. Where it is computed at run time they are 0.
    fn element_bits(&self, index: usize) -> Result<u64> {
        let tensor = self.input(index);
        require!(
            self,
            tensor.shape == [1],
            "{} {:?} has the shape {} where [1] is needed.",
            self.input_name(index),
            tensor.name,
            show(&tensor.shape)
        );
        let mut bits = [0; 8];
        for (to, from) in bits.iter_mut().zip(self.constant(index)) {
            *to = *from;
        }
        Ok(u64::from_le_bytes(bits))
    }

    /// A one-element operand of rank 1 that may have any value, as its little-endian bits. Where it is computed at run
    /// time they are 0, and the node keeps all operands.
    pub fn bits(&self, index: usize) -> Result<u64> {
        if self.input(index).constant.is_none() {
            self.dynamic.set(true);
        }
        self.element_bits(index)
    }

    /// A one-element operand as a number: integers as they are, zero-extended when `unsigned`; floats give 0 for
    /// zero of either sign and 1 for anything else, since a float zero point may only be 0. Where it is computed at run
    /// time the number is 0, and unless it must be (`zero`), the node keeps all operands.
    pub fn number(&self, index: usize, unsigned: bool, zero: bool) -> Result<i64> {
        let bits = if zero { self.element_bits(index)? } else { self.bits(index)? };
        let dtype = self.input(index).dtype;
        let unused = 64 - dtype.bits() as u32;
        if dtype.is_float() {
            return Ok(i64::from(bits << (unused + 1) != 0));
        }
        let high = bits << unused;
        Ok(if unsigned { (high >> unused) as i64 } else { (high as i64) >> unused })
    }

    /// A zero point: any value for INT8, 0 for every other type.
    pub fn zero_point(&self, index: usize) -> Result<i32> {
        let dtype = self.input(index).dtype;
        let value = self.number(index, false, dtype != DType::Int8)?;
        require!(
            self,
            dtype == DType::Int8 || value == 0,
            "{} is not 0, and only INT8 may have a zero point, not {dtype}.",
            self.input_name(index)
        );
        Ok(value as i32)
    }

    /// The NaN mode, which integer operators carry too.
    pub fn nan_mode(&self, code: Option<u32>) -> Result<NanMode> {
        match code.unwrap_or(0) {
            1 => Ok(NanMode::Propagate),
            2 => Ok(NanMode::Ignore),
            other => Err(self.refuse(
                Rule::ErrorIf,
                format!("its NaN mode is {other} where 1 (PROPAGATE) or 2 (IGNORE) is needed."),
            )),
        }
    }

    /// An axis of the first operand.
    pub fn axis(&self, axis: Option<i32>) -> Result<u32> {
        let axis = axis.unwrap_or(0);
        self.not_scalar(self.input(0))?;
        let rank = self.input(0).shape.len();
        let inside = u32::try_from(axis).ok().filter(|&axis| (axis as usize) < rank);
        inside.ok_or_else(|| {
            let message =
                format!("its axis is {axis}, outside the dimensions 0 to {} of its input.", rank - 1);
            self.refuse(Rule::ErrorIf, message)
        })
    }

    /// An attribute list of `N` integers.
    pub fn ints<const N: usize>(
        &self,
        what: &str,
        list: Option<crate::flat::List<'_, i32>>,
    ) -> Result<[i64; N]> {
        let list = list.unwrap_or_default();
        let mut values = [0; N];
        require!(self, list.len() == N, "its {what} has {} numbers where {N} are needed.", list.len());
        for (to, from) in values.iter_mut().zip(list.iter()) {
            *to = i64::from(from);
        }
        Ok(values)
    }

    /// An attribute that holds one element of type `dtype`, as bits. Like constants, it may be padded.
    pub fn element(&self, what: &str, bytes: Option<Bytes<'_>>, dtype: DType) -> Result<u64> {
        let bytes = bytes.map_or(&[][..], |b| b.bytes);
        let element = dtype.bytes().and_then(|size| bytes.get(..size));
        let Some(element) = element else {
            return Err(self.refuse(
                Rule::Malformed,
                format!("its {what} has {} bytes, which is no {dtype} element.", bytes.len()),
            ));
        };
        let mut bits = [0; 8];
        bits[..element.len()].copy_from_slice(element);
        Ok(u64::from_le_bytes(bits))
    }

    /// Takes an operand of the right kind.
    fn operand(&mut self, operand: &Operand, value: Value) -> Result<()> {
        let name = operand.name;
        match (operand.kind, value) {
            (OperandKind::Shape, Value::Shape(shape)) => self.shapes.push(shape),
            (OperandKind::Shape, Value::Tensor(id)) => {
                let tensor = &self.values.tensor(id).name;
                let message = format!("{name} is the tensor {tensor:?} where a shape is needed.");
                return Err(self.refuse(Rule::ErrorIf, message));
            }
            (_, Value::Shape(shape)) => {
                let shape = &self.values.shapes[shape].name;
                let message = format!("{name} is the shape {shape:?} where a tensor is needed.");
                return Err(self.refuse(Rule::ErrorIf, message));
            }
            (_, Value::Tensor(id)) => {
                known(self.values.tensor(id)).map_err(|message| self.refuse(Rule::Unsupported, message))?;
                self.tensors.push(id);
            }
        }
        Ok(())
    }

    /// Tensor operands with their numbers.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &'a Tensor)> {
        self.tensors.iter().enumerate().map(|(index, id)| (index, self.values.tensor(*id)))
    }

    /// Operands that stay in the node.
    pub fn kept(&self) -> Vec<TensorId> {
        let stays =
            |index: usize| self.dynamic.get() || self.description(index).kind != OperandKind::Constant;
        self.tensors.iter().enumerate().filter(|(index, _)| stays(*index)).map(|(_, id)| *id).collect()
    }
}

/// The rank and size of a tensor against the level, and whether the blocks of a block-scaled one are whole; the message
/// names the tensor.
pub(crate) fn shape_fits(tensor: &Tensor) -> std::result::Result<(), (Rule, String)> {
    within_level(tensor).map_err(|message| (Rule::Level, message))?;
    if tensor.dtype.values().is_some() && tensor.scales_shape().is_none() {
        let message = format!(
            "the block-scaled tensor {:?} has the shape {}; its last dimension must be a multiple of {BLOCK}.",
            tensor.name,
            show(&tensor.shape)
        );
        return Err((Rule::ErrorIf, message));
    }
    Ok(())
}

fn within_level(tensor: &Tensor) -> std::result::Result<(), String> {
    if tensor.shape.len() > level::MAX_RANK {
        return Err(format!(
            "the tensor {:?} has rank {}, above the {} of MAX_RANK in level 8K.",
            tensor.name,
            tensor.shape.len(),
            level::MAX_RANK
        ));
    }
    let elements = tensor.shape.iter().try_fold(1u64, |product, &d| product.checked_mul(u64::from(d)));
    if elements.is_none_or(|elements| elements >= 1 << level::MAX_LOG2_SIZE) {
        return Err(format!(
            "the tensor {:?} of shape {} has 2^{} elements or more, which level 8K does not allow.",
            tensor.name,
            show(&tensor.shape),
            level::MAX_LOG2_SIZE
        ));
    }
    Ok(())
}
