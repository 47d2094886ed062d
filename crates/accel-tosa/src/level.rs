//! Limits of TOSA's level 8K (specification 1.0, section 1.8).

/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 6;
/// Largest kernel extent, dilated, and largest padding of a convolution or pool.
pub const MAX_KERNEL: i64 = 8192;
/// Largest stride.
pub const MAX_STRIDE: i64 = 8192;
/// Largest enlargement of RESIZE.
pub const MAX_SCALE: i64 = 256;
/// A tensor has fewer than `1 << MAX_LOG2_SIZE` elements.
pub const MAX_LOG2_SIZE: u32 = 31;
/// Most COND_IF and WHILE_LOOP operators that one may stand in.
pub const MAX_NESTING: usize = 6;
/// Most elements of a shape.
pub const MAX_SHAPE_LEN: usize = 16;
/// Most tensors in a list operand.
pub const MAX_TENSOR_LIST_SIZE: usize = 64;
