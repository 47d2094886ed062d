//! The table of TOSA operators: names, operands and the types that each accepts.
//!
//! Everything that needs to know an operator's types reads it here: the checks of this crate, the operator table
//! of the documentation, and the device's answer to a query.

mod pairs;
mod scaled;

use crate::DType;
use crate::DType::*;

/// What an implementation must offer to accept a row of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileNeed {
    /// PRO-INT.
    Int,
    /// PRO-FP.
    Float,
    /// Either profile.
    Either,
}

/// One combination of types that an operator accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRow {
    /// A type for each of [`OperatorInfo::columns`].
    pub types: &'static [DType],
    /// Profile that has the combination.
    pub profile: ProfileNeed,
    /// Extensions that it needs, e.g. `EXT-INT16`.
    pub extensions: &'static [&'static str],
    /// Major and minor number of the version that the combination came with.
    pub version: (i32, i32),
}

const V1_0: (i32, i32) = (1, 0);
const V1_1: (i32, i32) = (1, 1);

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandType {
    /// The type in this column of the row.
    Column(usize),
    /// The type of the zero point for operands of the type in this column: the same, but FP32 for block-scaled ones.
    ZeroPoint(usize),
    /// Always this type.
    Fixed(DType),
    /// The operator's own checks decide.
    Checked,
}

/// How an operand reaches the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// A tensor, computed or constant; stays an operand of the node.
    Data,
    /// A constant tensor, or with EXT-DYNAMIC a computed one; stays an operand of the node.
    ConstantData,
    /// A constant tensor that is folded into the operator, or with EXT-DYNAMIC a computed one: then all operands stay.
    Constant,
    /// A CONST_SHAPE, folded into the operator.
    Shape,
}

impl OperandType {
    /// The type among those of a row; `None` where the operator's own checks decide.
    pub fn of(self, types: &[DType]) -> Option<DType> {
        match self {
            Self::Column(column) => Some(types[column]),
            Self::ZeroPoint(column) => {
                Some(if types[column].values().is_some() { Fp32 } else { types[column] })
            }
            Self::Fixed(dtype) => Some(dtype),
            Self::Checked => None,
        }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// TOSA's name for it.
    pub name: &'static str,
    /// How it reaches the operator.
    pub kind: OperandKind,
    /// Its type.
    pub dtype: OperandType,
}

/// Which attribute table an operator carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeKind {
    None,
    Axis,
    Pool,
    Conv,
    TransposeConv,
    Clamp,
    Mode,
    Round,
    Transpose,
    Rescale,
    Fft,
    Graphs,
}

/// An operator that a [`Graph`](crate::Graph) can hold. Where it takes data with or without scales, it is two in the table, of
/// different numbers of operands.
#[derive(Clone, Copy, Debug)]
pub struct OperatorInfo {
    /// Number in the schema.
    pub code: u32,
    /// TOSA's name.
    pub name: &'static str,
    /// Operands in order; for [`variadic`](Self::variadic) operators the only one, repeated.
    pub inputs: &'static [Operand],
    /// Whether the operator takes a list (CONCAT).
    pub variadic: bool,
    /// Type of every result, but for [`scales`](Self::scales).
    pub output: OperandType,
    /// Number of results.
    pub results: usize,
    /// Whether the second result is the scales of the first.
    pub scales: bool,
    /// What the columns of [`rows`](Self::rows) stand for.
    pub columns: &'static [&'static str],
    /// Accepted combinations of types; empty for CONST_SHAPE.
    pub rows: &'static [TypeRow],
    pub(crate) attribute: AttributeKind,
}

impl OperatorInfo {
    /// Whether the operator's result is a shape, or it has none and only looks at shapes.
    pub fn makes_shapes(&self) -> bool {
        self.output == OperandType::Fixed(Shape)
    }

    /// Major and minor number of the version that the operator came with.
    pub fn version(&self) -> (i32, i32) {
        // New operators are appended to the schema.
        if self.code > 75 { V1_1 } else { V1_0 }
    }

    /// Type of the result number `index`.
    pub fn result(&self, index: usize) -> OperandType {
        if self.scales && index == 1 { OperandType::Fixed(Fp8UE8M0) } else { self.output }
    }

    /// Number of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|&c| c == name)
    }
}

macro_rules! rows {
    ($($need:ident $(($extension:expr))? $($version:ident)?: $($t:ident)+;)*) => {
        &[$(TypeRow {
            types: &[$($t),+],
            profile: ProfileNeed::$need,
            extensions: rows!(@extension $($extension)?),
            version: rows!(@version $($version)?),
        }),*]
    };
    (@extension) => { &[] };
    (@extension $extension:expr) => { $extension };
    (@version) => { V1_0 };
    (@version $version:ident) => { $version };
}

