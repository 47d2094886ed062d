//! Which operands are laid out anew for kernels on matrix units.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use accel_kernels::{DeviceCaps, DeviceKind, MatrixTuple, lower};
use accel_tosa::DType::{Fp8E4M3, Fp16};
use accel_tosa::writer::{Attribute, Writer};

/// Launches of a TRANSPOSE_CONV2D of FP8 with so many input channels, where everything is prepared that can be.
fn launches(channels: i32) -> Vec<String> {
    let unit =
        MatrixTuple { m: 16, n: 16, k: 16, operand: MatrixTuple::FLOAT16, result: MatrixTuple::FLOAT32 };
    let caps = DeviceCaps {
        kind: DeviceKind::Discrete,
        subgroup_size: 32,
        max_workgroup_invocations: 1024,
        shared_memory_bytes: 48 << 10,
        matrices: vec![unit],
        tuning: "matrix.least=1,matrix.prepare=1,matrix.turns=1".parse().unwrap(),
        ..DeviceCaps::baseline()
    };
    let weights = vec![0x38; (8 * 3 * 3 * channels) as usize];
    let mut w = Writer::new();
    w.input("x", Fp8E4M3, &[1, 6, 7, channels]);
    w.constant("w", Fp8E4M3, &[8, 3, 3, channels], &weights);
    w.constant("bias", Fp16, &[8], &[0; 16]);
    w.constant("zp", Fp8E4M3, &[1], &[0]);
    let attribute = Attribute::TransposeConv { out_pad: vec![0; 4], stride: vec![1, 1], acc_type: Fp16 };
    w.op("TRANSPOSE_CONV2D", attribute, &["x", "w", "bias", "zp", "zp"], "y", Fp16, &[1, 8, 9, 8]);
    w.output("y");
    let plan = lower(&accel_tosa::read(w.finish()).unwrap(), &caps).unwrap();
    plan.dispatches.iter().map(|d| d.label.clone()).collect()
}

/// Rows of weights that end inside a vector would get zeros behind them, of which a kernel that knows the windows does not know.
#[test]
fn fp8_windows_whose_rows_are_no_whole_vectors_are_widened_in_the_product() {
    let whole = launches(16);
    assert!(whole.iter().any(|label| label.contains("gemm_prepare.e4m3")), "{whole:?}");
    let ragged = launches(13);
    assert!(ragged.iter().any(|label| label.contains("gemm_matrix.conv_e4m3")), "{ragged:?}");
    assert!(!ragged.iter().any(|label| label.contains("gemm_prepare")), "{ragged:?}");
}
