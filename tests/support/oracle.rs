//! What a graph of MATMUL, convolutions, CLAMP and ADD must give, computed plainly in double precision.

use accel_tosa::{BinaryOp, ConvAttrs, DType, Graph, Op, TensorId};

use crate::{Element, Result, Tensor};

/// A tensor's values with its shape.
struct Values {
    shape: Vec<usize>,
    numbers: Vec<f64>,
}

/// The graph's outputs.
///
/// # Errors
/// An operator that this oracle does not know.
pub fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values: Vec<Option<Values>> = (0..graph.tensors.len()).map(|_| None).collect();
    for (id, input) in graph.inputs.iter().zip(inputs) {
        values[id.0 as usize] = Some(Values { shape: input.shape.clone(), numbers: input.to_f64() });
    }
    for node in &graph.nodes {
        for &id in &node.inputs {
            if values[id.0 as usize].is_none() {
                values[id.0 as usize] = Some(constant(graph, id)?);
            }
        }
        let operands: Vec<&Values> =
            node.inputs.iter().filter_map(|id| values[id.0 as usize].as_ref()).collect();
        let [output] = node.outputs[..] else {
            return Err("the oracle knows operators of one result".into());
        };
        let shape = shape(graph, output);
        let numbers = match (&node.op, &operands[..]) {
            (Op::MatMul { a_zp, b_zp }, [a, b]) => matmul(a, b, f64::from(*a_zp), f64::from(*b_zp)),
            (Op::Conv2d(attrs), [input, weight, bias]) => {
                let [inner, outer] = [weight.shape[3], weight.shape[0]];
                convolve(attrs, input, &shape, [weight.shape[1], weight.shape[2]], bias, |tap, x, channel| {
                    let from = (channel * tap.1 + tap.0) * inner;
                    debug_assert!(channel < outer);
                    x.iter().zip(&weight.numbers[from..from + inner]).map(|(x, w)| x * w).sum()
                })
            }
            (Op::DepthwiseConv2d(attrs), [input, weight, bias]) => {
                let multiplier = weight.shape[3];
                convolve(attrs, input, &shape, [weight.shape[0], weight.shape[1]], bias, |tap, x, channel| {
                    let of_input = channel / multiplier;
                    x[of_input] * weight.numbers[tap.0 * x.len() * multiplier + channel]
                })
            }
            (Op::Clamp { min, max, .. }, [x]) => {
                let bound = |bits: u64| {
                    let element = element(graph, output)?;
                    let bytes = bits.to_le_bytes()[..element.bytes()].to_vec();
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                        Tensor { element, shape: vec![], bytes }.to_f64()[0],
                    )
                };
                let (min, max) = (bound(*min)?, bound(*max)?);
                x.numbers.iter().map(|x| x.clamp(min, max)).collect()
            }
            (Op::Binary(BinaryOp::Add), [a, b]) if a.shape == b.shape => {
                a.numbers.iter().zip(&b.numbers).map(|(a, b)| a + b).collect()
            }
            (op, _) => return Err(format!("the oracle does not know {}", op.name()).into()),
        };
        values[output.0 as usize] = Some(Values { shape, numbers });
    }
    let output = |&id: &TensorId| {
        let values = values[id.0 as usize].as_ref().ok_or("an output is not computed")?;
        // Float references keep double precision; integer ones are exact in their own type.
        let element = element(graph, id)?;
        let element = if element.is_float() { Element::F64 } else { element };
        Ok(Tensor::from_f64(element, &values.shape, values.numbers.iter().copied()))
    };
    graph.outputs.iter().map(output).collect()
}

fn shape(graph: &Graph, id: TensorId) -> Vec<usize> {
    graph.tensor(id).shape.iter().map(|&extent| extent as usize).collect()
}

/// The test's element type of a graph's tensor.
///
/// # Errors
/// A type that tests do not know.
pub fn element(graph: &Graph, id: TensorId) -> Result<Element> {
    let dtype: DType = graph.tensor(id).dtype;
    Element::of_tosa(dtype.name())
}

