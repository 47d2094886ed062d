//! Element types.

/// Element type of a tensor (TOSA 1.0 section 1.10.1, and those of 1.1).
///
/// A block-scaled tensor is values with a scale for every [`BLOCK`] of them along the last dimension: an element is
/// the value times the scale.
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
    /// OCP FP6 E2M3, four in three bytes, the first in the lowest bits (TOSA 1.1, as the following).
    Fp6E2M3,
    /// OCP FP6 E3M2, packed likewise.
    Fp6E3M2,
    /// OCP FP4 E2M1, two per byte, low nibble first.
    Fp4E2M1,
    /// A scale of a block: 2^(byte - 127), NaN for 255.
    Fp8UE8M0,
    /// Signed 64-bit.
    Int64,
    /// OCP MXINT8: a signed byte that counts sixty-fourths.
    MxInt8,
    /// Block-scaled FP8 E4M3.
    Bs32Fp8E4M3,
    /// Block-scaled FP8 E5M2.
    Bs32Fp8E5M2,
    /// Block-scaled FP6 E2M3.
    Bs32Fp6E2M3,
    /// Block-scaled FP6 E3M2.
    Bs32Fp6E3M2,
    /// Block-scaled FP4 E2M1.
    Bs32Fp4E2M1,
    /// Block-scaled MXINT8.
    Bs32MxInt8,
}

/// Values that share a scale.
pub const BLOCK: u32 = 32;

impl DType {
    /// The types of values that can be scaled in blocks.
    pub const SCALABLE: [Self; 6] =
        [Self::Fp8E4M3, Self::Fp8E5M2, Self::Fp6E2M3, Self::Fp6E3M2, Self::Fp4E2M1, Self::MxInt8];
    /// The block-scaled types, in the same order.
    pub const BLOCK_SCALED: [Self; 6] = [
        Self::Bs32Fp8E4M3,
        Self::Bs32Fp8E5M2,
        Self::Bs32Fp6E2M3,
        Self::Bs32Fp6E3M2,
        Self::Bs32Fp4E2M1,
        Self::Bs32MxInt8,
    ];

    /// Bits of one element as a guest binds it and as the artifact stores it; of a block-scaled type, those of a value.
    pub const fn bits(self) -> usize {
        match self {
            Self::Int4 | Self::Fp4E2M1 | Self::Bs32Fp4E2M1 => 4,
            Self::Fp6E2M3 | Self::Fp6E3M2 | Self::Bs32Fp6E2M3 | Self::Bs32Fp6E3M2 => 6,
            Self::Bool | Self::Int8 | Self::Fp8E4M3 | Self::Fp8E5M2 | Self::Fp8UE8M0 | Self::MxInt8 => 8,
            Self::Bs32Fp8E4M3 | Self::Bs32Fp8E5M2 | Self::Bs32MxInt8 => 8,
            Self::Int16 | Self::Fp16 | Self::Bf16 => 16,
            Self::Int32 | Self::Fp32 => 32,
            Self::Int48 => 48,
            Self::Shape | Self::Int64 => 64,
        }
    }

    /// Bytes of one element; `None` where elements share bytes.
    pub const fn bytes(self) -> Option<usize> {
        if self.bits().is_multiple_of(8) { Some(self.bits() / 8) } else { None }
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
            Self::Fp6E2M3 => "FP6E2M3",
            Self::Fp6E3M2 => "FP6E3M2",
            Self::Fp4E2M1 => "FP4E2M1",
            Self::Fp8UE8M0 => "FP8UE8M0",
            Self::Int64 => "INT64",
            Self::MxInt8 => "MXINT8",
            Self::Bs32Fp8E4M3 => "BS32_FP8UE8M0_FP8E4M3",
            Self::Bs32Fp8E5M2 => "BS32_FP8UE8M0_FP8E5M2",
            Self::Bs32Fp6E2M3 => "BS32_FP8UE8M0_FP6E2M3",
            Self::Bs32Fp6E3M2 => "BS32_FP8UE8M0_FP6E3M2",
            Self::Bs32Fp4E2M1 => "BS32_FP8UE8M0_FP4E2M1",
            Self::Bs32MxInt8 => "BS32_FP8UE8M0_MXINT8",
        }
    }

    /// The type with this number in the schema, which has none for block-scaled types; `None` for unknown numbers.
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
            13 => Self::Fp6E2M3,
            14 => Self::Fp6E3M2,
            15 => Self::Fp4E2M1,
            16 => Self::Fp8UE8M0,
            17 => Self::Int64,
            18 => Self::MxInt8,
            _ => return None,
        })
    }

    /// The type's number in the schema; of a block-scaled type, that of its values.
    pub const fn code(self) -> u32 {
        match self.values() {
            Some(values) => values.code(),
            // These stand in the schema's order, whose number 0 is "unknown".
            None => self as u32 + 1,
        }
    }

    /// The type of a block-scaled type's values; `None` for every other type.
    pub const fn values(self) -> Option<Self> {
        Some(match self {
            Self::Bs32Fp8E4M3 => Self::Fp8E4M3,
            Self::Bs32Fp8E5M2 => Self::Fp8E5M2,
            Self::Bs32Fp6E2M3 => Self::Fp6E2M3,
            Self::Bs32Fp6E3M2 => Self::Fp6E3M2,
            Self::Bs32Fp4E2M1 => Self::Fp4E2M1,
            Self::Bs32MxInt8 => Self::MxInt8,
            _ => return None,
        })
    }

    /// The block-scaled type with values of this type; `None` where there is none.
    pub fn block_scaled(self) -> Option<Self> {
        Self::BLOCK_SCALED.into_iter().find(|scaled| scaled.values() == Some(self))
    }

    /// Whether only operators on block-scaled data take the type.
    pub fn is_of_blocks(self) -> bool {
        self.values().is_some() || self == Self::Fp8UE8M0 || Self::SCALABLE[2..].contains(&self)
    }

    /// Whether the type is a floating-point format.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::Fp32
                | Self::Fp16
                | Self::Bf16
                | Self::Fp8E4M3
                | Self::Fp8E5M2
                | Self::Fp6E2M3
                | Self::Fp6E3M2
                | Self::Fp4E2M1
                | Self::Fp8UE8M0
        )
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
