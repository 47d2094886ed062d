//! Reductions of every aspect, ARGMAX, and softmax as front-ends write it.

use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};

use crate::case::Case;
use crate::graph::{nothing, operator, short};

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [[i32; 2]; 5] =
        [[1, 1 << 28], [1 << 28, 1], [16_384, 16_384], [1 << 20, 256], [256, 1 << 20]];
    for (name, dtype) in [("SUM", Fp32), ("SUM", Fp16), ("MAX", Fp16), ("MAX", Int8), ("SUM", Int32)] {
        for shape in shapes {
            for axis in [0, 1] {
                // A reduction of an axis of one element is a copy.
                if shape[axis] > 1 {
                    cases.push(reduce(name, dtype, shape, axis));
                }
            }
        }
    }
    for axis in [0, 1] {
        cases.push(Case::bytes(format!("argmax/f16/16384x16384/axis {axis}"), move || {
            let attribute = Attribute::Axis { axis, nan_mode: 1 };
            operator("ARGMAX", attribute, &[(Fp16, &[16_384, 16_384])], (Int32, &[16_384]), nothing)
        }));
    }
    for (dtype, shape) in
        [(Fp16, [8192, 8192]), (Fp32, [8192, 8192]), (Fp16, [65_536, 1000]), (Fp16, [1 << 20, 128])]
    {
        let name = format!("softmax/{}/{}x{}", short(dtype), shape[0], shape[1]);
        cases.push(Case::bytes(name, move || softmax(dtype, shape)));
    }
    cases
}

fn reduce(name: &'static str, dtype: DType, shape: [i32; 2], axis: usize) -> Case {
    let label =
        format!("reduce_{}/{}/{}x{}/axis {axis}", name.to_lowercase(), short(dtype), shape[0], shape[1]);
    Case::bytes(label, move || {
        let mut output = shape;
        output[axis] = 1;
        let attribute = Attribute::Axis { axis: axis as i32, nan_mode: u32::from(name == "MAX") };
        operator(&format!("REDUCE_{name}"), attribute, &[(dtype, &shape)], (dtype, &output), nothing)
    })
}

/// Over the last dimension: exp(x - max) times the reciprocal of its sum.
fn softmax(dtype: DType, shape: [i32; 2]) -> Writer {
    let one = [shape[0], 1];
    let over = |nan_mode| Attribute::Axis { axis: 1, nan_mode };
    let mut w = Writer::new();
    w.input("x", dtype, &shape);
    w.op("REDUCE_MAX", over(1), &["x"], "max", dtype, &one);
    w.op("SUB", Attribute::None, &["x", "max"], "shifted", dtype, &shape);
    w.op("EXP", Attribute::None, &["shifted"], "exp", dtype, &shape);
    w.op("REDUCE_SUM", over(0), &["exp"], "sum", dtype, &one);
    w.op("RECIPROCAL", Attribute::None, &["sum"], "part", dtype, &one);
    w.constant("shift", DType::Int8, &[1], &[0]);
    w.op("MUL", Attribute::None, &["exp", "part", "shift"], "y", dtype, &shape);
    w.output("y");
    w
}