fn constant(graph: &Graph, id: TensorId) -> Result<Values> {
    let bytes = graph.constant(id).ok_or("an operand is neither computed nor constant")?.to_vec();
    let shape = shape(graph, id);
    let numbers = Tensor { element: element(graph, id)?, shape: shape.clone(), bytes }.to_f64();
    Ok(Values { shape, numbers })
}

fn matmul(a: &Values, b: &Values, a_zp: f64, b_zp: f64) -> Vec<f64> {
    let (rows, inner, columns) = (a.shape[1], a.shape[2], b.shape[2]);
    let mut result = Vec::with_capacity(a.shape[0] * rows * columns);
    for batch in 0..a.shape[0] {
        for row in 0..rows {
            let mut sums = vec![0.0; columns];
            for step in 0..inner {
                let left = a.numbers[(batch * rows + row) * inner + step] - a_zp;
                let right = &b.numbers[(batch * inner + step) * columns..][..columns];
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum += left * (right - b_zp);
                }
            }
            result.extend(sums);
        }
    }
    result
}

/// Walks the window over an NHWC input without zero points; `tap` gives the sum over one tap for one output
/// channel: (number of the tap, taps in all), the input's channels there, the output channel.
fn convolve(
    attrs: &ConvAttrs,
    input: &Values,
    shape: &[usize],
    kernel: [usize; 2],
    bias: &Values,
    tap: impl Fn((usize, usize), &[f64], usize) -> f64,
) -> Vec<f64> {
    let [_, height, width, depth] = input.shape[..] else { return Vec::new() };
    let [batches, rows, columns, channels] = shape[..] else { return Vec::new() };
    let place = |axis: usize, at: usize, step: usize| {
        (at * attrs.stride[axis] as usize + step * attrs.dilation[axis] as usize)
            .checked_sub(attrs.pad[axis * 2] as usize)
            .filter(|&place| place < [height, width][axis])
    };
    let mut result = Vec::with_capacity(batches * rows * columns * channels);
    for batch in 0..batches {
        for row in 0..rows {
            for column in 0..columns {
                let mut sums: Vec<f64> =
                    (0..channels).map(|channel| bias.numbers[channel % bias.numbers.len()]).collect();
                for step in 0..kernel[0] * kernel[1] {
                    let (Some(y), Some(x)) =
                        (place(0, row, step / kernel[1]), place(1, column, step % kernel[1]))
                    else {
                        continue;
                    };
                    let from = ((batch * height + y) * width + x) * depth;
                    let x = &input.numbers[from..from + depth];
                    for (channel, sum) in sums.iter_mut().enumerate() {
                        *sum += tap((step, kernel[0] * kernel[1]), x, channel);
                    }
                }
                result.extend(sums);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphs;

    /// A 1x1 convolution is a matrix product, so two of the oracle's parts must agree.
    #[test]
    fn a_pointwise_convolution_is_a_matrix_product() {
        let numbers = |count: usize, seed: u64| graphs::random(seed, count).collect::<Vec<_>>();
        let input = Values { shape: vec![1, 3, 5, 4], numbers: numbers(60, 1) };
        let weight = numbers(24, 2);
        let bias = Values { shape: vec![1], numbers: vec![0.0] };
        let attrs = ConvAttrs {
            pad: [0; 4],
            stride: [1; 2],
            dilation: [1; 2],
            acc_type: DType::Fp32,
            input_zp: 0,
            weight_zp: 0,
        };
        let convolved = convolve(&attrs, &input, &[1, 3, 5, 6], [1, 1], &bias, |tap, x, channel| {
            let from = (channel * tap.1 + tap.0) * 4;
            x.iter().zip(&weight[from..from + 4]).map(|(x, w)| x * w).sum()
        });
        let turned = (0..24).map(|at| weight[at % 6 * 4 + at / 6]).collect();
        let a = Values { shape: vec![1, 15, 4], numbers: input.numbers };
        let product = matmul(&a, &Values { shape: vec![1, 4, 6], numbers: turned }, 0.0, 0.0);
        assert!(convolved.iter().zip(&product).all(|(one, other)| (one - other).abs() < 1e-12));
    }
}
