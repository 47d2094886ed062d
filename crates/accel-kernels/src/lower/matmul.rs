//! MATMUL: `[N,H,C] x [N,C,W]`.

use accel_tosa::{DType, Node, Refusal};

use super::gemm::{Product, Size};
use crate::builder::Builder;

pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, zero_points: [i32; 2]) -> Result<(), Refusal> {
    let (a, b, output) = (node.inputs[0], node.inputs[1], node.outputs[0]);
    let graph = builder.graph;
    let types = [graph.tensor(a).dtype, graph.tensor(output).dtype];
    let kernel = match (types, graph.tensor(b).dtype) {
        ([DType::Fp32, DType::Fp32], DType::Fp32) => "matmul_f32",
        ([DType::Fp16, DType::Fp16], DType::Fp16) => "matmul_f16",
        ([DType::Fp16, DType::Fp32], DType::Fp16) => "matmul_f16f32",
        ([DType::Bf16, DType::Fp32], DType::Bf16) => "matmul_bf16f32",
        ([DType::Int8, DType::Int32], DType::Int8) => "matmul_i8",
        ([a, output], b) => {
            return Err(builder.unsupported(format!(
                "MATMUL has no kernel for {a} x {b} -> {output}; it takes FP32, FP16, BF16 -> FP32 and INT8"
            )));
        }
    };
    let (&[batches, m, k], &[_, _, n]) = (graph.tensor(a).shape.as_slice(), graph.tensor(b).shape.as_slice())
    else {
        return Err(builder.unsupported("MATMUL takes operands of rank 3"));
    };
    let size = Size { batches, m, n, k };
    Product { kernel: kernel.into(), types, size, output, a, b, bias: None, zero_points, params: &[] }
        .launch(builder)
}