const BF16: &str = "EXT-BF16";
const E4M3: &str = "EXT-FP8E4M3";
const E5M2: &str = "EXT-FP8E5M2";
const INT64: &str = "EXT-INT64";

const EXT_INT4: &[&str] = &["EXT-INT4"];
const EXT_INT16: &[&str] = &["EXT-INT16"];
const EXT_INT64: &[&str] = &[INT64];
const EXT_INT64_BF16: &[&str] = &[INT64, BF16];
const EXT_INT64_E4M3: &[&str] = &[INT64, E4M3];
const EXT_INT64_E5M2: &[&str] = &[INT64, E5M2];
const EXT_VARIABLE: &[&str] = &["EXT-VARIABLE"];
const EXT_CONTROLFLOW: &[&str] = &["EXT-CONTROLFLOW"];
const EXT_FFT: &[&str] = &["EXT-FFT"];
const EXT_BF16: &[&str] = &[BF16];
const EXT_E4M3: &[&str] = &[E4M3];
const EXT_E5M2: &[&str] = &[E5M2];
const EXT_BF16_E4M3: &[&str] = &[BF16, E4M3];
const EXT_BF16_E5M2: &[&str] = &[BF16, E5M2];
const EXT_E4M3_E5M2: &[&str] = &[E4M3, E5M2];

const FLOAT: &[TypeRow] = rows! { Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16; };
const BOOL: &[TypeRow] = rows! { Either: Bool; };
const INT32_FIRST: &[TypeRow] =
    rows! { Either: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16; Either(EXT_INT64) V1_1: Int64; };
const INT32_FLOAT: &[TypeRow] =
    rows! { Int: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16; Either(EXT_INT64) V1_1: Int64; };
const INTS: &[TypeRow] = rows! { Int: Int8; Int: Int16; Int: Int32; Either(EXT_INT64) V1_1: Int64; };
const SHIFTED: &[TypeRow] =
    rows! { Either: Int8; Either: Int16; Either: Int32; Either(EXT_INT64) V1_1: Int64; };
