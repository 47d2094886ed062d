//! Data movement: TRANSPOSE, CONCAT, SLICE, PAD, TILE, GATHER, SCATTER.

use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};

use crate::case::Case;
use crate::graph::{nothing, operator, short};

const EDGE: i32 = 8192;

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [Fp32, Fp16, Int8] {
        let name = short(dtype);
        cases.push(transpose(format!("transpose/{name}/8192x8192"), dtype, &[EDGE, EDGE], &[1, 0]));
        cases.push(transpose(
            format!("transpose/{name}/nhwc-nchw/32x112x112x64"),
            dtype,
            &[32, 112, 112, 64],
            &[0, 3, 1, 2],
        ));
        cases.push(transpose(
            format!("transpose/{name}/heads/8x2048x32x128"),
            dtype,
            &[8, 2048, 32, 128],
            &[0, 2, 1, 3],
        ));
        cases.push(Case::bytes(format!("concat/{name}/2x8192x4096"), move || {
            let half: &[i32] = &[EDGE, EDGE / 2];
            let attribute = Attribute::Axis { axis: 1, nan_mode: 0 };
            operator("CONCAT", attribute, &[(dtype, half), (dtype, half)], (dtype, &[EDGE, EDGE]), nothing)
        }));
        cases.push(Case::bytes(format!("pad/{name}/32x112x112x64"), move || {
            operator(
                "PAD",
                Attribute::None,
                &[(dtype, &[32, 112, 112, 64])],
                (dtype, &[32, 114, 114, 64]),
                |w| {
                    w.shape("padding", &[0, 0, 1, 1, 1, 1, 0, 0]);
                    w.constant("zero", dtype, &[1], &[0; 4][..dtype.bytes().unwrap_or(1)]);
                    vec!["padding", "zero"]
                },
            )
        }));
        cases.push(Case::bytes(format!("gather/{name}/65536 of 32768x1024"), move || {
            let (values, picks): (&[i32], &[i32]) = (&[1, 32_768, 1024], &[1, 65_536]);
            let output: (DType, &[i32]) = (dtype, &[1, 65_536, 1024]);
            indexed("GATHER", &[(dtype, values)], picks, 32_767, output)
        }));
    }
    cases.push(Case::bytes("reverse/f16/8192x8192", || {
        let attribute = Attribute::Axis { axis: 1, nan_mode: 0 };
        operator("REVERSE", attribute, &[(Fp16, &[EDGE, EDGE])], (Fp16, &[EDGE, EDGE]), nothing)
    }));
    cases.push(Case::bytes("tile/f16/2x4096x4096", || {
        operator("TILE", Attribute::None, &[(Fp16, &[EDGE / 2, EDGE / 2])], (Fp16, &[EDGE, EDGE / 2]), |w| {
            w.shape("multiples", &[2, 1]);
            vec!["multiples"]
        })
    }));
    cases
}

fn transpose(name: String, dtype: DType, shape: &'static [i32], perms: &'static [i32]) -> Case {
    Case::bytes(name, move || {
        let output: Vec<i32> = perms.iter().map(|&from| shape[from as usize]).collect();
        operator(
            "TRANSPOSE",
            Attribute::Transpose(perms.to_vec()),
            &[(dtype, shape)],
            (dtype, &output),
            nothing,
        )
    })
}

/// An operator whose last operand picks rows: the graph's input of random words, made an index by an AND.
fn indexed(
    name: &str,
    inputs: &[(DType, &[i32])],
    picks: &[i32],
    mask: i32,
    output: (DType, &[i32]),
) -> Writer {
    operator(name, Attribute::None, inputs, output, |w| {
        let ones = vec![1; picks.len()];
        w.input("words", Int32, picks);
        w.constant("mask", Int32, &ones, &mask.to_le_bytes());
        w.op("BITWISE_AND", Attribute::None, &["words", "mask"], "picks", Int32, picks);
        vec!["picks"]
    })
}
