//! Writes `.tosa` bytes: for tests, here and in the crates that take graphs.
//!
//! ```
//! use accel_tosa::{DType, writer::{Attribute, Writer}};
//!
//! let mut w = Writer::new();
//! w.input("x", DType::Fp32, &[1, 4]);
//! w.constant("one", DType::Fp32, &[1, 1], &1f32.to_le_bytes());
//! w.op("ADD", Attribute::None, &["x", "one"], "y", DType::Fp32, &[1, 4]);
//! w.output("y");
//! let graph = accel_tosa::read(w.finish()).unwrap();
//! assert_eq!(graph.nodes.len(), 1);
//! ```
//!
//! Nothing is checked: wrong graphs are as easy to write as right ones.

mod opened;

pub use opened::opened;

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VOffsetT, WIPOffset};

use crate::flat::slot;
use crate::{BLOCK, DType, operators};

/// The attribute table of an operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Attribute {
    /// An empty table.
    #[default]
    None,
    /// ARGMAX, REDUCE_*, CONCAT, REVERSE; `nan_mode` is 1 (PROPAGATE) or 2 (IGNORE), 0 for operators without.
    Axis {
        /// The axis.
        axis: i32,
        /// NaN mode.
        nan_mode: u32,
    },
    /// AVG_POOL2D and MAX_POOL2D.
    Pool {
        /// Y, X.
        kernel: Vec<i32>,
        /// Y, X.
        stride: Vec<i32>,
        /// Top, bottom, left, right.
        pad: Vec<i32>,
        /// The accumulator's [`DType::code`] (AVG_POOL2D) or the NaN mode (MAX_POOL2D).
        last: u32,
    },
    /// CONV2D, CONV3D, DEPTHWISE_CONV2D; CONV3D's lists begin with the depth.
    Conv {
        /// Top, bottom, left, right.
        pad: Vec<i32>,
        /// Y, X.
        stride: Vec<i32>,
        /// Y, X.
        dilation: Vec<i32>,
        /// Accumulator type.
        acc_type: DType,
    },
    /// TRANSPOSE_CONV2D.
    TransposeConv {
        /// Top, bottom, left, right.
        out_pad: Vec<i32>,
        /// Y, X.
        stride: Vec<i32>,
        /// Accumulator type.
        acc_type: DType,
    },
    /// FFT2D: whether it is the inverse.
    Fft(bool),
    /// CLAMP: bounds as bytes of the tensor's type.
    Clamp {
        /// Lower bound.
        min: Vec<u8>,
        /// Upper bound.
        max: Vec<u8>,
        /// NaN mode.
        nan_mode: u32,
    },
    /// MAXIMUM, MINIMUM (the NaN mode), RESIZE (1 NEAREST, 2 BILINEAR), operators on block-scaled data (the block size).
    Mode(u32),
    /// ARITHMETIC_RIGHT_SHIFT.
    Round(bool),
    /// TRANSPOSE.
    Transpose(Vec<i32>),
    /// COND_IF and WHILE_LOOP: names of regions.
    Graphs {
        /// The then graph, or the condition's.
        first: String,
        /// The else graph, or the body's.
        second: String,
    },
    /// RESCALE.
    Rescale {
        /// 32-bit multipliers.
        scale32: bool,
        /// 1 SINGLE_ROUND, 2 INEXACT_ROUND, 3 DOUBLE_ROUND.
        rounding: u32,
        /// A multiplier for each channel.
        per_channel: bool,
        /// Unsigned input.
        input_unsigned: bool,
        /// Unsigned output.
        output_unsigned: bool,
    },
}

/// A tensor with every field that a file can carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawTensor {
    /// Name.
    pub name: String,
    /// Dimensions.
    pub shape: Vec<i32>,
    /// Type number.
    pub dtype: u32,
    /// Bytes of a constant.
    pub data: Vec<u8>,
    /// Whether it is a variable; the bytes are then its first value.
    pub variable: bool,
    /// Whether the file says that it has no rank.
    pub unranked: bool,
    /// Size of data kept outside the file.
    pub external_size: u64,
    /// Type number of a block-scaled tensor's scales.
    pub scale_type: u32,
    /// How many of its elements share a scale.
    pub block_shape: u32,
    /// The scales of a constant.
    pub scale_data: Vec<u8>,
}

