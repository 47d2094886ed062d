//! Operands packed for `gemm_packed.comp`: what a lane's registers hold of a matrix lies in one piece.

use accel_tosa::{Refusal, TensorId};

use super::gemm::{Addressing, Product, Size};
use super::matrix::Matrix;
use super::prepare::Prepared;
use crate::builder::{Builder, Launch, Value};

/// Invocations of `gemm_pack.comp`, and the vectors of k that a workgroup packs.
const LANES: u32 = 128;
const VECTORS_OF_K: u32 = 8;

/// Packs both operands of a product.
pub(crate) fn pack(
    builder: &mut Builder<'_>,
    product: &Product<'_>,
    matrix: Matrix,
) -> Result<Prepared, Refusal> {
    let Size { m, n, k, .. } = product.size;
    let bytes = matrix.packed_bytes(product.size);
    let [a_bytes, b_bytes] = bytes.ok_or_else(|| builder.unsupported("a packed operand is too large"))?;
    let along_n = matches!(product.addressing, Addressing::Matrix);
    let a = Operand { id: product.a, rows: m, bytes: a_bytes, side: 0, along_n: false }
        .launch(builder, product, matrix)?;
    let b = Operand { id: product.b, rows: n, bytes: b_bytes, side: 1, along_n }
        .launch(builder, product, matrix)?;
    let types = match product.types {
        "e4m3" | "e5m2" => "f16",
        types => types,
    };
    let k = k.next_multiple_of(matrix.geometry.slab);
    Ok(Prepared { types, matrix, a: Some(a), b: Some(b), b_step: n, exchanged: false, unrolled: false, k })
}

/// One operand.
struct Operand {
    id: TensorId,
    /// Rows of A, or columns of B.
    rows: u32,
    /// Bytes when it is packed.
    bytes: u64,
    /// 0 for A, 1 for B.
    side: usize,
    /// B is `[k][n]`.
    along_n: bool,
}

impl Operand {
    fn launch(
        self,
        builder: &mut Builder<'_>,
        product: &Product<'_>,
        matrix: Matrix,
    ) -> Result<Value, Refusal> {
        let Size { batches, k, .. } = product.size;
        let [unit_m, unit_n, unit_k] = matrix.unit;
        let (tile, part) = (matrix.tile()[self.side], matrix.geometry.part[self.side]);
        let parts = self.rows.div_ceil(tile) * (tile / part);
        let steps = k.next_multiple_of(matrix.geometry.slab) / unit_k;
        let deep = (steps * unit_k).div_ceil(VECTORS_OF_K * matrix.vector);
        let variant = match product.types {
            "f16f32" => "f16",
            "bf16f32" => "bf16",
            // FP8 is widened.
            types => types,
        };
        let from = builder.tensor(self.id);
        let to = builder.scratch(self.bytes);
        builder.launch(&Launch {
            module: &format!("gemm_pack.{variant}"),
            constants: &[
                (0, LANES),
                (1, part),
                (2, unit_m),
                (3, unit_n),
                (4, unit_k),
                (5, matrix.subgroup),
                (6, self.side as u32),
                (7, u32::from(self.along_n)),
            ],
            writes: &[to],
            reads: &[from],
            params: &[batches, self.rows, k, parts, steps],
            groups: u64::from(batches) * u64::from(parts) * u64::from(deep),
            detail: &format!("{} of {}x{k}", ["rows", "columns"][self.side], self.rows),
        })?;
        Ok(to)
    }
}