const INTS_FLOAT: &[TypeRow] = rows! {
    Int: Int8; Int: Int16; Int: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
    Either(EXT_INT64) V1_1: Int64;
};
const CLAMPED: &[TypeRow] = rows! {
    Int: Int8; Int(EXT_INT16): Int16; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
};
const NARROW: &[TypeRow] = rows! {
    Int: Int8; Int(EXT_INT16): Int16; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
    Float(EXT_E4M3): Fp8E4M3; Float(EXT_E5M2): Fp8E5M2;
};
const LARGEST: &[TypeRow] = rows! {
    Int: Int8 Int32; Int(EXT_INT16): Int16 Int32; Float: Fp16 Int32; Float: Fp32 Int32; Float(EXT_BF16): Bf16 Int32;
    Float(EXT_E4M3): Fp8E4M3 Int32; Float(EXT_E5M2): Fp8E5M2 Int32;
    Int(EXT_INT64) V1_1: Int8 Int64; Int(EXT_INT64) V1_1: Int16 Int64; Int(EXT_INT64) V1_1: Int32 Int64;
    Int(EXT_INT64) V1_1: Int64 Int64; Float(EXT_INT64) V1_1: Fp16 Int64; Float(EXT_INT64) V1_1: Fp32 Int64;
    Float(EXT_INT64_BF16) V1_1: Bf16 Int64; Float(EXT_INT64_E4M3) V1_1: Fp8E4M3 Int64;
    Float(EXT_INT64_E5M2) V1_1: Fp8E5M2 Int64;
};
const SELECTED: &[TypeRow] = rows! {
    Either: Bool; Int: Int8; Int: Int16; Int: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
    Either(EXT_INT64) V1_1: Int64;
};
const MOVED: &[TypeRow] = rows! {
    Either: Bool; Int: Int8; Int: Int16; Int: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
    Float(EXT_E4M3): Fp8E4M3; Float(EXT_E5M2): Fp8E5M2;
    Either(EXT_INT64) V1_1: Int64;
};
const JOINED: &[TypeRow] = rows! {
    Either: Bool; Int: Int8; Int(EXT_INT16): Int16; Int: Int32; Float: Fp16; Float: Fp32;
    Float(EXT_BF16): Bf16; Float(EXT_E4M3): Fp8E4M3; Float(EXT_E5M2): Fp8E5M2;
    Either(EXT_INT64) V1_1: Int64;
};
// BOOL is what the official generator makes for 1.0 too, and the reference model runs.
const GATHERED: &[TypeRow] = rows! {
    Either: Bool; Int: Int8; Int: Int16; Int: Int32; Float: Fp16; Float: Fp32; Float(EXT_BF16): Bf16;
    Float(EXT_E4M3): Fp8E4M3; Float(EXT_E5M2): Fp8E5M2;
    Either(EXT_INT64) V1_1: Int64;
};
const ANY: &[TypeRow] = rows! {
    Either: Bool; Either: Int8; Either: Int16; Either: Int32; Float: Fp16; Float: Fp32;
    Int(EXT_INT4): Int4; Int(EXT_INT16): Int48; Float(EXT_BF16): Bf16;
    Float(EXT_E4M3): Fp8E4M3; Float(EXT_E5M2): Fp8E5M2;
    Either(EXT_INT64) V1_1: Int64;
};
const HELD: &[TypeRow] = rows! {
    Either V1_1: Bool; Int V1_1: Int8; Int V1_1: Int16; Int V1_1: Int32; Float V1_1: Fp16; Float V1_1: Fp32;
    Float(EXT_BF16) V1_1: Bf16; Float(EXT_E4M3) V1_1: Fp8E4M3; Float(EXT_E5M2) V1_1: Fp8E5M2;
    Either(EXT_INT64) V1_1: Int64;
};
const POOLED: &[TypeRow] = rows! {
    Int: Int8 Int32; Int(EXT_INT16): Int16 Int32; Float: Fp16 Fp16; Float: Fp16 Fp32; Float: Fp32 Fp32;
    Float(EXT_BF16): Bf16 Fp32; Float(EXT_E4M3): Fp8E4M3 Fp16; Float(EXT_E5M2): Fp8E5M2 Fp16;
};
const CONVOLVED: &[TypeRow] = rows! {
    Int: Int8 Int8 Int32 Int32; Int(EXT_INT4): Int8 Int4 Int32 Int32; Int(EXT_INT16): Int16 Int8 Int48 Int48;
    Float: Fp16 Fp16 Fp16 Fp16; Float: Fp16 Fp16 Fp16 Fp32; Float: Fp32 Fp32 Fp32 Fp32;
    Float(EXT_BF16): Bf16 Bf16 Bf16 Fp32;
    Float(EXT_E4M3): Fp8E4M3 Fp8E4M3 Fp16 Fp16; Float(EXT_E5M2): Fp8E5M2 Fp8E5M2 Fp16 Fp16;
};
const MULTIPLIED: &[TypeRow] = rows! {
    Int: Int8 Int8 Int32; Int(EXT_INT16): Int16 Int16 Int48;
    Float: Fp16 Fp16 Fp16; Float: Fp16 Fp16 Fp32; Float: Fp32 Fp32 Fp32; Float(EXT_BF16): Bf16 Bf16 Fp32;
    Float(EXT_E4M3): Fp8E4M3 Fp8E4M3 Fp16; Float(EXT_E5M2): Fp8E5M2 Fp8E5M2 Fp16;
    Float(EXT_E4M3) V1_1: Fp8E4M3 Fp8E4M3 Fp32; Float(EXT_E5M2) V1_1: Fp8E5M2 Fp8E5M2 Fp32;
    Float(EXT_E4M3_E5M2) V1_1: Fp8E4M3 Fp8E5M2 Fp16; Float(EXT_E4M3_E5M2) V1_1: Fp8E4M3 Fp8E5M2 Fp32;
    Float(EXT_E4M3_E5M2) V1_1: Fp8E5M2 Fp8E4M3 Fp16; Float(EXT_E4M3_E5M2) V1_1: Fp8E5M2 Fp8E4M3 Fp32;
};
const PRODUCTS: &[TypeRow] = rows! {
    Int: Int8 Int32; Int: Int16 Int32; Either: Int32 Int32;
    Float: Fp16 Fp16; Float: Fp32 Fp32; Float(EXT_BF16): Bf16 Bf16;
    Either(EXT_INT64) V1_1: Int64 Int64;
};
const KEPT: &[TypeRow] =
    rows! { Int(EXT_VARIABLE): Int8; Float(EXT_VARIABLE): Fp16; Float(EXT_VARIABLE): Fp32; };
