//! Rows of types for operators of TOSA 1.1 that multiply any two floating-point types, block-scaled ones included.

use super::scaled;
use super::{BF16, E4M3, E5M2, ProfileNeed, TypeRow, V1_1};
use crate::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp16, Fp32};

/// What can be multiplied: floats, and block-scaled types, which are like FP8 here.
const OPERANDS: [DType; 11] = {
    let [a, b, c, d, e, f] = DType::BLOCK_SCALED;
    [Fp8E4M3, Fp8E5M2, Fp16, Bf16, Fp32, a, b, c, d, e, f]
};

/// What a result may be: its type, the accumulator's, and the operands of another kind that rule it out.
type Result = (DType, DType, &'static [DType]);

const RESULTS: [Result; 5] = [
    (Fp32, Fp32, &[]),
    (Fp16, Fp16, &[Bf16, Fp32]),
    (Fp16, Fp32, &[Bf16, Fp32]),
    (Bf16, Bf16, &[Fp16, Fp32]),
    (Bf16, Fp32, &[Fp16, Fp32]),
];

pub(super) const fn is(a: DType, b: DType) -> bool {
    a as u32 == b as u32
}

pub(super) const fn among(dtype: DType, list: &[DType]) -> bool {
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
            Fp8E4M3 | Fp8E5M2 => is(output, Fp16) && is(accumulator, Fp16),
            _ => false,
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
pub(super) const CONVOLUTIONS: usize = 439;
/// Rows of [`MULTIPLIED`].
pub(super) const PRODUCTS: usize = 221;

/// CONV2D of 1.1: input, weight, output, accumulator.
pub(super) static CONVOLVED: [TypeRow; CONVOLUTIONS] = rows(&CONVOLVED_TYPES, 4, &CONVOLVED_NEEDS);
/// MATMUL_T: A, B, output.
pub(super) static MULTIPLIED: [TypeRow; PRODUCTS] = rows(&MULTIPLIED_TYPES, 3, &MULTIPLIED_NEEDS);

static CONVOLVED_TYPES: [[DType; 4]; CONVOLUTIONS] = list(true);
static MULTIPLIED_TYPES: [[DType; 4]; PRODUCTS] = list(false);
static CONVOLVED_NEEDS: [Needs; CONVOLUTIONS] = needs(&CONVOLVED_TYPES, true);
static MULTIPLIED_NEEDS: [Needs; PRODUCTS] = needs(&MULTIPLIED_TYPES, false);

/// Every row of the one operator or the other. A wrong `N` does not compile.
const fn list<const N: usize>(convolution: bool) -> [[DType; 4]; N] {
    let outputs = [Fp16, Bf16, Fp32];
    let mut list = [[Fp32; 4]; N];
    let mut count = 0;
    let mut number = 0;
    while number < OPERANDS.len() * OPERANDS.len() * 9 {
        let (pair, result) = (number / 9, number % 9);
        let [a, b] = [OPERANDS[pair / OPERANDS.len()], OPERANDS[pair % OPERANDS.len()]];
        let row = [a, b, outputs[result / 3], outputs[result % 3]];
        if if convolution { convolves(row) } else { multiplies(row) } {
            list[count] = row;
            count += 1;
        }
        number += 1;
    }
    assert!(count == N);
    list
}

/// Extensions that a row needs, and how many they are.
pub(super) type Needs = ([&'static str; 6], usize);

const fn needs<const N: usize>(types: &[[DType; 4]; N], convolution: bool) -> [Needs; N] {
    let mut list = [([""; 6], 0); N];
    let mut at = 0;
    while at < N {
        let [a, b, output, _] = types[at];
        list[at] = extensions(&[a, b, output], convolution);
        at += 1;
    }
    list
}

/// The extensions of types; `convolution` for those of one on block-scaled data.
pub(super) const fn extensions(types: &[DType], convolution: bool) -> Needs {
    let mut list = [""; 6];
    let mut count = 0;
    let floats = [(Bf16, BF16), (Fp8E4M3, E4M3), (Fp8E5M2, E5M2)];
    let mut at = 0;
    while at < floats.len() {
        if among(floats[at].0, types) {
            list[count] = floats[at].1;
            count += 1;
        }
        at += 1;
    }
    let mut scaled = false;
    at = 0;
    while at < DType::BLOCK_SCALED.len() {
        if among(DType::BLOCK_SCALED[at], types) {
            if !scaled {
                list[count] = scaled::COMMON;
                count += 1;
            }
            scaled = true;
            list[count] = scaled::EXTENSIONS[at];
            count += 1;
        }
        at += 1;
    }
    if scaled && convolution {
        list[count] = scaled::CONVOLUTION;
        count += 1;
    }
    (list, count)
}

/// A row to be filled in.
pub(super) const BLANK: TypeRow =
    TypeRow { types: &[], profile: ProfileNeed::Float, extensions: &[], version: V1_1 };

/// A row for the first `columns` of each list of types.
pub(super) const fn rows<const N: usize, const W: usize>(
    types: &'static [[DType; W]; N],
    columns: usize,
    needs: &'static [Needs; N],
) -> [TypeRow; N] {
    let mut rows = [BLANK; N];
    let mut at = 0;
    while at < N {
        rows[at].types = types[at].split_at(columns).0;
        rows[at].extensions = needs[at].0.split_at(needs[at].1).0;
        at += 1;
    }
    rows
}
