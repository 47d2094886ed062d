//! The tables of the TOSA FlatBuffer schema that reading needs. Field numbers follow the schema's order.

use crate::flat::{Bytes, List, Table, table};
use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Verifiable, Verifier};

/// Number of the field `shape` of a tensor.
pub(crate) const SHAPE_FIELD: u16 = 1;

table! {
    /// Root.
    TosaGraph { version: Version<'a> = 0, regions: List<'a, TosaRegion<'a>> = 1 }
    /// Version stamp; absent numbers read as -1, an absent draft flag as true.
    Version { major: i32 = 0, minor: i32 = 1, patch: i32 = 2, draft: bool = 3 }
    /// A region.
    TosaRegion { name: &'a str = 0, blocks: List<'a, TosaBasicBlock<'a>> = 1 }
    /// A block.
    TosaBasicBlock {
        operators: List<'a, TosaOperator<'a>> = 1,
        tensors: List<'a, TosaTensor<'a>> = 2,
        inputs: List<'a, &'a str> = 3,
        outputs: List<'a, &'a str> = 4,
        shapes: List<'a, TosaShape<'a>> = 5,
    }
    /// A tensor.
    TosaTensor {
        name: &'a str = 0,
        shape: List<'a, i32> = 1,
        dtype: u32 = 2,
        data: Bytes<'a> = 3,
        variable: bool = 4,
        is_unranked: bool = 5,
        offset: u64 = 7,
        size: u64 = 8,
        scale_type: u32 = 9,
        scale_data: Bytes<'a> = 10,
        block_shape: u32 = 11,
        scale_offset: u64 = 12,
        scale_size: u64 = 13,
    }
    /// A shape value.
    TosaShape { name: &'a str = 0, rank: u32 = 1, data: Bytes<'a> = 2 }

    /// ARGMAX, REDUCE_*, CONCAT, REVERSE: the axis, with the NaN mode where the operator has one.
    AxisAttribute { axis: i32 = 0, nan_mode: u32 = 1 }
    /// AVG_POOL2D (last field: accumulator type) and MAX_POOL2D (last field: NaN mode).
    PoolAttribute { kernel: List<'a, i32> = 0, stride: List<'a, i32> = 1, pad: List<'a, i32> = 2, last: u32 = 3 }
    /// CONV2D, CONV3D, DEPTHWISE_CONV2D.
    ConvAttribute {
        pad: List<'a, i32> = 0,
        stride: List<'a, i32> = 1,
        dilation: List<'a, i32> = 2,
        acc_type: u32 = 4,
    }
    /// TRANSPOSE_CONV2D.
    TransposeConvAttribute { out_pad: List<'a, i32> = 0, stride: List<'a, i32> = 1, acc_type: u32 = 3 }
    /// FFT2D.
    FftAttribute { inverse: bool = 0 }
    /// CLAMP.
    ClampAttribute { min: Bytes<'a> = 0, max: Bytes<'a> = 1, nan_mode: u32 = 2 }
    /// MAXIMUM, MINIMUM (NaN mode), RESIZE (mode), operators on block-scaled data (block size).
    ModeAttribute { mode: u32 = 0 }
    /// ARITHMETIC_RIGHT_SHIFT.
    RoundAttribute { round: bool = 0 }
    /// TRANSPOSE.
    TransposeAttribute { perms: List<'a, i32> = 0 }
    /// COND_IF (names of the then and the else graph) and WHILE_LOOP (of the condition's and the body's).
    GraphsAttribute { first: &'a str = 0, second: &'a str = 1 }
    /// RESCALE.
    RescaleAttribute {
        scale32: bool = 0,
        rounding: u32 = 1,
        per_channel: bool = 2,
        input_unsigned: bool = 3,
        output_unsigned: bool = 4,
    }
}

/// An operator. The attribute is a union: `attribute_type` says which table `attribute` points to.
#[derive(Clone, Copy)]
pub(crate) struct TosaOperator<'a>(pub(crate) Table<'a>);

impl<'a> TosaOperator<'a> {
    pub fn op(&self) -> Option<u32> {
        self.0.field(0)
    }

    pub fn attribute_type(&self) -> Option<u8> {
        self.0.field(1)
    }

    /// The attribute as the table `T`, which the caller picks by the operator; `None` when it is absent.
    pub fn attribute<T: crate::flat::Item<'a>>(&self) -> Option<T> {
        self.0.field(2)
    }

    pub fn inputs(&self) -> Option<List<'a, &'a str>> {
        self.0.field(3)
    }

    pub fn outputs(&self) -> Option<List<'a, &'a str>> {
        self.0.field(4)
    }
}

impl<'a> crate::flat::Item<'a> for TosaOperator<'a> {
    type Flat = ForwardsUOffset<TosaOperator<'a>>;
    const SIZE: usize = 4;
    fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        Table::behind(buf, at).map(Self)
    }
}

impl Verifiable for TosaOperator<'_> {
    fn run_verifier(v: &mut Verifier, at: usize) -> Result<(), InvalidFlatbuffer> {
        use crate::flat::slot;
        v.visit_table(at)?
            .visit_field::<u32>("op", slot(0), false)?
            .visit_union::<u8, _>("attribute_type", slot(1), "attribute", slot(2), false, verify_attribute)?
            .visit_field::<ForwardsUOffset<flatbuffers::Vector<ForwardsUOffset<&str>>>>(
                "inputs",
                slot(3),
                false,
            )?
            .visit_field::<ForwardsUOffset<flatbuffers::Vector<ForwardsUOffset<&str>>>>(
                "outputs",
                slot(4),
                false,
            )?
            .finish();
        Ok(())
    }
}

/// Verifies the attribute table that belongs to a union tag. Tables that are never read, because they are empty or
/// because the operator is refused by name, are not followed at all.
fn verify_attribute(tag: u8, v: &mut Verifier, at: usize) -> Result<(), InvalidFlatbuffer> {
    use crate::operators::AttributeKind as K;
    match crate::operators::by_code(u32::from(tag)).map(|operator| operator.attribute) {
        Some(K::Axis) => ForwardsUOffset::<AxisAttribute>::run_verifier(v, at),
        Some(K::Pool) => ForwardsUOffset::<PoolAttribute>::run_verifier(v, at),
        Some(K::Conv) => ForwardsUOffset::<ConvAttribute>::run_verifier(v, at),
        Some(K::TransposeConv) => ForwardsUOffset::<TransposeConvAttribute>::run_verifier(v, at),
        Some(K::Clamp) => ForwardsUOffset::<ClampAttribute>::run_verifier(v, at),
        Some(K::Mode) => ForwardsUOffset::<ModeAttribute>::run_verifier(v, at),
        Some(K::Round) => ForwardsUOffset::<RoundAttribute>::run_verifier(v, at),
        Some(K::Transpose) => ForwardsUOffset::<TransposeAttribute>::run_verifier(v, at),
        Some(K::Fft) => ForwardsUOffset::<FftAttribute>::run_verifier(v, at),
        Some(K::Graphs) => ForwardsUOffset::<GraphsAttribute>::run_verifier(v, at),
        Some(K::Rescale) => ForwardsUOffset::<RescaleAttribute>::run_verifier(v, at),
        Some(K::None) | None => Ok(()),
    }
}
