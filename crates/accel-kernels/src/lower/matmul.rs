//! MATMUL: `[N,H,C] x [N,C,W]`.

use accel_tosa::{DType, Node, Refusal};

use super::gemm::{Addressing, Product, Size};
use crate::builder::Builder;
use crate::epilogue::Epilogue;

pub(crate) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    zero_points: [i32; 2],
    epilogue: Option<&Epilogue>,
) -> Result<(), Refusal> {
    let (a, b, output) = (node.inputs[0], node.inputs[1], node.outputs[0]);
    let graph = builder.graph;
    let dtypes = [graph.tensor(a).dtype, graph.tensor(output).dtype];
    let types = match (dtypes, graph.tensor(b).dtype) {
        ([DType::Fp32, DType::Fp32], DType::Fp32) => "f32",
        ([DType::Fp16, DType::Fp16], DType::Fp16) => "f16",
        ([DType::Fp16, DType::Fp32], DType::Fp16) => "f16f32",
        ([DType::Bf16, DType::Fp32], DType::Bf16) => "bf16f32",
        ([DType::Int8, DType::Int32], DType::Int8) => "i8",
        ([DType::Fp8E4M3, DType::Fp16], DType::Fp8E4M3) => "e4m3",
        ([DType::Fp8E5M2, DType::Fp16], DType::Fp8E5M2) => "e5m2",
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
    Product { addressing: Addressing::Matrix, types, size, output, a, b, bias: None, zero_points }
        .launch_fused(builder, epilogue)
}
