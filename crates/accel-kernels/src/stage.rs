//! Stages of pointwise chains, as `shaders/common/stages.glsl` runs them.

use accel_tosa::DType;

/// Type of an element in memory. In a chain's register floats are FP32 bits, integers are extended to 32 bits
/// and BOOL is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    F32 = 0,
    F16 = 1,
    Bf16 = 2,
    I8 = 3,
    I16 = 4,
    I32 = 5,
    Bool = 6,
    U8 = 7,
    U16 = 8,
    E4M3 = 9,
    E5M2 = 10,
}

impl Element {
    /// The element of a TOSA type, `None` where chains cannot hold it.
    pub fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::Fp32 => Self::F32,
            DType::Fp16 => Self::F16,
            DType::Bf16 => Self::Bf16,
            DType::Fp8E4M3 => Self::E4M3,
            DType::Fp8E5M2 => Self::E5M2,
            DType::Int8 => Self::I8,
            DType::Int16 => Self::I16,
            DType::Int32 => Self::I32,
            DType::Bool => Self::Bool,
            _ => return None,
        })
    }

    /// The same bits read as unsigned.
    pub fn unsigned(self) -> Self {
        match self {
            Self::I8 => Self::U8,
            Self::I16 => Self::U16,
            other => other,
        }
    }

    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            _ => 1,
        }
    }

    /// Least and greatest value of an integer element, as far as INT32 has them.
    pub fn bounds(self) -> (i32, i32) {
        match self {
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            _ => (i32::MIN, i32::MAX),
        }
    }

    /// Whether the register holds FP32 bits.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::E4M3 | Self::E5M2)
    }
}

/// What a stage computes. The numbers are those of `shaders/common/stage_codes.glsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    AbsF = 1,
    NegateF = 2,
    Ceil = 3,
    Floor = 4,
    Exp = 5,
    Log = 6,
    Reciprocal = 7,
    Rsqrt = 8,
    Sin = 9,
    Cos = 10,
    Tanh = 11,
    Sigmoid = 12,
    Erf = 13,
    AddF = 16,
    SubF = 17,
    MulF = 18,
    Pow = 19,
    MaxF = 20,
    MinF = 21,
    MaxFIgnore = 22,
    MinFIgnore = 23,
    EqualF = 24,
    GreaterF = 25,
    GreaterEqualF = 26,
    ClampF = 27,
    ClampFIgnore = 28,
    AbsI = 32,
    NegateI = 33,
    Not = 34,
    Clz = 35,
    LogicalNot = 36,
    AddI = 37,
    SubI = 38,
    MulI = 39,
    MulShift = 40,
    MaxI = 41,
    MinI = 42,
    Divide = 43,
    ShiftLeft = 44,
    ShiftRight = 45,
    ShiftArithmetic = 46,
    ShiftArithmeticRound = 47,
    And = 48,
    Or = 49,
    Xor = 50,
    EqualI = 51,
    GreaterI = 52,
    GreaterEqualI = 53,
    ClampI = 54,
    Select = 60,
    Rescale = 61,
    RescaleDouble = 62,
    Table8 = 63,
    Table16 = 64,
    MulShiftBy = 65,
    NegateBy = 66,
    IntToFloat = 70,
    FloatToInt = 71,
    Wrap = 72,
    ToBool = 73,
    RoundF16 = 74,
    RoundBf16 = 75,
    IntToBf16 = 76,
    FloatToBool = 77,
    RoundE4M3 = 78,
    RoundE5M2 = 79,
}

/// Where a stage takes an argument from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The value computed so far.
    Chain,
    /// An operand by number.
    Operand(u32),
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub code: Code,
    /// Up to three arguments.
    pub sources: Vec<Source>,
    /// Words that the stage reads from the push constants.
    pub immediates: Vec<u32>,
    /// Type that the result is clipped or wrapped to, where the code has one.
    pub element: Element,
}

impl Stage {
    /// The specialization constant, with the stage's immediates starting at number `immediate`.
    pub fn word(&self, immediate: usize) -> u32 {
        let mut word = self.code as u32 | (immediate as u32) << 20 | (self.element as u32) << 24;
        for (place, source) in self.sources.iter().enumerate() {
            let number = match source {
                Source::Chain => 15,
                Source::Operand(number) => *number,
            };
            word |= number << (8 + 4 * place);
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    #[test]
    fn the_shader_numbers_stages_alike() {
        let glsl: HashMap<_, _> = include_str!("../../../shaders/common/stage_codes.glsl")
            .lines()
            .filter_map(|line| line.strip_prefix("const uint S_")?.strip_suffix("u;")?.split_once(" = "))
            .map(|(name, number)| (name.replace('_', ""), number.to_owned()))
            .collect();
        let source = include_str!("stage.rs");
        let body = source.split_once("enum Code {").unwrap().1.split_once('}').unwrap().0;
        let mut seen = 0;
        for (name, number) in body.lines().filter_map(|l| l.trim().strip_suffix(',')?.split_once(" = ")) {
            assert_eq!(glsl.get(&name.to_uppercase()).map(String::as_str), Some(number), "{name}");
            seen += 1;
        }
        assert_eq!(seen, glsl.len());
    }
}
