//! GATHER, ROW_GATHER and SCATTER: rows of `C` elements picked by an index tensor.

use accel_tosa::{DType, Node, Refusal};

use super::movers::{LANES, copy, element_bytes, stream_constants, stream_groups, wider};
use crate::builder::{Builder, Launch, Value};

/// `run` is the number of rows that an index picks.
pub(crate) fn gather(builder: &mut Builder<'_>, node: &Node, run: u32) -> Result<(), Refusal> {
    let mut rows = Rows::of(builder, node, 0)?;
    let indices = rows.numbers(builder, node, run)?;
    rows.picks *= run;
    let count = builder.graph.tensor(node.outputs[0]).bytes() / rows.size as u64;
    builder.launch(&Launch {
        module: &format!("gather.e{}", rows.size),
        constants: &stream_constants(builder),
        writes: &[builder.tensor(node.outputs[0])],
        reads: &[builder.tensor(node.inputs[0]), indices],
        params: &[count as u32, rows.values, rows.picks, rows.columns],
        groups: stream_groups(builder, count, rows.size),
        detail: &format!("{} of {} rows of {}", rows.picks, rows.values, rows.columns),
    })
}

pub(crate) fn scatter(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    let rows = Rows::of(builder, node, 2)?;
    let indices = rows.numbers(builder, node, 1)?;
    let output = builder.tensor(node.outputs[0]);
    copy(builder, output, builder.tensor(node.inputs[0]))?;
    let count = builder.graph.tensor(node.inputs[2]).bytes() / rows.size as u64;
    builder.launch(&Launch {
        module: &format!("scatter.e{}", rows.size),
        constants: &stream_constants(builder),
        writes: &[output],
        reads: &[indices, builder.tensor(node.inputs[2])],
        params: &[count as u32, rows.values, rows.picks, rows.columns],
        groups: count.div_ceil(u64::from(builder.caps.stream_lanes())),
        detail: &format!("{} of {} rows of {}", rows.picks, rows.values, rows.columns),
    })
}

struct Rows {
    /// Bytes of an element, which may be several of the tensor's.
    size: usize,
    /// Rows of the values: K.
    values: u32,
    /// Rows picked: W.
    picks: u32,
    /// Elements of a row: C.
    columns: u32,
}

impl Rows {
    /// `moved` is the operand whose type counts.
    fn of(builder: &Builder<'_>, node: &Node, moved: usize) -> Result<Self, Refusal> {
        let (mut size, words) = element_bytes(builder, node.inputs[moved])?;
        let shape = |operand: usize| builder.graph.tensor(node.inputs[operand]).shape.as_slice();
        let (&[_, values, mut columns], &[_, picks]) = (shape(0), shape(1)) else {
            return Err(
                builder.unsupported(format!("{} takes values of rank 3 and indices of rank 2", builder.at.1))
            );
        };
        columns *= words;
        while let Some(by) = wider(size).filter(|by| columns.is_multiple_of(*by)) {
            size *= by as usize;
            columns /= by;
        }
        Ok(Self { size, values, picks, columns })
    }

    /// The indices as row numbers of INT32, `run` of them for each.
    fn numbers(&self, builder: &mut Builder<'_>, node: &Node, run: u32) -> Result<Value, Refusal> {
        let indices = builder.graph.tensor(node.inputs[1]);
        let module = match indices.dtype {
            DType::Int64 => "indices.i64",
            _ if run > 1 => "indices.i32",
            _ => return Ok(builder.tensor(node.inputs[1])),
        };
        let count = indices.elements() * u64::from(run);
        let numbers = builder.scratch(count * 4);
        builder.launch(&Launch {
            module,
            constants: &[],
            writes: &[numbers],
            reads: &[builder.tensor(node.inputs[1])],
            params: &[count as u32, run, self.values],
            groups: count.div_ceil(LANES),
            detail: &format!("runs of {run}"),
        })?;
        Ok(numbers)
    }
}
