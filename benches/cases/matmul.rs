//! MATMUL: square, skinny, the shapes of a language model, batches, odd extents.

use accel_tosa::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};

use crate::case::{Arithmetic, Case};
use crate::graph::{nothing, operator, short};

/// Factors and result.
type Types = (DType, DType);

const ALL: [Types; 7] =
    [(Fp32, Fp32), (Fp16, Fp16), (Fp16, Fp32), (Bf16, Fp32), (Fp8E4M3, Fp16), (Fp8E5M2, Fp16), (Int8, Int32)];

/// Batch, rows, depth and columns.
pub type Extents = [i32; 4];

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for edge in [256, 512, 1024, 2048, 4096, 8192] {
        cases.extend(ALL.map(|types| product("matmul", types, [1, edge, edge, edge])));
        cases.push(mixed([1, edge, edge, edge]));
    }
    for edge in [127, 129, 1000, 4097] {
        let odd = [(Fp32, Fp32), (Fp16, Fp32), (Fp8E4M3, Fp16), (Int8, Int32)];
        cases.extend(odd.map(|types| product("matmul", types, [1, edge, edge, edge])));
    }
    let streamed = [(Fp32, Fp32), (Fp16, Fp16), (Fp8E4M3, Fp16), (Int8, Int32)];
    for rows in [1, 2, 4, 8, 16, 32, 64] {
        cases.extend(streamed.map(|types| product("skinny", types, [1, rows, 4096, 4096])));
        cases.push(mixed_named("skinny", [1, rows, 4096, 4096]));
    }
    cases.extend(streamed.map(|types| product("skinny", types, [1, 1, 16_384, 16_384])));
    for (rows, [depth, columns]) in
        [1, 8, 512].into_iter().flat_map(|rows| [[4096, 11_008], [11_008, 4096]].map(|shape| (rows, shape)))
    {
        let types = [(Fp16, Fp16), (Fp8E4M3, Fp16), (Int8, Int32)];
        cases.extend(types.map(|types| product("llama", types, [1, rows, depth, columns])));
        cases.push(mixed_named("llama", [1, rows, depth, columns]));
    }
    for (batch, edge) in [(1024, 64), (256, 128), (64, 256)] {
        cases.extend(
            [(Fp32, Fp32), (Fp16, Fp16)].map(|types| product("batch", types, [batch, edge, edge, edge])),
        );
    }
    // Attention: scores of 32 heads of 128.
    cases.push(product("batch", (Fp16, Fp16), [32, 2048, 128, 2048]));
    cases
}

/// The units that multiply these factors; FP8 is decoded to FP16.
pub fn arithmetic(factors: DType) -> Arithmetic {
    match factors {
        Fp32 => Arithmetic::F32,
        Bf16 => Arithmetic::Bf16,
        Int8 => Arithmetic::I8,
        _ => Arithmetic::F16,
    }
}

fn name(family: &str, types: &str, [batch, rows, depth, columns]: Extents) -> String {
    let batches = if batch > 1 { format!("{batch}x") } else { String::new() };
    format!("{family}/{types}/{batches}{rows}x{depth}x{columns}")
}

fn operations(extents: Extents) -> u64 {
    2 * extents.iter().map(|&extent| extent as u64).product::<u64>()
}

/// A case of one MATMUL.
pub fn product(family: &str, (factors, result): Types, extents: Extents) -> Case {
    let types = if factors == result {
        short(factors).to_owned()
    } else {
        format!("{}-{}", short(factors), short(result))
    };
    let work = (operations(extents), arithmetic(factors));
    let [batch, rows, depth, columns] = extents;
    let graph = move || {
        let inputs: [(DType, &[i32]); 2] =
            [(factors, &[batch, rows, depth]), (factors, &[batch, depth, columns])];
        operator("MATMUL", Attribute::None, &inputs, (result, &[batch, rows, columns]), |w| {
            zero_points(w, factors)
        })
    };
    Case::operations(name(family, &types, extents), work, graph).streams(rows)
}

fn mixed(extents: Extents) -> Case {
    mixed_named("matmul", extents)
}

/// FP16 activations and E4M3 weights, which a CAST widens.
fn mixed_named(family: &str, extents: Extents) -> Case {
    let [batch, rows, depth, columns] = extents;
    let graph = move || {
        let mut w = operator(
            "CAST",
            Attribute::None,
            &[(Fp8E4M3, &[batch, depth, columns])],
            (Fp16, &[batch, depth, columns]),
            nothing,
        );
        w.outputs.clear();
        w.input("x", Fp16, &[batch, rows, depth]);
        let zeros = zero_points(&mut w, Fp16);
        w.op(
            "MATMUL",
            Attribute::None,
            &["x", "y", zeros[0], zeros[1]],
            "product",
            Fp16,
            &[batch, rows, columns],
        );
        w.output("product");
        w
    };
    Case::operations(name(family, "f16*e4m3", extents), (operations(extents), Arithmetic::F16), graph)
        .streams(rows)
}

fn zero_points(w: &mut Writer, factors: DType) -> Vec<&'static str> {
    let zero = [0; 4];
    for name in ["a_zp", "b_zp"] {
        w.constant(name, factors, &[1], &zero[..factors.bytes().unwrap_or(1)]);
    }
    vec!["a_zp", "b_zp"]
}