const DECIDED: &[TypeRow] = rows! { Either(EXT_CONTROLFLOW): Bool; };
const TRANSFORMED: &[TypeRow] = rows! { Float(EXT_FFT): Fp32; };
const TABLED: &[TypeRow] = rows! { Int: Int8 Int8 Int8; Int(EXT_INT16): Int16 Int16 Int32; };
const RESIZED: &[TypeRow] = rows! {
    Int: Int8 Int32; Int: Int8 Int8; Int(EXT_INT16): Int16 Int48; Int(EXT_INT16): Int16 Int16;
    Float: Fp16 Fp16; Float: Fp32 Fp32; Float(EXT_BF16): Bf16 Bf16;
    Float(EXT_E4M3) V1_1: Fp8E4M3 Fp8E4M3; Float(EXT_E5M2) V1_1: Fp8E5M2 Fp8E5M2;
};
const RESCALED: &[TypeRow] = rows! {
    Int: Int8 Int8; Int: Int8 Int16; Int: Int8 Int32; Int: Int16 Int8; Int: Int16 Int16; Int: Int16 Int32;
    Int: Int32 Int8; Int: Int32 Int16; Int: Int32 Int32;
    Int(EXT_INT16): Int48 Int8; Int(EXT_INT16): Int48 Int16; Int(EXT_INT16): Int48 Int32;
};
const CONVERTED: &[TypeRow] = rows! {
    Int: Bool Int8; Int: Bool Int16; Int: Bool Int32; Int: Int8 Bool; Int: Int8 Int16; Int: Int8 Int32;
    Int: Int16 Bool; Int: Int16 Int8; Int: Int16 Int32; Int: Int32 Bool; Int: Int32 Int8; Int: Int32 Int16;
    Float: Int8 Fp16; Float: Int8 Fp32; Float: Int16 Fp16; Float: Int16 Fp32; Float: Int32 Fp16; Float: Int32 Fp32;
    Float: Fp16 Int8; Float: Fp16 Int16; Float: Fp16 Int32; Float: Fp16 Fp32;
    Float: Fp32 Int8; Float: Fp32 Int16; Float: Fp32 Int32; Float: Fp32 Fp16;
    Float V1_1: Bool Fp32; Float V1_1: Fp32 Bool;
    Float(EXT_BF16): Int8 Bf16; Float(EXT_BF16): Int16 Bf16; Float(EXT_BF16): Int32 Bf16;
    Float(EXT_BF16): Bf16 Int8; Float(EXT_BF16): Bf16 Int16; Float(EXT_BF16): Bf16 Int32;
    Float(EXT_BF16): Bf16 Fp32; Float(EXT_BF16): Fp32 Bf16;
    Float(EXT_E4M3): Fp8E4M3 Fp16; Float(EXT_E4M3): Fp8E4M3 Fp32; Float(EXT_BF16_E4M3): Fp8E4M3 Bf16;
    Float(EXT_E4M3): Fp16 Fp8E4M3; Float(EXT_E4M3): Fp32 Fp8E4M3; Float(EXT_BF16_E4M3): Bf16 Fp8E4M3;
    Float(EXT_E5M2): Fp8E5M2 Fp16; Float(EXT_E5M2): Fp8E5M2 Fp32; Float(EXT_BF16_E5M2): Fp8E5M2 Bf16;
    Float(EXT_E5M2): Fp16 Fp8E5M2; Float(EXT_E5M2): Fp32 Fp8E5M2; Float(EXT_BF16_E5M2): Bf16 Fp8E5M2;
    Either(EXT_INT64) V1_1: Bool Int64; Either(EXT_INT64) V1_1: Int64 Bool;
    Either(EXT_INT64) V1_1: Int32 Int64; Either(EXT_INT64) V1_1: Int64 Int32;
};

/// What came with 1.1 follows the rows of 1.0, so that those are found first.
const CONVOLVED_2D: &[TypeRow] =
    &join::<{ CONVOLVED.len() + pairs::CONVOLUTIONS }>(CONVOLVED, &pairs::CONVOLVED);
const MULTIPLIED_T: &[TypeRow] =
    &join::<{ INTEGER_PRODUCTS.len() + pairs::PRODUCTS }>(INTEGER_PRODUCTS, &pairs::MULTIPLIED);
const INTEGER_PRODUCTS: &[TypeRow] =
    rows! { Int V1_1: Int8 Int8 Int32; Int(EXT_INT16) V1_1: Int16 Int16 Int48; };
const JOINED_SCALED: &[TypeRow] = &join::<{ JOINED.len() + 6 }>(JOINED, &scaled::MOVED);
const RESHAPED: &[TypeRow] = &join::<{ MOVED.len() + 6 }>(MOVED, &scaled::MOVED);
const ROWS_GATHERED: &[TypeRow] = &join::<{ GATHERED.len() + 6 }>(GATHERED, &scaled::MOVED);
const RESIZED_SCALED: &[TypeRow] = &join::<{ RESIZED.len() + 6 }>(RESIZED, &scaled::KEPT);
const CONVERTED_SCALED: &[TypeRow] =
    &join::<{ CONVERTED.len() + scaled::CASTS }>(CONVERTED, &scaled::CONVERTED);
/// Weights and their scales, of either kind.
const CONSTANTS: &[TypeRow] = &join::<{ ANY.len() + 11 }>(ANY, &scaled::CONSTANTS);

