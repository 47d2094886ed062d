//! IDENTITY, CAST, and arithmetic an element at a time.

use accel_tosa::DType::{self, Bool, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::Attribute;

use super::COUNTS;
use crate::case::Case;
use crate::graph::{nothing, operator, short};

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (count, size) in COUNTS {
        for dtype in [Fp32, Fp16, Int8] {
            cases.push(Case::bytes(format!("identity/{}/{size}", short(dtype)), move || {
                operator("IDENTITY", Attribute::None, &[(dtype, &[count])], (dtype, &[count]), nothing)
            }));
        }
        for (from, to) in pairs() {
            cases.push(Case::bytes(format!("cast/{}-{}/{size}", short(from), short(to)), move || {
                operator("CAST", Attribute::None, &[(from, &[count])], (to, &[count]), nothing)
            }));
        }
        for (name, dtype) in [("ADD", Fp32), ("ADD", Fp16), ("MAXIMUM", Fp16), ("ADD", Int32)] {
            cases.push(binary(name, dtype, size, "same", [count], [count]));
        }
        for dtype in [Fp32, Fp16] {
            let rows = count >> 12;
            cases.push(binary("ADD", dtype, size, "row", [rows, 4096], [1, 4096]));
            cases.push(binary("ADD", dtype, size, "column", [rows, 4096], [rows, 1]));
            cases.push(binary("ADD", dtype, size, "middle", [rows, 16, 256], [rows, 1, 256]));
            cases.push(binary("ADD", dtype, size, "scalar", [rows, 4096], [1, 1]));
        }
        for (name, dtype) in [("EXP", Fp32), ("TANH", Fp16), ("ERF", Fp32)] {
            cases.push(unary(name, dtype, count, size));
        }
        cases.push(Case::bytes(format!("clamp/i8/{size}"), move || {
            let attribute = Attribute::Clamp { min: vec![0x80 + 20], max: vec![100], nan_mode: 1 };
            operator("CLAMP", attribute, &[(Int8, &[count])], (Int8, &[count]), nothing)
        }));
        cases.push(Case::bytes(format!("select/f16/{size}"), move || {
            let inputs: [(DType, &[i32]); 3] = [(Bool, &[count]), (Fp16, &[count]), (Fp16, &[count])];
            operator("SELECT", Attribute::None, &inputs, (Fp16, &[count]), nothing)
        }));
    }
    cases
}

/// Every pair of types that TOSA 1.0 casts between.
fn pairs() -> Vec<(DType, DType)> {
    let operators = accel_tosa::operators().iter().filter(|operator| operator.name == "CAST");
    let rows = operators.flat_map(|operator| operator.rows).filter(|row| row.version == (1, 0));
    rows.filter_map(|row| match row.types {
        &[from, to] => Some((from, to)),
        _ => None,
    })
    .collect()
}

fn unary(name: &'static str, dtype: DType, count: i32, size: &str) -> Case {
    Case::bytes(format!("{}/{}/{size}", name.to_lowercase(), short(dtype)), move || {
        operator(name, Attribute::None, &[(dtype, &[count])], (dtype, &[count]), nothing)
    })
}

fn binary<const N: usize>(
    name: &'static str,
    dtype: DType,
    size: &str,
    kind: &str,
    shape: [i32; N],
    other: [i32; N],
) -> Case {
    Case::bytes(format!("{}/{}/{kind}/{size}", name.to_lowercase(), short(dtype)), move || {
        let attribute = if name == "MAXIMUM" { Attribute::Mode(1) } else { Attribute::None };
        operator(name, attribute, &[(dtype, &shape), (dtype, &other)], (dtype, &shape), nothing)
    })
}
