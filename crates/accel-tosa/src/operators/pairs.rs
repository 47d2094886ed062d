//! Rows of types for operators of TOSA 1.1 that multiply any two floating-point types.

use super::{
    EXT_BF16, EXT_BF16_E4M3, EXT_BF16_E5M2, EXT_E4M3, EXT_E4M3_E5M2, EXT_E5M2, ProfileNeed, TypeRow, V1_0,
    V1_1,
};
use crate::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp16, Fp32};

const FLOATS: [DType; 5] = [Fp8E4M3, Fp8E5M2, Fp16, Bf16, Fp32];

/// What a result may be: its type, the accumulator's, and the operands of another kind that rule it out.
type Result = (DType, DType, &'static [DType]);

const RESULTS: [Result; 5] = [
    (Fp32, Fp32, &[]),
    (Fp16, Fp16, &[Bf16, Fp32]),
    (Fp16, Fp32, &[Bf16, Fp32]),
    (Bf16, Bf16, &[Fp16, Fp32]),
    (Bf16, Fp32, &[Fp16, Fp32]),
];

const fn is(a: DType, b: DType) -> bool {
    a as u32 == b as u32
}

const fn among(dtype: DType, list: &[DType]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if is(dtype, list[at]) {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether CONV2D has the row in 1.1 but not in 1.0.
const fn convolves([a, b, output, accumulator]: [DType; 4]) -> bool {
    let mut at = 0;
    let mut found = false;
    while at < RESULTS.len() {
        let (dtype, sum, not) = RESULTS[at];
        found |= is(output, dtype) && is(accumulator, sum) && !among(a, not) && !among(b, not);
        at += 1;
    }
    let before = is(a, b)
        && match a {
            Fp16 => is(output, Fp16),
            Fp32 => true,
            Bf16 => is(output, Bf16) && is(accumulator, Fp32),
            _ => is(output, Fp16) && is(accumulator, Fp16),
        };
    found && !before
}

/// Whether MATMUL_T has the row; the last two types are one.
const fn multiplies([a, b, output, same]: [DType; 4]) -> bool {
    let narrow = match output {
        Fp16 => is(a, Fp16) && is(b, Fp16),
        Bf16 => !(is(a, Fp32) || is(b, Fp32) || is(a, Fp16) && is(b, Fp16)),
        _ => true,
    };
    narrow && is(output, same)
}

/// Rows of [`CONVOLVED`].
pub(super) const CONVOLUTIONS: usize = 55;
/// Rows of [`MULTIPLIED`].
pub(super) const PRODUCTS: usize = 41;

/// CONV2D of 1.1: input, weight, output, accumulator.
pub(super) const CONVOLVED: [TypeRow; CONVOLUTIONS] = rows(&CONVOLVED_TYPES, 4);
/// MATMUL_T: A, B, output.
pub(super) const MULTIPLIED: [TypeRow; PRODUCTS] = rows(&MULTIPLIED_TYPES, 3);

static CONVOLVED_TYPES: [[DType; 4]; CONVOLUTIONS] = list(true);
static MULTIPLIED_TYPES: [[DType; 4]; PRODUCTS] = list(false);

/// Every row of the one operator or the other. A wrong `N` does not compile.
const fn list<const N: usize>(convolution: bool) -> [[DType; 4]; N] {
    let outputs = [Fp16, Bf16, Fp32];
    let mut list = [[Fp32; 4]; N];
    let mut count = 0;
    let mut number = 0;
    while number < 5 * 5 * 3 * 3 {
        let row = [FLOATS[number / 45], FLOATS[number / 9 % 5], outputs[number / 3 % 3], outputs[number % 3]];
        if if convolution { convolves(row) } else { multiplies(row) } {
            list[count] = row;
            count += 1;
        }
        number += 1;
    }
    assert!(count == N);
    list
}

const fn rows<const N: usize>(types: &'static [[DType; 4]; N], columns: usize) -> [TypeRow; N] {
    const BLANK: TypeRow =
        TypeRow { types: &[], profile: ProfileNeed::Float, extension: None, version: V1_1 };
    let mut rows = [BLANK; N];
    let mut at = 0;
    while at < N {
        let [a, b, output, _] = types[at];
        rows[at].types = types[at].split_at(columns).0;
        rows[at].extension = extension([a, b, output]);
        at += 1;
    }
    rows
}

const fn extension(types: [DType; 3]) -> Option<&'static str> {
    match (among(Bf16, &types), among(Fp8E4M3, &types), among(Fp8E5M2, &types)) {
        (false, false, false) => None,
        (true, false, false) => Some(EXT_BF16),
        (false, true, false) => Some(EXT_E4M3),
        (false, false, true) => Some(EXT_E5M2),
        (true, true, false) => Some(EXT_BF16_E4M3),
        (true, false, true) => Some(EXT_BF16_E5M2),
        (false, true, true) => Some(EXT_E4M3_E5M2),
        (true, true, true) => Some("EXT-BF16, EXT-FP8E4M3 and EXT-FP8E5M2"),
    }
}

/// Two tables as one.
pub(super) const fn join<const N: usize>(first: &[TypeRow], second: &[TypeRow]) -> [TypeRow; N] {
    const BLANK: TypeRow =
        TypeRow { types: &[], profile: ProfileNeed::Either, extension: None, version: V1_0 };
    let mut rows = [BLANK; N];
    let mut at = 0;
    while at < N {
        rows[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    rows
}
