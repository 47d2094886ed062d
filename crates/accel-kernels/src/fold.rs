//! Operators on constants that are computed while lowering: float CASTs (models keep FP16 weights and cast them to
//! FP32) and TRANSPOSE.

use accel_tosa::{DType, Node, Op};
use half::{bf16, f16};

use crate::builder::Builder;

/// Computes the operator if its operand is constant and the operator is of those that fold. Returns whether it did.
pub(crate) fn fold(builder: &mut Builder<'_>, node: &Node) -> bool {
    let (input, output) = match (&node.op, node.inputs.first()) {
        (Op::Cast | Op::Transpose { .. }, Some(&input)) => (input, node.outputs[0]),
        _ => return false,
    };
    let from = builder.graph.tensor(input);
    let to = builder.graph.tensor(output).dtype;
    let Some(bytes) = builder.constant(input) else { return false };
    let folded = match &node.op {
        Op::Cast => cast(from.dtype, to, bytes),
        Op::Transpose { perms } => from.dtype.bytes().map(|size| transpose(&from.shape, perms, size, bytes)),
        _ => None,
    };
    let done = folded.is_some();
    if let Some(bytes) = folded {
        builder.fold(output, bytes);
    }
    done
}

/// Casts to the nearest value, ties to even; `None` for types other than FP32, FP16 and BF16.
fn cast(from: DType, to: DType, bytes: &[u8]) -> Option<Vec<u8>> {
    fn each<const N: usize, const M: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> [u8; M]) -> Vec<u8> {
        bytes.as_chunks::<N>().0.iter().flat_map(|&chunk| f(chunk)).collect()
    }
    Some(match (from, to) {
        (DType::Fp16, DType::Fp32) => each(bytes, |b| f16::from_le_bytes(b).to_f32().to_le_bytes()),
        (DType::Bf16, DType::Fp32) => each(bytes, |b| bf16::from_le_bytes(b).to_f32().to_le_bytes()),
        (DType::Fp32, DType::Fp16) => each(bytes, |b| f16::from_f32(f32::from_le_bytes(b)).to_le_bytes()),
        (DType::Fp32, DType::Bf16) => each(bytes, |b| bf16::from_f32(f32::from_le_bytes(b)).to_le_bytes()),
        _ => return None,
    })
}

/// Output dimension i is input dimension `perms[i]`.
fn transpose(shape: &[u32], perms: &[u32], size: usize, bytes: &[u8]) -> Vec<u8> {
    let mut strides = vec![size; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as usize;
    }
    let dims: Vec<(usize, usize)> =
        perms.iter().map(|&p| (shape[p as usize] as usize, strides[p as usize])).collect();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; dims.len()];
    let mut at = 0;
    while out.len() < bytes.len() {
        out.extend_from_slice(&bytes[at..at + size]);
        // Counts up, the last dimension first.
        for (i, &(extent, stride)) in index.iter_mut().zip(&dims).rev() {
            *i += 1;
            at += stride;
            if *i < extent {
                break;
            }
            at -= extent * stride;
            *i = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_round_to_nearest_even() {
        // 1 + 2^-11 lies halfway between 1 and the next FP16, 1 + 3 * 2^-11 above an odd one.
        for (value, bits) in [(0x3f80_1000, 0x3c00_u16), (0x3f80_3000, 0x3c02), (1e6_f32.to_bits(), 0x7c00)] {
            let value = f32::from_bits(value);
            let folded = cast(DType::Fp32, DType::Fp16, &value.to_le_bytes()).unwrap();
            assert_eq!(folded, bits.to_le_bytes());
        }
        let widened = cast(DType::Fp16, DType::Fp32, &[0x01, 0x00, 0x00, 0xbc]).unwrap();
        assert_eq!(widened, [2_f32.powi(-24).to_le_bytes(), (-1_f32).to_le_bytes()].concat());
        assert_eq!(cast(DType::Int8, DType::Fp32, &[1]), None);
    }

    #[test]
    fn transpose_moves_whole_elements() {
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(transpose(&[2, 3], &[1, 0], 2, &bytes), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
        let cube: Vec<u8> = (0..24).collect();
        let turned = transpose(&[2, 3, 4], &[2, 0, 1], 1, &cube);
        assert_eq!(turned[..6], [0, 4, 8, 12, 16, 20]);
        assert_eq!(transpose(&[], &[], 4, &[1, 2, 3, 4]), [1, 2, 3, 4]);
    }
}