/// Two tables as one.
const fn join<const N: usize>(first: &[TypeRow], second: &[TypeRow]) -> [TypeRow; N] {
    let mut rows = [pairs::BLANK; N];
    let mut at = 0;
    while at < N {
        rows[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    rows
}

const fn operand(name: &'static str, kind: OperandKind, dtype: OperandType) -> Operand {
    Operand { name, kind, dtype }
}
const fn data(name: &'static str, column: usize) -> Operand {
    operand(name, OperandKind::Data, OperandType::Column(column))
}
const fn constant(name: &'static str, column: usize) -> Operand {
    operand(name, OperandKind::Constant, OperandType::Column(column))
}
const fn zero_point(name: &'static str, column: usize) -> Operand {
    operand(name, OperandKind::Constant, OperandType::ZeroPoint(column))
}
const fn scale(name: &'static str) -> Operand {
    operand(name, OperandKind::Data, OperandType::Fixed(Fp8UE8M0))
}
const fn shape(name: &'static str) -> Operand {
    operand(name, OperandKind::Shape, OperandType::Fixed(Shape))
}

const ONE: &[&str] = &["type"];
const IN_OUT: &[&str] = &["input", "output"];
const FIRST: OperandType = OperandType::Column(0);
const UNARY: &[Operand] = &[data("input1", 0)];
const BINARY: &[Operand] = &[data("input1", 0), data("input2", 0)];
const CONV: &[Operand] = &[
    data("input", 0),
    data("weight", 1),
    data("bias", 2),
    zero_point("input_zp", 0),
    zero_point("weight_zp", 1),
];
const CONV_COLUMNS: &[&str] = &["input", "weight", "output", "accumulator"];
const IN: &[Operand] = &[data("input", 0)];

const fn entry(
    code: u32,
    name: &'static str,
    attribute: AttributeKind,
    inputs: &'static [Operand],
    rows: &'static [TypeRow],
) -> OperatorInfo {
    OperatorInfo {
        code,
        name,
        inputs,
        variadic: false,
        output: FIRST,
        results: 1,
        scales: false,
        columns: ONE,
        rows,
        attribute,
    }
}

const fn unary(code: u32, name: &'static str, rows: &'static [TypeRow]) -> OperatorInfo {
    entry(code, name, AttributeKind::None, UNARY, rows)
}

const fn binary(code: u32, name: &'static str, rows: &'static [TypeRow]) -> OperatorInfo {
    entry(code, name, AttributeKind::None, BINARY, rows)
}

const fn compare(code: u32, name: &'static str) -> OperatorInfo {
    OperatorInfo { output: OperandType::Fixed(Bool), ..binary(code, name, INT32_FLOAT) }
}

const fn axis(code: u32, name: &'static str, rows: &'static [TypeRow]) -> OperatorInfo {
    entry(code, name, AttributeKind::Axis, IN, rows)
}

const fn conv(code: u32, name: &'static str, attribute: AttributeKind) -> OperatorInfo {
    OperatorInfo {
        output: OperandType::Column(2),
        columns: CONV_COLUMNS,
        ..entry(code, name, attribute, CONV, CONVOLVED)
    }
}

/// COND_IF and WHILE_LOOP: what their lists and graphs may hold is no matter of types.
const fn control(code: u32, name: &'static str) -> OperatorInfo {
    OperatorInfo { columns: &["condition"], ..entry(code, name, AttributeKind::Graphs, &[], DECIDED) }
}

/// An operator that only has shapes, or numbers with them.
const fn on_shapes(code: u32, name: &'static str, inputs: &'static [Operand]) -> OperatorInfo {
    OperatorInfo {
        output: OperandType::Fixed(Shape),
        columns: &[],
        ..entry(code, name, AttributeKind::None, inputs, &[])
    }
}

const ONE_SHAPE: &[Operand] = &[shape("input")];
const TWO_SHAPES: &[Operand] = &[shape("input1"), shape("input2")];

/// Operators in the order of their codes.
const OPERATORS: &[OperatorInfo] = &[
    OperatorInfo { output: OperandType::Column(1), columns: IN_OUT, ..axis(1, "ARGMAX", LARGEST) },
    OperatorInfo {
        columns: &["input", "accumulator"],
        ..entry(
            2,
            "AVG_POOL2D",
            AttributeKind::Pool,
            &[data("input", 0), constant("input_zp", 0), constant("output_zp", 0)],
            POOLED,
        )
    },
    OperatorInfo { rows: CONVOLVED_2D, ..conv(3, "CONV2D", AttributeKind::Conv) },
    conv(4, "CONV3D", AttributeKind::Conv),
    conv(5, "DEPTHWISE_CONV2D", AttributeKind::Conv),
    OperatorInfo {
        results: 2,
        ..entry(6, "FFT2D", AttributeKind::Fft, &[data("input_real", 0), data("input_imag", 0)], TRANSFORMED)
    },
    OperatorInfo {
        output: OperandType::Column(2),
        columns: &["a", "b", "output"],
        ..entry(
            7,
            "MATMUL",
            AttributeKind::None,
            &[data("A", 0), data("B", 1), zero_point("A_zp", 0), zero_point("B_zp", 1)],
            MULTIPLIED,
        )
    },
    entry(8, "MAX_POOL2D", AttributeKind::Pool, IN, NARROW),
    OperatorInfo {
        results: 2,
        ..entry(9, "RFFT2D", AttributeKind::None, &[data("input_real", 0)], TRANSFORMED)
    },
    conv(10, "TRANSPOSE_CONV2D", AttributeKind::TransposeConv),
    entry(11, "CLAMP", AttributeKind::Clamp, IN, CLAMPED),
    unary(12, "ERF", FLOAT),
    unary(13, "SIGMOID", FLOAT),
    unary(14, "TANH", FLOAT),
    binary(15, "ADD", INT32_FIRST),
    entry(16, "ARITHMETIC_RIGHT_SHIFT", AttributeKind::Round, BINARY, INTS),
    binary(17, "BITWISE_AND", INTS),
    binary(18, "BITWISE_OR", INTS),
    binary(19, "BITWISE_XOR", INTS),
    binary(20, "INTDIV", rows! { Either: Int32; Either(EXT_INT64) V1_1: Int64; }),
    binary(21, "LOGICAL_AND", BOOL),
    binary(22, "LOGICAL_LEFT_SHIFT", SHIFTED),
    binary(23, "LOGICAL_RIGHT_SHIFT", SHIFTED),
    binary(24, "LOGICAL_OR", BOOL),
    binary(25, "LOGICAL_XOR", BOOL),
    entry(26, "MAXIMUM", AttributeKind::Mode, BINARY, INT32_FLOAT),
    entry(27, "MINIMUM", AttributeKind::Mode, BINARY, INT32_FLOAT),
    OperatorInfo {
        output: OperandType::Column(1),
        columns: IN_OUT,
        ..entry(
            28,
            "MUL",
            AttributeKind::None,
            &[
                data("input1", 0),
                data("input2", 0),
                operand("shift", OperandKind::Constant, OperandType::Fixed(Int8)),
            ],
            PRODUCTS,
        )
    },
    binary(29, "POW", FLOAT),
    binary(30, "SUB", INT32_FIRST),
    OperatorInfo {
        output: OperandType::Column(2),
        columns: &["input", "table", "output"],
        ..entry(
            31,
            "TABLE",
            AttributeKind::None,
            &[data("input1", 0), operand("table", OperandKind::ConstantData, OperandType::Column(1))],
            TABLED,
        )
    },
    unary(32, "ABS", INT32_FLOAT),
    unary(33, "BITWISE_NOT", INTS),
    unary(34, "CEIL", FLOAT),
    unary(35, "CLZ", rows! { Int: Int32; Either(EXT_INT64) V1_1: Int64; }),
    unary(36, "COS", FLOAT),
    unary(37, "EXP", FLOAT),
    unary(38, "FLOOR", FLOAT),
    unary(39, "LOG", FLOAT),
    unary(40, "LOGICAL_NOT", BOOL),
    entry(
        41,
        "NEGATE",
        AttributeKind::None,
        &[data("input1", 0), constant("input1_zp", 0), constant("output_zp", 0)],
        INTS_FLOAT,
    ),
    unary(42, "RECIPROCAL", FLOAT),
    unary(43, "RSQRT", FLOAT),
    unary(44, "SIN", FLOAT),
    entry(
        45,
        "SELECT",
        AttributeKind::None,
        &[
            operand("input1", OperandKind::Data, OperandType::Fixed(Bool)),
            data("input2", 0),
            data("input3", 0),
        ],
        SELECTED,
    ),
    compare(46, "EQUAL"),
    compare(47, "GREATER"),
    compare(48, "GREATER_EQUAL"),
    axis(49, "REDUCE_ALL", BOOL),
    axis(50, "REDUCE_ANY", BOOL),
    axis(51, "REDUCE_MAX", INTS_FLOAT),
    axis(52, "REDUCE_MIN", INTS_FLOAT),
    axis(53, "REDUCE_PRODUCT", FLOAT),
    axis(54, "REDUCE_SUM", INT32_FLOAT),
    OperatorInfo { variadic: true, ..axis(55, "CONCAT", JOINED_SCALED) },
    entry(
        56,
        "PAD",
        AttributeKind::None,
        &[data("input1", 0), shape("padding"), constant("pad_const", 0)],
        MOVED,
    ),
    entry(57, "RESHAPE", AttributeKind::None, &[data("input1", 0), shape("shape")], RESHAPED),
    axis(58, "REVERSE", MOVED),
    entry(59, "SLICE", AttributeKind::None, &[data("input1", 0), shape("start"), shape("size")], MOVED),
    entry(60, "TILE", AttributeKind::None, &[data("input1", 0), shape("multiples")], MOVED),
    entry(61, "TRANSPOSE", AttributeKind::Transpose, UNARY, MOVED),
    entry(
        62,
        "GATHER",
        AttributeKind::None,
        &[data("values", 0), operand("indices", OperandKind::Data, OperandType::Checked)],
        GATHERED,
    ),
    entry(
        63,
        "SCATTER",
        AttributeKind::None,
        &[
            data("values_in", 0),
            operand("indices", OperandKind::Data, OperandType::Checked),
            data("input", 0),
        ],
        GATHERED,
    ),
    OperatorInfo {
        output: OperandType::Column(1),
        columns: IN_OUT,
        ..entry(
            64,
            "RESIZE",
            AttributeKind::Mode,
            &[data("input", 0), shape("scale"), shape("offset"), shape("border")],
            RESIZED_SCALED,
        )
    },
    OperatorInfo {
        output: OperandType::Column(1),
        columns: IN_OUT,
        ..entry(65, "CAST", AttributeKind::None, IN, CONVERTED_SCALED)
    },
    OperatorInfo {
        output: OperandType::Column(1),
        columns: IN_OUT,
        ..entry(
            66,
            "RESCALE",
            AttributeKind::Rescale,
            &[
                data("input", 0),
                operand("multiplier", OperandKind::ConstantData, OperandType::Checked),
                operand("shift", OperandKind::ConstantData, OperandType::Fixed(Int8)),
                zero_point("input_zp", 0),
                constant("output_zp", 1),
            ],
            RESCALED,
        )
    },
    entry(67, "CONST", AttributeKind::None, &[], CONSTANTS),
    entry(68, "IDENTITY", AttributeKind::None, UNARY, ANY),
    control(70, "COND_IF"),
    control(71, "WHILE_LOOP"),
    entry(72, "VARIABLE", AttributeKind::None, &[], KEPT),
    entry(73, "VARIABLE_WRITE", AttributeKind::None, UNARY, KEPT),
    entry(74, "VARIABLE_READ", AttributeKind::None, UNARY, KEPT),
    on_shapes(75, "CONST_SHAPE", &[]),
    OperatorInfo {
        output: OperandType::Column(2),
        columns: &["a", "b", "output"],
        ..entry(
            76,
            "MATMUL_T_BLOCK_SCALED",
            AttributeKind::Mode,
            &[data("A_data", 0), scale("A_scale"), data("B_data", 1), scale("B_scale")],
            &scaled::MULTIPLIED,
        )
    },
    OperatorInfo {
        output: OperandType::Column(1),
        columns: IN_OUT,
        ..entry(
            77,
            "CAST_FROM_BLOCK_SCALED",
            AttributeKind::Mode,
            &[data("input_data", 0), scale("input_scale")],
            &scaled::DECODED,
        )
    },
    OperatorInfo {
        output: OperandType::Column(1),
        results: 2,
        scales: true,
        columns: IN_OUT,
        ..entry(78, "CAST_TO_BLOCK_SCALED", AttributeKind::Mode, &[data("input_data", 0)], &scaled::ENCODED)
    },
    OperatorInfo { output: OperandType::Fixed(Shape), ..entry(79, "DIM", AttributeKind::Axis, UNARY, HELD) },
    OperatorInfo { variadic: true, ..on_shapes(80, "CONCAT_SHAPE", &[shape("input")]) },
    on_shapes(81, "ADD_SHAPE", TWO_SHAPES),
    on_shapes(82, "SUB_SHAPE", TWO_SHAPES),
    on_shapes(83, "MUL_SHAPE", TWO_SHAPES),
    on_shapes(
        84,
        "SLICE_SHAPE",
        &[
            shape("input"),
            operand("start", OperandKind::Constant, OperandType::Fixed(Int32)),
            operand("size", OperandKind::Constant, OperandType::Fixed(Int32)),
        ],
    ),
    on_shapes(85, "EXP2_SHAPE", ONE_SHAPE),
    on_shapes(86, "LOG2_CEIL_SHAPE", ONE_SHAPE),
    on_shapes(87, "LOG2_FLOOR_SHAPE", ONE_SHAPE),
    on_shapes(88, "MAX_SHAPE", TWO_SHAPES),
    on_shapes(89, "MIN_SHAPE", TWO_SHAPES),
    on_shapes(90, "MOD_SHAPE", TWO_SHAPES),
    on_shapes(91, "DIV_CEIL_SHAPE", TWO_SHAPES),
    on_shapes(92, "DIV_FLOOR_SHAPE", TWO_SHAPES),
    OperatorInfo {
        results: 0,
        attribute: AttributeKind::Round,
        ..on_shapes(93, "ASSERT_EQUAL_SHAPE", TWO_SHAPES)
    },
    OperatorInfo {
        output: OperandType::Column(2),
        columns: &["input", "weight", "output"],
        ..entry(
            94,
            "CONV2D_BLOCK_SCALED",
            AttributeKind::Mode,
            &[
                data("input_data", 0),
                scale("input_scale"),
                data("weight_data", 1),
                scale("weight_scale"),
                data("bias", 2),
                shape("pad"),
                shape("stride"),
                shape("dilation"),
            ],
            &scaled::CONVOLVED,
        )
    },
    entry(
        95,
        "MAX_POOL2D_ADAPTIVE",
        AttributeKind::Mode,
        &[data("input", 0), shape("kernel"), shape("stride"), shape("pad")],
        NARROW,
    ),
    OperatorInfo {
        columns: &["input", "accumulator"],
        ..entry(
            96,
            "AVG_POOL2D_ADAPTIVE",
            AttributeKind::Mode,
            &[
                data("input", 0),
                zero_point("input_zp", 0),
                constant("output_zp", 0),
                shape("kernel"),
                shape("stride"),
                shape("pad"),
            ],
            POOLED,
        )
    },
    entry(
        97,
        "RESHAPE_BLOCK_SCALED",
        AttributeKind::Mode,
        &[data("input_data", 0), shape("new_shape")],
        HELD,
    ),
    OperatorInfo {
        results: 2,
        scales: true,
        columns: &["values"],
        ..entry(
            97,
            "RESHAPE_BLOCK_SCALED",
            AttributeKind::Mode,
            &[data("input_data", 0), scale("input_scale"), shape("new_shape")],
            &scaled::VALUES,
        )
    },
    entry(
        98,
        "ROW_GATHER_BLOCK_SCALED",
        AttributeKind::Mode,
        &[
            data("values_data", 0),
            operand("indices", OperandKind::Data, OperandType::Checked),
            operand("row_count", OperandKind::Constant, OperandType::Fixed(Int32)),
        ],
        HELD,
    ),
    OperatorInfo {
        results: 2,
        scales: true,
        columns: &["values"],
        ..entry(
            98,
            "ROW_GATHER_BLOCK_SCALED",
            AttributeKind::Mode,
            &[
                data("values_data", 0),
                scale("values_scale"),
                operand("indices", OperandKind::Data, OperandType::Checked),
                operand("row_count", OperandKind::Constant, OperandType::Fixed(Int32)),
            ],
            &scaled::VALUES,
        )
    },
    entry(
        99,
        "ROW_GATHER",
        AttributeKind::None,
        &[
            data("values", 0),
            operand("indices", OperandKind::Data, OperandType::Checked),
            operand("row_count", OperandKind::Constant, OperandType::Fixed(Int32)),
        ],
        ROWS_GATHERED,
    ),
    OperatorInfo {
        output: OperandType::Column(2),
        columns: &["a", "b", "output"],
        ..entry(
            100,
            "MATMUL_T",
            AttributeKind::None,
            &[data("A", 0), data("B", 1), zero_point("A_zp", 0), zero_point("B_zp", 1)],
            MULTIPLIED_T,
        )
    },
];

/// The operators that a [`Graph`](crate::Graph) can hold, in the order of their codes.
pub fn operators() -> &'static [OperatorInfo] {
    OPERATORS
}

/// The operator with this code, `None` when graphs cannot hold it; of two, the one without scales.
pub(crate) fn by_code(code: u32) -> Option<&'static OperatorInfo> {
    let first = OPERATORS.partition_point(|operator| operator.code < code);
    OPERATORS.get(first).filter(|operator| operator.code == code)
}

