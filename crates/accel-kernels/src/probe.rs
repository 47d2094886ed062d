//! Small products with known results, by which an executor finds out whether a device's matrices are right.

use std::sync::Arc;

use accel_tosa::{DType, Graph, Node, Op, Profile, Tensor, TensorId, Version};

use crate::{DeviceCaps, MatrixTuple, Plan, lower};

/// A product on matrix units, and what must come of it.
pub struct MatrixProbe {
    /// What is asked of the device: two inputs, one output.
    pub plan: Plan,
    /// Bytes of the inputs.
    pub inputs: [Vec<u8>; 2],
    /// Bytes of the output, exactly.
    pub expected: Vec<u8>,
}

/// Rows, columns and depth: more than a workgroup's tile, and parts of one.
const SIZE: [usize; 3] = [150, 137, 139];

impl MatrixProbe {
    /// The probe of a shape as our kernels would use it on this device, with operands as they are or packed; `None` where they would
    /// not.
    pub fn new(caps: &DeviceCaps, tuple: MatrixTuple, packed: bool) -> Option<Self> {
        let (operand, result) = match (tuple.operand, tuple.result) {
            (MatrixTuple::FLOAT16, MatrixTuple::FLOAT32) => (DType::Fp16, DType::Fp32),
            (MatrixTuple::BFLOAT16, MatrixTuple::FLOAT32) => (DType::Bf16, DType::Fp32),
            (MatrixTuple::SINT8, MatrixTuple::SINT32) => (DType::Int8, DType::Int32),
            _ => return None,
        };
        let caps = DeviceCaps { matrices: vec![tuple], ..caps.clone() };
        let forced = caps.matrix_geometry.filter(|geometry| geometry.packed == packed);
        let geometry = forced.or_else(|| lower::smallest_geometry(&caps, tuple, packed))?;
        let caps = DeviceCaps { matrix_geometry: Some(geometry), ..caps };
        let [m, n, k] = SIZE;
        let plan = lower::lower(&product([m, n, k].map(|d| d as u32), operand, result), &caps).ok()?;
        let family = if packed { "gemm_packed." } else { "gemm_matrix." };
        if !plan.pipelines.iter().any(|p| p.module.name.starts_with(family)) {
            return None;
        }
        // Small whole numbers, whose sums FP32 holds exactly; no two rows or columns are alike.
        let a: Vec<i32> = (0..m * k).map(|i| (i * 7 + i / k * 3) as i32 % 11 - 5).collect();
        let b: Vec<i32> = (0..k * n).map(|i| (i * 5 + i / n * 2) as i32 % 13 - 6).collect();
        let mut expected = Vec::with_capacity(m * n * 4);
        for row in a.chunks_exact(k) {
            for column in 0..n {
                let sum: i32 = row.iter().zip(b[column..].iter().step_by(n)).map(|(a, b)| a * b).sum();
                expected.extend(match result {
                    DType::Fp32 => (sum as f32).to_le_bytes(),
                    _ => sum.to_le_bytes(),
                });
            }
        }
        let inputs = [a, b].map(|numbers| numbers.iter().flat_map(|&x| encode(operand, x)).collect());
        Some(Self { plan, inputs, expected })
    }
}

/// A whole number of at most 6 bits.
fn encode(dtype: DType, x: i32) -> Vec<u8> {
    let single = (x as f32).to_bits();
    match dtype {
        DType::Bf16 => ((single >> 16) as u16).to_le_bytes().to_vec(),
        DType::Fp16 if x == 0 => vec![0; 2],
        // The exponent's bias is 15 instead of 127, and the fraction has 10 bits instead of 23.
        DType::Fp16 => {
            let magnitude = ((single & 0x7fff_ffff) >> 13) - ((127 - 15) << 10);
            ((magnitude | single >> 31 << 15) as u16).to_le_bytes().to_vec()
        }
        _ => vec![x as u8],
    }
}

fn product([m, n, k]: [u32; 3], operand: DType, result: DType) -> Graph {
    let tensor = |name: &str, dtype, shape: [u32; 3]| Tensor {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        constant: None,
    };
    let (a, b, c) = (TensorId(0), TensorId(1), TensorId(2));
    Graph {
        artifact: Arc::new([]),
        version: Version { major: 1, minor: 0, patch: 0, draft: false },
        profile: Profile::default(),
        tensors: vec![
            tensor("a", operand, [1, m, k]),
            tensor("b", operand, [1, k, n]),
            tensor("c", result, [1, m, n]),
        ],
        variables: Vec::new(),
        nodes: vec![Node {
            position: 0,
            op: Op::MatMul { a_zp: 0, b_zp: 0 },
            inputs: vec![a, b],
            outputs: vec![c],
        }],
        inputs: vec![a, b],
        outputs: vec![c],
    }
}
