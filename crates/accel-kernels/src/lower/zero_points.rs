//! Zero points of INT8 products on matrix units, which multiply what is stored: they are taken off the sums.

use accel_tosa::Refusal;

use super::gemm::{Addressing, Product, Size};
use super::prepare::{Prepared, least_work};
use crate::DeviceCaps;
use crate::builder::{Builder, Launch, Value};

/// What `gemm.glsl` knows the terms by, in the place of a bias.
pub(crate) const BIAS_STEP: u32 = 3;

/// Elements of a vector.
const VECTOR: u32 = 16;

/// The bias with which A need not lose its zero point, and its step: `sum (a - z) b = sum a b - z sum b`. `None` where that is not
/// known while lowering, or B has a zero point.
pub(crate) fn in_bias(builder: &mut Builder<'_>, product: &Product<'_>) -> Option<Option<(Value, u32)>> {
    let [a_zp, b_zp] = product.zero_points;
    match (a_zp, b_zp) {
        (0, 0) => return Some(product.plain_bias(builder)),
        (_, 0) if !matches!(product.addressing, Addressing::Matrix) => {}
        _ => return None,
    }
    let bias = builder.constant(product.bias?)?;
    let bias: Vec<i32> = bias.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let weights = product.constant_b(builder)?;
    let rows = weights.chunks_exact(product.size.k as usize).enumerate();
    let folded: Vec<u32> = rows
        .map(|(n, row)| {
            let sum = row.iter().fold(0_i32, |sum, &b| sum.wrapping_add(i32::from(b as i8)));
            let own = bias.get(if bias.len() > 1 { n } else { 0 }).copied().unwrap_or(0);
            own.wrapping_sub(a_zp.wrapping_mul(sum)) as u32
        })
        .collect();
    Some(Some((builder.words(&folded), 1)))
}

/// Whether the product is INT8 without a bias, and large enough for the launches more.
pub(crate) fn pays(caps: &DeviceCaps, product: &Product<'_>) -> bool {
    let image = matches!(product.addressing, Addressing::Image(_));
    product.types == "i8" && product.bias.is_none() && !image && product.work() >= least_work(caps, false)
}

/// Launches the sums: a term for each row of every batch, then one for each column, as INT32. `None` where columns of B do
/// not lie side by side in whole vectors.
pub(crate) fn terms(
    builder: &mut Builder<'_>,
    product: &Product<'_>,
    prepared: Option<&Prepared>,
) -> Result<Option<Value>, Refusal> {
    let Size { batches, m, n, k } = product.size;
    let depth = prepared.map_or(k, |p| p.k);
    let exchanged = prepared.is_some_and(|p| p.exchanged);
    let columns_lie = exchanged || matches!(product.addressing, Addressing::RowsOfK);
    if !columns_lie || !depth.is_multiple_of(VECTOR) {
        return Ok(None);
    }
    let [a_zp, b_zp] = product.zero_points;
    let a = prepared.and_then(|p| p.a).unwrap_or_else(|| builder.tensor(product.a));
    let b = prepared.and_then(|p| p.b).unwrap_or_else(|| product.b(builder));
    let (rows, columns) = (batches * m, batches * n);
    let terms = builder.scratch((u64::from(rows) + u64::from(columns)) * 4);
    let both = (k as i32).wrapping_mul(a_zp).wrapping_mul(b_zp);
    for (from, first, rows, zero_point, offset) in [(a, 0, rows, b_zp, 0), (b, rows, columns, a_zp, both)] {
        let vectors = if zero_point == 0 { 0 } else { depth / VECTOR };
        builder.launch(&Launch {
            module: "gemm_sums",
            constants: &[],
            writes: &[terms],
            reads: &[from],
            params: &[first, rows, vectors, zero_point.wrapping_neg() as u32, offset as u32],
            groups: u64::from(rows),
            detail: &format!("{rows} of {depth}"),
        })?;
    }
    Ok(Some(terms))
}