/// The operator with this code; of two, the one with so many operands, if any.
pub(crate) fn by_operands(code: u32, operands: usize) -> Option<&'static OperatorInfo> {
    let first = OPERATORS.partition_point(|operator| operator.code < code);
    let same = OPERATORS[first..].iter().take_while(|operator| operator.code == code);
    same.filter(|operator| operator.inputs.len() == operands).last().or(by_code(code))
}

/// The code of any operator of the schema, by TOSA's name.
#[cfg(feature = "writer")]
pub(crate) fn code(name: &str) -> Option<u32> {
    (1..=100).find(|&code| {
        by_code(code).map(|info| info.name).or(refused(code).map(|(name, _)| name)) == Some(name)
    })
}

/// An operator of the schema that is refused: its name and why.
pub(crate) fn refused(code: u32) -> Option<(&'static str, &'static str)> {
    match code {
        69 => Some(("CUSTOM", "custom operators have no portable meaning and are never run")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete() {
        let order = |operator: &OperatorInfo| (operator.code, operator.inputs.len());
        assert!(OPERATORS.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])));
        for code in 1..=100 {
            assert!(by_code(code).is_some() != refused(code).is_some(), "code {code}");
        }
    }

    #[test]
    fn every_row_has_a_type_for_every_column() {
        for operator in OPERATORS {
            for row in operator.rows {
                assert_eq!(row.types.len(), operator.columns.len(), "{}", operator.name);
            }
            let uses = operator.inputs.iter().map(|i| i.dtype).chain([operator.output]);
            for used in uses {
                if let OperandType::Column(column) | OperandType::ZeroPoint(column) = used {
                    assert!(column < operator.columns.len(), "{}", operator.name);
                }
            }
        }
    }
}
