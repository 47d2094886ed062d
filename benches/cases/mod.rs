//! All cases.

mod conv;
mod elementwise;
mod matmul;
mod movers;
mod reduce;

use crate::case::Case;

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    [elementwise::all(), movers::all(), reduce::all(), matmul::all(), conv::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// Element counts of the cases that stream: in an H200's cache half of the way, and far beyond any.
const COUNTS: [(i32, &str); 2] = [(1 << 24, "2^24"), (1 << 28, "2^28")];
