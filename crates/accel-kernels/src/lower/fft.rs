//! FFT2D and RFFT2D: a discrete transform along the rows, then one along the columns.

use std::f64::consts::FRAC_PI_2;

use accel_tosa::{Node, Refusal, TensorId};

use super::movers::LANES;
use crate::builder::{Builder, Launch, Value};

/// `[outer, length, inner]` -> `[outer, outputs, inner]`.
struct Pass {
    outer: u32,
    length: u32,
    outputs: u32,
    inner: u32,
}

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, inverse: bool) -> Result<(), Refusal> {
    let graph = builder.graph;
    let shape = |id: TensorId| graph.tensor(id).shape.as_slice();
    let (&[n, h, w], &[_, _, width]) = (shape(node.inputs[0]), shape(node.outputs[0])) else {
        return Err(builder.unsupported(format!("{} takes operands of rank 3", builder.at.1)));
    };
    let source: Vec<Value> = node.inputs.iter().map(|&id| builder.tensor(id)).collect();
    let bytes = graph.tensor(node.outputs[0]).bytes();
    let rows = [builder.scratch(bytes), builder.scratch(bytes)];
    let results = [0, 1].map(|part| Value::Tensor(node.outputs[part]));
    Pass { outer: n * h, length: w, outputs: width, inner: 1 }.launch(builder, &source, rows, inverse)?;
    Pass { outer: n, length: h, outputs: h, inner: width }.launch(builder, &rows, results, inverse)
}

impl Pass {
    fn launch(
        self,
        builder: &mut Builder<'_>,
        source: &[Value],
        results: [Value; 2],
        inverse: bool,
    ) -> Result<(), Refusal> {
        let Self { outer, length, outputs, inner } = self;
        let factors = twiddles(length, inverse).into_iter().flatten().map(f32::to_bits).collect::<Vec<_>>();
        let factors = builder.words(&factors);
        // Without an imaginary part the address is that of the real one and is not used.
        let (real, imaginary) = (source[0], *source.last().unwrap_or(&source[0]));
        let count = u64::from(outer) * u64::from(outputs) * u64::from(inner);
        builder.launch(&Launch {
            module: if source.len() == 1 { "dft.real" } else { "dft.complex" },
            constants: &[],
            writes: &results,
            reads: &[real, imaginary, factors],
            params: &[count as u32, length, outputs, inner],
            groups: count.div_ceil(LANES),
            detail: &format!("{outer}x{length}x{inner}"),
        })
    }
}

/// Cosine and sine of every `n`-th of a turn, `n` a power of two; clockwise unless inverse. Quarters are turned exactly, so
/// that zeros are zeros.
fn twiddles(n: u32, inverse: bool) -> Vec<[f32; 2]> {
    let turn = |k: u32| {
        let (quarter, rest) = (4 * k / n, 4 * k % n);
        let (sin, cos) = (f64::from(rest) / f64::from(n) * FRAC_PI_2).sin_cos();
        let [cos, sin] = match quarter {
            0 => [cos, sin],
            1 => [-sin, cos],
            2 => [-cos, -sin],
            _ => [sin, -cos],
        };
        [cos as f32, (if inverse { sin } else { -sin }) as f32]
    };
    (0..n).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::twiddles;

    #[test]
    fn quarters_of_a_turn_are_exact() {
        assert_eq!(twiddles(4, true), [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]);
        assert_eq!(twiddles(1, false), [[1.0, 0.0]]);
        let half = 0.5_f32.sqrt();
        assert_eq!(twiddles(8, false)[3], [-half, -half]);
    }
}
