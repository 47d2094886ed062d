//! Operands laid out anew for matrix kernels, where each is staged so often that it pays.

use accel_tosa::Refusal;

use super::gemm::{Addressing, Product, Size};
use super::matrix::{self, FEW_ROWS, Matrix};
use super::movers::LANES;
use crate::builder::{Builder, Launch, Value};

/// Least multiplications that pay for a launch more.
const LEAST_WORK: u32 = 1 << 27;
/// Times that an operand is staged for which it pays to widen it once.
const LEAST_TURNS: u32 = 4;
/// Largest copy of an operand in bytes.
const LARGEST: u64 = 1 << 30;

/// What to launch instead of the product as it is.
pub(crate) struct Prepared {
    /// Types as the kernels' variants name them.
    pub types: &'static str,
    /// The geometry for these.
    pub matrix: Matrix,
    /// A, where it is laid out anew.
    pub a: Option<Value>,
    /// B, where it is.
    pub b: Option<Value>,
    /// Elements from one row of B to the next.
    pub b_step: u32,
    /// B is `[n][k]`.
    pub exchanged: bool,
    /// Depth with the zeros at the ends of rows.
    pub k: u32,
}

/// Lays out operands anew: FP8 that many workgroups would widen, rows that are no whole vectors, and INT8 of which
/// matrices would have to gather columns byte by byte.
pub(crate) fn prepare(
    builder: &mut Builder<'_>,
    product: &Product<'_>,
    matrix: Matrix,
) -> Result<Option<Prepared>, Refusal> {
    let Size { batches, m, n, k } = product.size;
    let ([rows, columns], vector) = (matrix.tile(), matrix.vector);
    let caps = builder.caps;
    let tuning = &caps.tuning;
    let least_work = tuning.or("matrix.prepare", LEAST_WORK);
    if u64::from(batches) * u64::from(m) * u64::from(n) * u64::from(k) < u64::from(least_work) {
        return Ok(None);
    }
    // A few rows are widened as often as there are tiles along n, which is nothing beside B.
    let turns = m.div_ceil(rows).max(if m <= FEW_ROWS { 0 } else { n.div_ceil(columns) });
    let widened = matches!(product.types, "e4m3" | "e5m2") && turns >= tuning.or("matrix.turns", LEAST_TURNS);
    let is_matrix = matches!(product.addressing, Addressing::Matrix);
    let exchanged = product.types == "i8" && is_matrix;
    let image = matches!(product.addressing, Addressing::Image(_));
    let ragged = !image && (!k.is_multiple_of(vector) || (is_matrix && !n.is_multiple_of(vector)));
    if !(widened || exchanged || ragged) {
        return Ok(None);
    }
    let types = if widened { "f16" } else { product.types };
    // Widened or exchanged operands may want another geometry.
    let Some(matrix) = matrix::build(builder.caps, matrix.geometry, types, exchanged || !is_matrix) else {
        return Ok(None);
    };
    let depth = if image { k } else { k.next_multiple_of(vector) };
    let width = n.next_multiple_of(vector);
    let bytes = 16 / u64::from(vector);
    let (a_elements, b_elements) = (u64::from(m) * u64::from(depth), u64::from(depth) * u64::from(width));
    if u64::from(batches) * a_elements.max(b_elements) * bytes > LARGEST {
        return Ok(None);
    }
    let layout = |rows: u32, filled_rows: u32, filled: u32, steps: [u32; 2]| Layout {
        batches,
        rows,
        vectors: (filled.div_ceil(vector)),
        filled_rows,
        filled,
        steps,
    };
    let module = match product.types {
        "e4m3" if widened => "gemm_prepare.e4m3",
        "e5m2" if widened => "gemm_prepare.e5m2",
        _ if bytes == 1 => "gemm_prepare.b8",
        // FP8 as it is stands in eight bits.
        "e4m3" | "e5m2" => return Ok(None),
        _ => "gemm_prepare.b16",
    };
    let a = builder.tensor(product.a);
    let a = match (image, widened || depth != k) {
        (_, false) => None,
        (true, true) => {
            let elements = u32::try_from(builder.graph.tensor(product.a).elements()).unwrap_or(u32::MAX);
            Some(layout(1, 1, elements, [elements, 1]).launch(builder, module, vector, a)?)
        }
        (false, true) => Some(layout(m, m, k, [k, 1]).launch(builder, module, vector, a)?),
    };
    let b = builder.tensor(product.b);
    let b = if exchanged {
        Some(layout(n, n, k, [1, n]).launch(builder, module, vector, b)?)
    } else if !is_matrix {
        let anew = widened || depth != k;
        if anew { Some(layout(n, n, k, [k, 1]).launch(builder, module, vector, b)?) } else { None }
    } else {
        Some(layout(depth, k, n, [n, 1]).launch(builder, module, vector, b)?)
    };
    Ok(Some(Prepared { types, matrix, a, b, b_step: width, exchanged, k: depth }))
}

/// Parameters of `gemm_prepare.comp`.
struct Layout {
    batches: u32,
    rows: u32,
    vectors: u32,
    filled_rows: u32,
    filled: u32,
    /// Elements of the operand from one row to the next, and within a row.
    steps: [u32; 2],
}

impl Layout {
    fn launch(
        self,
        builder: &mut Builder<'_>,
        module: &str,
        vector: u32,
        from: Value,
    ) -> Result<Value, Refusal> {
        let vectors = u64::from(self.batches) * u64::from(self.rows) * u64::from(self.vectors);
        let to = builder.scratch(vectors * 16);
        let exchanged = self.steps[1] != 1;
        builder.launch(&Launch {
            module,
            constants: &[(0, u32::from(exchanged))],
            writes: &[to],
            reads: &[from],
            params: &[
                self.batches,
                self.rows,
                self.vectors,
                self.filled_rows,
                self.filled,
                self.steps[0],
                self.steps[1],
            ],
            groups: vectors.div_ceil(LANES),
            detail: &format!(
                "{} rows of {}{}",
                self.rows,
                self.vectors * vector,
                if exchanged { ", exchanged" } else { "" }
            ),
        })?;
        Ok(to)
    }
}