/// An operator with every field that a file can carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawOperator {
    /// Operator number.
    pub code: u32,
    /// Union tag of the attribute; right files repeat the operator number.
    pub attribute_type: u8,
    /// Attribute.
    pub attribute: Attribute,
    /// Operand names.
    pub inputs: Vec<String>,
    /// Result names.
    pub outputs: Vec<String>,
}

/// A graph under construction: the block of its first region, and regions behind that.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Major, minor, patch; 1.0.0 at first.
    pub version: [i32; 3],
    /// Draft flag.
    pub draft: bool,
    /// Name and contents of further regions, for COND_IF and WHILE_LOOP; their own regions are not written.
    pub regions: Vec<(String, Writer)>,
    /// Tensors.
    pub tensors: Vec<RawTensor>,
    /// Shapes: name and elements.
    pub shapes: Vec<(String, Vec<i64>)>,
    /// Operators.
    pub operators: Vec<RawOperator>,
    /// Names of the block's inputs.
    pub inputs: Vec<String>,
    /// Names of the block's outputs.
    pub outputs: Vec<String>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            version: [1, 0, 0],
            draft: false,
            regions: Vec::new(),
            tensors: Vec::new(),
            shapes: Vec::new(),
            operators: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

impl Writer {
    /// An empty graph of version 1.0.0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor without a producer.
    pub fn tensor(&mut self, name: &str, dtype: DType, shape: &[i32]) -> &mut RawTensor {
        let tensor = RawTensor {
            name: name.into(),
            shape: shape.to_vec(),
            dtype: dtype.code(),
            ..RawTensor::default()
        };
        let tensor = match dtype.values() {
            Some(_) => RawTensor { scale_type: DType::Fp8UE8M0.code(), block_shape: BLOCK, ..tensor },
            None => tensor,
        };
        self.tensors.push(tensor);
        let last = self.tensors.len() - 1;
        &mut self.tensors[last]
    }

