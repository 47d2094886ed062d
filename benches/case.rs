//! What is measured.

use accel_tosa::writer::Writer;

/// Units that multiply and add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// FP32.
    F32,
    /// FP16 factors, FP32 sums.
    F16,
    /// BF16 factors, FP32 sums.
    Bf16,
    /// INT8 factors, INT32 sums.
    I8,
}

/// In what a case's speed is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 10^9 bytes of inputs, constants and outputs a second.
    Bytes,
    /// 10^12 multiplications and additions a second.
    Operations,
    /// Microseconds: less is better.
    Time,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "GB/s",
            Self::Operations => "T/s",
            Self::Time => "us",
        }
    }
}

/// A graph and what it costs at least.
pub struct Case {
    pub name: String,
    pub unit: Unit,
    /// Multiplications and additions, and the units that do them.
    pub work: Option<(u64, Arithmetic)>,
    /// The MATMUL of a convolution's m, n and k, measured right after it to compare the two.
    pub product: Option<Box<Case>>,
    /// Makes the graph.
    pub graph: Box<dyn Fn() -> Writer>,
}

impl Case {
    /// A case that moves bytes.
    pub fn bytes(name: impl Into<String>, graph: impl Fn() -> Writer + 'static) -> Self {
        Self { name: name.into(), unit: Unit::Bytes, work: None, product: None, graph: Box::new(graph) }
    }

    /// A case that multiplies and adds.
    pub fn operations(
        name: impl Into<String>,
        work: (u64, Arithmetic),
        graph: impl Fn() -> Writer + 'static,
    ) -> Self {
        let graph = Box::new(graph);
        Self { name: name.into(), unit: Unit::Operations, work: Some(work), product: None, graph }
    }

    /// The same, beside the MATMUL that it amounts to.
    pub fn beside(self, product: Self) -> Self {
        Self { product: Some(Box::new(product)), ..self }
    }

    /// A product of few rows is told by the bytes that it streams.
    pub fn streams(self, rows: i32) -> Self {
        let unit = if rows <= 64 { Unit::Bytes } else { self.unit };
        Self { unit, ..self }
    }
}
