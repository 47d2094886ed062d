//! Element types.

/// Element type of a tensor (TOSA 1.0 section 1.10.1, and INT64 of 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Two per byte, low nibble first.
    Int4,
    /// Signed byte.
    Int8,
    /// Signed 16-bit.
    Int16,
    /// Signed 32-bit.
    Int32,
    /// Signed 48-bit, six bytes in an artifact.
    Int48,
    /// IEEE binary32.
    Fp32,
    /// IEEE binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// Shape element: 64-bit, never a data tensor.
    Shape,
    /// OCP FP8 E4M3.
    Fp8E4M3,
    /// OCP FP8 E5M2.
    Fp8E5M2,
    /// Signed 64-bit (TOSA 1.1).
    Int64,
}

impl DType {
    /// Bytes of one element as a guest binds it and as the artifact stores it; `None` for INT4, whose
    /// elements share bytes.
    pub const fn bytes(self) -> Option<usize> {
        Some(match self {
            Self::Int4 => return None,
            Self::Bool | Self::Int8 | Self::Fp8E4M3 | Self::Fp8E5M2 => 1,
            Self::Int16 | Self::Fp16 | Self::Bf16 => 2,
            Self::Int32 | Self::Fp32 => 4,
            Self::Int48 => 6,
            Self::Shape | Self::Int64 => 8,
        })
    }

    /// The name that TOSA and `tosa-tools` use, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Int4 => "INT4",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int48 => "INT48",
            Self::Fp32 => "FP32",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Shape => "SHAPE",
            Self::Fp8E4M3 => "FP8E4M3",
            Self::Fp8E5M2 => "FP8E5M2",
            Self::Int64 => "INT64",
        }
    }

    /// The type with this number in the schema, `None` for unknown numbers and for the other types of TOSA 1.1.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Bool,
            2 => Self::Int4,
            3 => Self::Int8,
            4 => Self::Int16,
            5 => Self::Int32,
            6 => Self::Int48,
            7 => Self::Fp32,
            8 => Self::Fp16,
            9 => Self::Bf16,
            10 => Self::Shape,
            11 => Self::Fp8E4M3,
            12 => Self::Fp8E5M2,
            17 => Self::Int64,
            _ => return None,
        })
    }

    /// The type's number in the schema.
    pub const fn code(self) -> u32 {
        match self {
            Self::Int64 => 17,
            // The others stand in the schema's order, whose number 0 is "unknown".
            _ => self as u32 + 1,
        }
    }

    /// Whether the type is a floating-point format.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Fp32 | Self::Fp16 | Self::Bf16 | Self::Fp8E4M3 | Self::Fp8E5M2)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
