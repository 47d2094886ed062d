//! Rows of types for operators on block-scaled data (EXT-MX-COMMON of TOSA 1.1): block-scaled tensors, and values with their
//! scales in a tensor of their own.

use super::pairs::{self, Needs, rows};
use super::{BF16, TypeRow};
use crate::DType::{self, Bf16, Fp8E4M3, Fp8E5M2, Fp8UE8M0, Fp16, Fp32};

pub(super) const COMMON: &str = "EXT-MX-COMMON";
/// What [`DType::SCALABLE`] and [`DType::BLOCK_SCALED`] need besides.
pub(super) const EXTENSIONS: [&str; 6] =
    ["EXT-MX-FP8E4M3", "EXT-MX-FP8E5M2", "EXT-MX-FP6E2M3", "EXT-MX-FP6E3M2", "EXT-MX-FP4E2M1", "EXT-MX-INT8"];
pub(super) const CONVOLUTION: &str = "EXT-MXFP-CONV";

const FLOATS: [DType; 5] = [Fp8E4M3, Fp8E5M2, Fp16, Bf16, Fp32];
/// Casts between a block-scaled type and a float, of either direction.
pub(super) const CASTS: usize = 60;

/// Operators that move block-scaled tensors.
pub(super) const MOVED: [TypeRow; 6] = rows(&PAIRS, 1, &NEEDS);
/// RESIZE of block-scaled tensors.
pub(super) const KEPT: [TypeRow; 6] = rows(&PAIRS, 2, &NEEDS);
/// CAST.
pub(super) const CONVERTED: [TypeRow; CASTS] = rows(&CONVERTED_TYPES, 2, &CONVERTED_NEEDS);
/// Operators that move values and scales.
pub(super) const VALUES: [TypeRow; 6] = rows(&MULTIPLIED_TYPES, 1, &NEEDS);
/// MATMUL_T_BLOCK_SCALED.
pub(super) const MULTIPLIED: [TypeRow; 6] = rows(&MULTIPLIED_TYPES, 3, &NEEDS);
/// CONV2D_BLOCK_SCALED.
pub(super) const CONVOLVED: [TypeRow; 5] = rows(&CONVOLVED_TYPES, 3, &CONVOLVED_NEEDS);
/// CAST_FROM_BLOCK_SCALED.
pub(super) const DECODED: [TypeRow; 12] = rows(&DECODED_TYPES, 2, &CAST_NEEDS);
/// CAST_TO_BLOCK_SCALED.
pub(super) const ENCODED: [TypeRow; 12] = rows(&ENCODED_TYPES, 2, &CAST_NEEDS);
/// CONST of block-scaled types, of their values where no other extension has them, and of scales.
pub(super) const CONSTANTS: [TypeRow; 11] = rows(&CONSTANT_TYPES, 1, &CONSTANT_NEEDS);

static PAIRS: [[DType; 2]; 6] = {
    let mut types = [[Fp32; 2]; 6];
    let mut at = 0;
    while at < 6 {
        types[at] = [DType::BLOCK_SCALED[at]; 2];
        at += 1;
    }
    types
};

/// What each of the six types needs.
static NEEDS: [Needs; 6] = {
    let mut needs = [([""; 6], 2); 6];
    let mut at = 0;
    while at < 6 {
        needs[at].0 = [COMMON, EXTENSIONS[at], "", "", "", ""];
        at += 1;
    }
    needs
};

static MULTIPLIED_TYPES: [[DType; 3]; 6] = {
    let mut types = [[Fp32; 3]; 6];
    let mut at = 0;
    while at < 6 {
        types[at] = [DType::SCALABLE[at], DType::SCALABLE[at], Fp32];
        at += 1;
    }
    types
};

/// Not MXINT8, which stands last.
static CONVOLVED_TYPES: [[DType; 3]; 5] = {
    let [first @ .., _] = MULTIPLIED_TYPES;
    first
};
static CONVOLVED_NEEDS: [Needs; 5] = {
    let mut needs = [([""; 6], 3); 5];
    let mut at = 0;
    while at < 5 {
        needs[at].0 = [COMMON, EXTENSIONS[at], CONVOLUTION, "", "", ""];
        at += 1;
    }
    needs
};

static CONVERTED_TYPES: [[DType; 2]; CASTS] = {
    let mut types = [[Fp32; 2]; CASTS];
    let mut at = 0;
    while at < CASTS {
        let (scaled, float) = (DType::BLOCK_SCALED[at / 10], FLOATS[at / 2 % 5]);
        types[at] = if at.is_multiple_of(2) { [scaled, float] } else { [float, scaled] };
        at += 1;
    }
    types
};
static CONVERTED_NEEDS: [Needs; CASTS] = {
    let mut needs = [([""; 6], 0); CASTS];
    let mut at = 0;
    while at < CASTS {
        needs[at] = pairs::extensions(&CONVERTED_TYPES[at], false);
        at += 1;
    }
    needs
};

static DECODED_TYPES: [[DType; 2]; 12] = casts(true);
static ENCODED_TYPES: [[DType; 2]; 12] = casts(false);
static CAST_NEEDS: [Needs; 12] = {
    let mut needs = [([""; 6], 0); 12];
    let mut at = 0;
    while at < 12 {
        needs[at] = if at.is_multiple_of(2) {
            ([COMMON, EXTENSIONS[at / 2], "", "", "", ""], 2)
        } else {
            ([BF16, COMMON, EXTENSIONS[at / 2], "", "", ""], 3)
        };
        at += 1;
    }
    needs
};

const fn casts(decode: bool) -> [[DType; 2]; 12] {
    let mut types = [[Fp32; 2]; 12];
    let mut at = 0;
    while at < 12 {
        let (values, float) = (DType::SCALABLE[at / 2], if at.is_multiple_of(2) { Fp32 } else { Bf16 });
        types[at] = if decode { [values, float] } else { [float, values] };
        at += 1;
    }
    types
}

static CONSTANT_TYPES: [[DType; 1]; 11] = {
    let mut types = [[Fp8UE8M0]; 11];
    let mut at = 0;
    while at < 6 {
        types[at] = [DType::BLOCK_SCALED[at]];
        // FP8 is among the types of TOSA 1.0.
        if at >= 2 {
            types[at + 4] = [DType::SCALABLE[at]];
        }
        at += 1;
    }
    types
};
static CONSTANT_NEEDS: [Needs; 11] = {
    let mut needs = [([COMMON, "", "", "", "", ""], 1); 11];
    let mut at = 0;
    while at < 6 {
        needs[at] = NEEDS[at];
        if at >= 2 {
            needs[at + 4] = NEEDS[at];
        }
        at += 1;
    }
    needs
};