    /// Adds a block input.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[i32]) {
        self.tensor(name, dtype, shape);
        self.inputs.push(name.into());
    }

    /// Adds a variable: the tensor and its VARIABLE. Without data it starts as zeros.
    pub fn variable(&mut self, name: &str, dtype: DType, shape: &[i32], data: &[u8]) {
        let tensor = self.tensor(name, dtype, shape);
        tensor.variable = true;
        tensor.data = data.to_vec();
        self.raw("VARIABLE", Attribute::None, &[], &[name]);
    }

    /// Adds a constant: the tensor and its CONST. `data` is little-endian, as [`DType::bytes`] counts.
    pub fn constant(&mut self, name: &str, dtype: DType, shape: &[i32], data: &[u8]) {
        self.tensor(name, dtype, shape).data = data.to_vec();
        self.raw("CONST", Attribute::None, &[], &[name]);
    }

    /// Adds a constant of a block-scaled type.
    pub fn scaled_constant(&mut self, name: &str, dtype: DType, shape: &[i32], values: &[u8], scales: &[u8]) {
        let tensor = self.tensor(name, dtype, shape);
        tensor.data = values.to_vec();
        tensor.scale_data = scales.to_vec();
        self.raw("CONST", Attribute::None, &[], &[name]);
    }

    /// Adds a shape constant: the shape and its CONST_SHAPE.
    pub fn shape(&mut self, name: &str, elements: &[i64]) {
        self.shapes.push((name.into(), elements.to_vec()));
        self.raw("CONST_SHAPE", Attribute::None, &[], &[name]);
    }

    /// Adds an operator by TOSA's name and the tensor that it makes.
    pub fn op(
        &mut self,
        name: &str,
        attribute: Attribute,
        inputs: &[&str],
        output: &str,
        dtype: DType,
        shape: &[i32],
    ) {
        self.tensor(output, dtype, shape);
        self.raw(name, attribute, inputs, &[output]);
    }

    /// Adds an operator by TOSA's name without adding tensors; an unknown name becomes operator number 0.
    pub fn raw(
        &mut self,
        name: &str,
        attribute: Attribute,
        inputs: &[&str],
        outputs: &[&str],
    ) -> &mut RawOperator {
        let code = operators::code(name).unwrap_or(0);
        let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        self.operators.push(RawOperator {
            code,
            attribute_type: code as u8,
            attribute,
            inputs: strings(inputs),
            outputs: strings(outputs),
        });
        let last = self.operators.len() - 1;
        &mut self.operators[last]
    }

    /// Lists a block output.
    pub fn output(&mut self, name: &str) {
        self.outputs.push(name.into());
    }

    /// The file's bytes.
    pub fn finish(&self) -> Vec<u8> {
        let mut b = FlatBufferBuilder::new();
        let b = &mut b;
        let mut regions = vec![self.region(b, "main")];
        regions.extend(self.regions.iter().map(|(name, region)| region.region(b, name)));
        let regions = b.create_vector(&regions);
        let [major, minor, patch] = self.version;
        let version = table(b, |t| {
            t.push_slot(slot(0), major, -1);
            t.push_slot(slot(1), minor, -1);
            t.push_slot(slot(2), patch, -1);
            t.push_slot(slot(3), self.draft, true);
        });
        let root = table(b, |t| {
            t.push_slot_always(slot(0), version);
            t.push_slot_always(slot(1), regions);
        });
        b.finish(root, Some("TOSA"));
        b.finished_data().to_vec()
    }

    /// Writes a region of one block.
    fn region<'b>(&self, b: &mut Builder<'b>, name: &str) -> WIPOffset<UnionWIPOffset> {
        let tensors: Vec<_> = self.tensors.iter().map(|tensor| write_tensor(b, tensor)).collect();
        let operators: Vec<_> = self.operators.iter().map(|operator| write_operator(b, operator)).collect();
        let shapes: Vec<_> =
            self.shapes.iter().map(|(name, elements)| write_shape(b, name, elements)).collect();
        let name = b.create_string(name);
        let tensors = b.create_vector(&tensors);
        let operators = b.create_vector(&operators);
        let shapes = b.create_vector(&shapes);
        let inputs = strings(b, &self.inputs);
        let outputs = strings(b, &self.outputs);
        let block = table(b, |t| {
            t.push_slot_always(slot(0), name);
            t.push_slot_always(slot(1), operators);
            t.push_slot_always(slot(2), tensors);
            t.push_slot_always(slot(3), inputs);
            t.push_slot_always(slot(4), outputs);
            t.push_slot_always(slot(5), shapes);
        });
        let blocks = b.create_vector(&[block]);
        table(b, |t| {
            t.push_slot_always(slot(0), name);
            t.push_slot_always(slot(1), blocks);
        })
    }
}

type Builder<'b> = FlatBufferBuilder<'b>;

/// Writes one table; `fields` pushes its fields.
fn table<'b>(b: &mut Builder<'b>, fields: impl FnOnce(&mut Builder<'b>)) -> WIPOffset<UnionWIPOffset> {
    let start = b.start_table();
    fields(b);
    WIPOffset::new(b.end_table(start).value())
}

fn strings<'b>(
    b: &mut Builder<'b>,
    names: &[String],
) -> WIPOffset<flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<&'b str>>> {
    let names: Vec<_> = names.iter().map(|name| b.create_string(name)).collect();
    b.create_vector(&names)
}

/// Writes a table whose only fields are `lists` of integers, `bytes` and the scalars that `rest` pushes.
fn with_lists<'b>(
    b: &mut Builder<'b>,
    lists: &[&[i32]],
    rest: impl FnOnce(&mut Builder<'b>),
) -> WIPOffset<UnionWIPOffset> {
    let lists: Vec<_> = lists.iter().map(|list| b.create_vector(list)).collect();
    table(b, |t| {
        for (index, list) in lists.into_iter().enumerate() {
            t.push_slot_always(slot(index as VOffsetT), list);
        }
        rest(t);
    })
}

