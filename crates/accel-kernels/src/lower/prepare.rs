//! Operands laid out anew for matrix kernels, where each is staged so often that it pays.

use accel_tosa::Refusal;

use super::axes::Windows;
use super::gemm::{Addressing, Product, Size, image_params};
use super::matrix::{self, FEW_ROWS, Matrix};
use super::movers::LANES;
use crate::DeviceCaps;
use crate::builder::{Builder, Launch, Value};

/// Least multiplications that pay for a launch more.
const LEAST_WORK: u32 = 1 << 27;
/// The same for windows, whose elements the kernel would stage one by one.
const LEAST_UNROLLED: u32 = 1 << 22;
/// Most taps of a window of 16-bit elements that is laid out as a row: rows of 49 cost three times what they save.
const MOST_UNROLLED: u64 = 16;
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
    /// A is the windows of an image, one after the other.
    pub unrolled: bool,
    /// Depth with the zeros at the ends of rows.
    pub k: u32,
}

/// Fewest multiplications of a product that is worth a launch more.
pub(crate) fn least_work(caps: &DeviceCaps, unrolled: bool) -> u64 {
    let table = if unrolled { LEAST_UNROLLED } else { LEAST_WORK };
    caps.tuning.or("matrix.prepare", table).into()
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
    // A few rows are widened as often as there are tiles along n, which is nothing beside B.
    let turns = m.div_ceil(rows).max(if m <= FEW_ROWS { 0 } else { n.div_ceil(columns) });
    let widened =
        matches!(product.types, "e4m3" | "e5m2") && turns >= caps.tuning.or("matrix.turns", LEAST_TURNS);
    let is_matrix = matches!(product.addressing, Addressing::Matrix);
    let exchanged = product.types == "i8" && is_matrix;
    let windows = match product.addressing {
        Addressing::Image(windows) => Some(windows),
        _ => None,
    };
    // Outputs that lie apart are stored by kernels that know the windows.
    let unrolled = windows.filter(|w| {
        let pays = vector > 8 || w.taps() <= MOST_UNROLLED;
        w.spread.is_none() && !w.channels.is_multiple_of(vector) && pays
    });
    let image = windows.is_some() && unrolled.is_none();
    if product.work() < least_work(caps, unrolled.is_some()) {
        return Ok(None);
    }
    // The kernel that knows the windows takes rows of B of exactly k.
    if image && !k.is_multiple_of(vector) {
        return Ok(None);
    }
    let ragged = !image && (!k.is_multiple_of(vector) || (is_matrix && !n.is_multiple_of(vector)));
    if !(widened || exchanged || ragged || unrolled.is_some()) {
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
        _ if unrolled.is_some() => unrolled.map(|w| unroll(builder, product, w, module)).transpose()?,
        (_, false) => None,
        (true, true) => {
            let elements = u32::try_from(builder.graph.tensor(product.a).elements()).unwrap_or(u32::MAX);
            Some(layout(1, 1, elements, [elements, 1]).launch(builder, module, vector, a)?)
        }
        (false, true) => Some(layout(m, m, k, [k, 1]).launch(builder, module, vector, a)?),
    };
    let b = product.b(builder);
    let b = if exchanged {
        Some(layout(n, n, k, [1, n]).launch(builder, module, vector, b)?)
    } else if !is_matrix {
        match product.constant_b(builder) {
            _ if !widened && depth == k => None,
            Some(rows) if !widened => {
                Some(builder.blob(lengthened(rows, k * bytes as u32, depth * bytes as u32)))
            }
            _ => Some(layout(n, n, k, [k, 1]).launch(builder, module, vector, b)?),
        }
    } else {
        Some(layout(depth, k, n, [n, 1]).launch(builder, module, vector, b)?)
    };
    Ok(Some(Prepared {
        types,
        matrix,
        a,
        b,
        b_step: width,
        exchanged,
        unrolled: unrolled.is_some(),
        k: depth,
    }))
}

/// Rows of `from` bytes with zeros at their ends, of `to` bytes each.
fn lengthened(rows: &[u8], from: u32, to: u32) -> Vec<u8> {
    let zeros = vec![0; (to - from) as usize];
    rows.chunks_exact(from as usize).flat_map(|row| row.iter().chain(&zeros)).copied().collect()
}

/// Lays windows out as rows.
fn unroll(
    builder: &mut Builder<'_>,
    product: &Product<'_>,
    windows: &Windows,
    prepare: &str,
) -> Result<Value, Refusal> {
    let Size { m, k, .. } = product.size;
    let vector: u64 = if prepare.ends_with("b8") { 16 } else { 8 };
    let vectors = u64::from(m) * u64::from(k).div_ceil(vector);
    let to = builder.scratch(vectors * 16);
    let a = builder.tensor(product.a);
    let words = product.windows(builder, windows)?;
    let mut params = vec![m, 0, k, 1, 1, k, 2, 0, 0, 0, 0];
    params.extend(image_params(windows));
    builder.launch(&Launch {
        module: &prepare.replace("prepare", "windows"),
        constants: &[],
        writes: &[to],
        reads: &[a, a, a, words],
        params: &params,
        groups: vectors.div_ceil(LANES),
        detail: &format!("{m} windows of {k}"),
    })?;
    Ok(to)
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