fn write_attribute<'b>(b: &mut Builder<'b>, attribute: &Attribute) -> WIPOffset<UnionWIPOffset> {
    match attribute {
        Attribute::None => table(b, |_| {}),
        Attribute::Axis { axis, nan_mode } => table(b, |t| {
            t.push_slot(slot(0), *axis, 0);
            t.push_slot(slot(1), *nan_mode, 0);
        }),
        Attribute::Pool { kernel, stride, pad, last } => {
            with_lists(b, &[kernel, stride, pad], |t| t.push_slot(slot(3), *last, 0))
        }
        Attribute::Conv { pad, stride, dilation, acc_type } => {
            with_lists(b, &[pad, stride, dilation], |t| t.push_slot(slot(4), acc_type.code(), 0))
        }
        Attribute::TransposeConv { out_pad, stride, acc_type } => {
            with_lists(b, &[out_pad, stride], |t| t.push_slot(slot(3), acc_type.code(), 0))
        }
        Attribute::Fft(inverse) => table(b, |t| t.push_slot(slot(0), *inverse, false)),
        Attribute::Clamp { min, max, nan_mode } => {
            let (min, max) = (b.create_vector(min), b.create_vector(max));
            table(b, |t| {
                t.push_slot_always(slot(0), min);
                t.push_slot_always(slot(1), max);
                t.push_slot(slot(2), *nan_mode, 0);
            })
        }
        Attribute::Mode(mode) => table(b, |t| t.push_slot(slot(0), *mode, 0)),
        Attribute::Round(round) => table(b, |t| t.push_slot(slot(0), *round, false)),
        Attribute::Transpose(perms) => with_lists(b, &[perms], |_| {}),
        Attribute::Graphs { first, second } => {
            let (first, second) = (b.create_string(first), b.create_string(second));
            table(b, |t| {
                t.push_slot_always(slot(0), first);
                t.push_slot_always(slot(1), second);
            })
        }
        Attribute::Rescale { scale32, rounding, per_channel, input_unsigned, output_unsigned } => {
            table(b, |t| {
                t.push_slot(slot(0), *scale32, false);
                t.push_slot(slot(1), *rounding, 0);
                t.push_slot(slot(2), *per_channel, false);
                t.push_slot(slot(3), *input_unsigned, false);
                t.push_slot(slot(4), *output_unsigned, false);
            })
        }
    }
}

fn write_tensor<'b>(b: &mut Builder<'b>, tensor: &RawTensor) -> WIPOffset<UnionWIPOffset> {
    let name = b.create_string(&tensor.name);
    let shape = b.create_vector(&tensor.shape);
    let [data, scales] =
        [&tensor.data, &tensor.scale_data].map(|bytes| (!bytes.is_empty()).then(|| b.create_vector(bytes)));
    table(b, |t| {
        t.push_slot_always(slot(0), name);
        t.push_slot_always(slot(1), shape);
        t.push_slot(slot(2), tensor.dtype, 0);
        if let Some(data) = data {
            t.push_slot_always(slot(3), data);
        }
        t.push_slot(slot(4), tensor.variable, false);
        t.push_slot(slot(5), tensor.unranked, false);
        t.push_slot(slot(8), tensor.external_size, 0);
        t.push_slot(slot(9), tensor.scale_type, 0);
        if let Some(scales) = scales {
            t.push_slot_always(slot(10), scales);
        }
        t.push_slot(slot(11), tensor.block_shape, 0);
    })
}

fn write_shape<'b>(b: &mut Builder<'b>, name: &str, elements: &[i64]) -> WIPOffset<UnionWIPOffset> {
    let name = b.create_string(name);
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
    let data = b.create_vector(&bytes);
    table(b, |t| {
        t.push_slot_always(slot(0), name);
        t.push_slot(slot(1), elements.len() as u32, 0);
        t.push_slot_always(slot(2), data);
    })
}

fn write_operator<'b>(b: &mut Builder<'b>, operator: &RawOperator) -> WIPOffset<UnionWIPOffset> {
    let attribute = write_attribute(b, &operator.attribute);
    let inputs = strings(b, &operator.inputs);
    let outputs = strings(b, &operator.outputs);
    table(b, |t| {
        t.push_slot(slot(0), operator.code, 0);
        if operator.attribute_type != 0 {
            t.push_slot_always(slot(1), operator.attribute_type);
            t.push_slot_always(slot(2), attribute);
        }
        t.push_slot_always(slot(3), inputs);
        t.push_slot_always(slot(4), outputs);
    })
}
