//! Data movement: CONCAT, PAD, REVERSE, SLICE, TILE and TRANSPOSE.
//!
//! Everything but CONCAT is a gather by index: a list of output dimensions, each with its stride in the
//! source. Adjacent dimensions merge where they can, and small elements become larger ones where runs allow it.

use accel_tosa::{DType, Node, Refusal, TensorId};

use crate::builder::{Builder, Launch, Value};
use crate::finish::bytes_of;
use crate::{DeviceCaps, DeviceKind};

/// Invocations of a workgroup of kernels that do not stream.
pub(crate) const LANES: u64 = 64;
/// Operands of one launch of `concat.comp`.
const CONCAT_OPERANDS: usize = 8;
/// Words along the edge of a tile of `transpose.comp`.
const TILE_WORDS: u32 = 32;
/// Bytes that an invocation moves at once.
const VECTOR: u64 = 16;
/// Number of the specialization constant of a workgroup's invocations.
const LANES_CONSTANT: u32 = 31;

/// A dimension of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim {
    /// Output extent.
    size: u32,
    /// Added to the output coordinate.
    start: i32,
    /// Source extent.
    extent: u32,
    /// Source elements from one coordinate to the next.
    stride: i32,
}

/// What a coordinate beyond the source's extent means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// There is none.
    Never,
    /// A constant.
    Value(u32),
    /// A constant of two words.
    Pair([u32; 2]),
    /// A number that is computed at run time.
    Operand(TensorId),
    /// The coordinate wraps around.
    Wraps,
}

/// A gather by index.
struct Gather {
    dims: Vec<Dim>,
    /// Source element at coordinate zero.
    base: u32,
    /// Bytes of an element: 1, 2, 4 or 16.
    size: usize,
    beyond: Beyond,
}

/// Copies the bytes of one value to another of the same size.
pub(crate) fn copy(builder: &mut Builder<'_>, to: Value, from: Value) -> Result<(), Refusal> {
    let bytes = bytes_of(builder, to);
    builder.launch(&Launch {
        module: "copy_bytes",
        constants: &stream_constants(builder),
        writes: &[to],
        reads: &[from],
        params: &[bytes as u32, (bytes >> 32) as u32],
        groups: stream_groups(builder, bytes.div_ceil(VECTOR), VECTOR as usize),
        detail: "",
    })
}

pub(crate) fn pad(
    builder: &mut Builder<'_>,
    node: &Node,
    padding: &[[u32; 2]],
    value: u64,
) -> Result<(), Refusal> {
    let (size, words) = element_bytes(builder, node.inputs[0])?;
    let dims = source_dims(builder, node.inputs[0], words);
    let padded = dims.iter().zip(padding.iter().chain(&[[0; 2]])).map(|(&dim, &[before, after])| Dim {
        size: before + dim.size + after,
        start: -(before as i32),
        ..dim
    });
    let pair = [value as u32, (value >> 32) as u32];
    let beyond = match node.inputs.get(1) {
        Some(&id) => Beyond::Operand(id),
        None if words > 1 && pair[0] != pair[1] => Beyond::Pair(pair),
        None => Beyond::Value(pair[0]),
    };
    let gather = Gather { dims: padded.collect(), base: 0, size, beyond };
    gather.launch(builder, node)
}

pub(crate) fn tile(builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
    let (size, words) = element_bytes(builder, node.inputs[0])?;
    let output = &builder.graph.tensor(node.outputs[0]).shape;
    let dims = source_dims(builder, node.inputs[0], words);
    let tiled =
        dims.iter().zip(output.iter().copied().chain([words])).map(|(&dim, size)| Dim { size, ..dim });
    let gather = Gather { dims: tiled.collect(), base: 0, size, beyond: Beyond::Wraps };
    gather.launch(builder, node)
}

pub(crate) fn slice(builder: &mut Builder<'_>, node: &Node, start: &[u32]) -> Result<(), Refusal> {
    let (size, words) = element_bytes(builder, node.inputs[0])?;
    let output = &builder.graph.tensor(node.outputs[0]).shape;
    let output = output.iter().copied().chain([words]);
    let source = source_dims(builder, node.inputs[0], words);
    let base = source.iter().zip(start).map(|(dim, &start)| dim.stride as u32 * start).sum();
    let dims = source.iter().zip(output).map(|(dim, size)| Dim { size, extent: size, ..*dim }).collect();
    Gather { dims, base, size, beyond: Beyond::Never }.launch(builder, node)
}

pub(crate) fn reverse(builder: &mut Builder<'_>, node: &Node, axis: u32) -> Result<(), Refusal> {
    let (size, words) = element_bytes(builder, node.inputs[0])?;
    let mut dims = source_dims(builder, node.inputs[0], words);
    let mut base = 0;
    if let Some(dim) = dims.get_mut(axis as usize) {
        base = (dim.size - 1) * dim.stride as u32;
        dim.stride = -dim.stride;
    }
    Gather { dims, base, size, beyond: Beyond::Never }.launch(builder, node)
}

pub(crate) fn transpose(builder: &mut Builder<'_>, node: &Node, perms: &[u32]) -> Result<(), Refusal> {
    let (size, words) = element_bytes(builder, node.inputs[0])?;
    let source = source_dims(builder, node.inputs[0], words);
    let perms = perms.iter().map(|&from| from as usize).chain([perms.len()]);
    let dims = perms.filter_map(|from| source.get(from).copied()).collect();
    let mut gather = Gather { dims, base: 0, size, beyond: Beyond::Never };
    gather.simplify();
    match gather.innermost_source() {
        Some(at) if gather.wants_tiles(at) => gather.launch_tiled(builder, node, at),
        _ => gather.launch(builder, node),
    }
}

/// An invocation owns an output word and fetches its elements from whichever operand has them, so operands may
/// share words. Operands beyond [`CONCAT_OPERANDS`] take further launches, which leave each other's bytes alone.
pub(crate) fn concat(builder: &mut Builder<'_>, node: &Node, axis: u32) -> Result<(), Refusal> {
    let (mut size, words) = element_bytes(builder, node.outputs[0])?;
    let graph = builder.graph;
    let columns = |id: TensorId| graph.tensor(id).shape[axis as usize..].iter().product::<u32>() * words;
    let mut runs = Vec::with_capacity(node.inputs.len());
    let mut row = 0;
    for &id in &node.inputs {
        runs.push((row, columns(id), id));
        row += columns(id);
    }
    while let Some(by) = wider(size).filter(|by| runs.iter().all(|run| run.1.is_multiple_of(*by))) {
        size *= by as usize;
        row /= by;
        runs.iter_mut().for_each(|run| *run = (run.0 / by, run.1 / by, run.2));
    }
    let count = graph.tensor(node.outputs[0]).bytes() / size as u64;
    let (magic, shift) = magic(row);
    for runs in runs.chunks(CONCAT_OPERANDS) {
        let mut words: Vec<u32> = runs.iter().flat_map(|run| [run.0, run.1]).collect();
        words.resize(2 * CONCAT_OPERANDS, 0);
        // The shader has room for a fixed number of addresses; the last operand fills the rest.
        let mut reads: Vec<Value> = runs.iter().map(|run| builder.tensor(run.2)).collect();
        reads.resize(CONCAT_OPERANDS, reads[reads.len() - 1]);
        reads.push(builder.words(&words));
        builder.launch(&Launch {
            module: &format!("concat.e{size}"),
            constants: &[&[(0, runs.len() as u32)], &stream_constants(builder)[..]].concat(),
            writes: &[builder.tensor(node.outputs[0])],
            reads: &reads,
            params: &[count as u32, row, magic, shift],
            groups: stream_groups(builder, count, size),
            detail: "",
        })?;
    }
    Ok(())
}

impl Gather {
    /// Drops dimensions of one element, merges those that follow each other in the source, and widens elements.
    fn simplify(&mut self) {
        let mut merged: Vec<Dim> = Vec::with_capacity(self.dims.len());
        for &dim in &self.dims {
            if dim.size == 1 && dim.extent == 1 {
                continue;
            }
            let whole = dim.start == 0 && dim.size == dim.extent;
            match merged.last_mut() {
                Some(outer)
                    if whole && i64::from(outer.stride) == i64::from(dim.stride) * i64::from(dim.size) =>
                {
                    outer.size *= dim.size;
                    outer.start *= dim.size as i32;
                    outer.extent *= dim.size;
                    outer.stride = dim.stride;
                }
                _ => merged.push(dim),
            }
        }
        if merged.is_empty() {
            merged.push(Dim { size: 1, start: 0, extent: 1, stride: 1 });
        }
        self.dims = merged;
        while self.widen().is_some() {}
    }

    /// Takes several elements as one where all runs are multiples of them.
    fn widen(&mut self) -> Option<()> {
        let by = wider(self.size)?;
        let (inner, outer) = self.dims.split_last_mut()?;
        let fits = |n: u32| n.is_multiple_of(by);
        if matches!(self.beyond, Beyond::Operand(_) | Beyond::Pair(_)) {
            return None;
        }
        let runs = inner.stride == 1 && fits(inner.size) && fits(inner.start as u32) && fits(inner.extent);
        if !runs || !fits(self.base) || !outer.iter().all(|dim| fits(dim.stride as u32)) {
            return None;
        }
        inner.size /= by;
        inner.start /= by as i32;
        inner.extent /= by;
        outer.iter_mut().for_each(|dim| dim.stride /= by as i32);
        if inner.size == 1 && !outer.is_empty() {
            self.dims.pop();
        }
        self.base /= by;
        if let Beyond::Value(value) = &mut self.beyond
            && self.size < 4
        {
            *value |= *value << (8 * self.size);
        }
        self.size *= by as usize;
        Some(())
    }

    /// Position of the dimension that runs along the source's memory.
    fn innermost_source(&self) -> Option<usize> {
        self.dims.iter().position(|dim| dim.stride == 1)
    }

    /// Whether both dimensions that run along memory are long enough for a tile to pay.
    fn wants_tiles(&self, at: usize) -> bool {
        let last = self.dims.len() - 1;
        self.size <= 4 && at != last && self.dims[at].size.min(self.dims[last].size) >= TILE_WORDS / 4
    }

    fn count(&self) -> u64 {
        self.dims.iter().map(|dim| u64::from(dim.size)).product()
    }

    fn launch(mut self, builder: &mut Builder<'_>, node: &Node) -> Result<(), Refusal> {
        self.simplify();
        let words: Vec<u32> = self
            .dims
            .iter()
            .flat_map(|dim| {
                let (magic, shift) = magic(dim.size);
                [dim.size, magic, shift, dim.start as u32, dim.extent, dim.stride as u32]
            })
            .collect();
        let count = self.count();
        let mut reads = vec![builder.tensor(node.inputs[0]), builder.words(&words)];
        let kind = match self.beyond {
            Beyond::Never => "plain",
            Beyond::Wraps => "tile",
            Beyond::Value(value) => {
                reads.push(builder.words(&[value; 4]));
                "pad"
            }
            Beyond::Pair(pair) => {
                reads.push(builder.words(&pair));
                "pad"
            }
            Beyond::Operand(id) => {
                reads.push(builder.tensor(id));
                "pad"
            }
        };
        let value_words = match self.beyond {
            Beyond::Pair(_) => 2,
            Beyond::Operand(id) => element_bytes(builder, id)?.1,
            _ => 1,
        };
        builder.launch(&Launch {
            module: &format!("move.{kind}{}", self.size),
            constants: &[&[(0, self.dims.len() as u32), (1, value_words)], &stream_constants(builder)[..]]
                .concat(),
            writes: &[builder.tensor(node.outputs[0])],
            reads: &reads,
            params: &[count as u32, self.base],
            groups: stream_groups(builder, count, self.size),
            detail: &format!("rank {}", self.dims.len()),
        })
    }

    /// Transposes through shared memory: `at` is the dimension that runs along the source and is not the
    /// output's innermost.
    fn launch_tiled(self, builder: &mut Builder<'_>, node: &Node, at: usize) -> Result<(), Refusal> {
        let mut strides = vec![1_u32; self.dims.len()];
        for d in (1..self.dims.len()).rev() {
            strides[d - 1] = strides[d] * self.dims[d].size;
        }
        let last = self.dims.len() - 1;
        let (i, j) = (self.dims[at], self.dims[last]);
        let caps = builder.caps;
        let slices: Vec<_> = (0..last).filter(|&d| d != at).map(|d| (self.dims[d], strides[d])).collect();
        let mut words: Vec<u32> =
            slices.iter().flat_map(|(dim, stride)| [dim.size, dim.stride as u32, *stride]).collect();
        // A block must not be empty, even when nothing is read of it.
        words.push(0);
        let vector = 16 / self.size as u32;
        let steps = slices.iter().flat_map(|(dim, stride)| [dim.stride as u32, *stride]);
        let vectors = caps.kind != DeviceKind::Cpu
            && steps.chain([i.size, j.size, j.stride as u32, strides[at]]).all(|n| n.is_multiple_of(vector));
        let (module, edges, constants) = if vectors {
            let [lanes, lanes_i] = blocks(caps, [i.size, j.size], vector);
            let edges = [lanes_i * vector, lanes / lanes_i * vector];
            ("transpose_vectors", edges, vec![(0, lanes), (1, lanes_i)])
        } else {
            ("transpose", [TILE_WORDS * 4 / self.size as u32; 2], Vec::new())
        };
        let tiles = i.size.div_ceil(edges[0])
            * j.size.div_ceil(edges[1])
            * slices.iter().map(|(dim, _)| dim.size).product::<u32>();
        let slice_words = builder.words(&words);
        builder.launch(&Launch {
            module: &format!("{module}.e{}", self.size),
            constants: &constants,
            writes: &[builder.tensor(node.outputs[0])],
            reads: &[builder.tensor(node.inputs[0]), slice_words],
            params: &[slices.len() as u32, tiles, i.size, j.size, j.stride as u32, strides[at]],
            groups: u64::from(tiles),
            detail: &format!("{}x{} of {} dims", i.size, j.size, slices.len()),
        })
    }
}

/// Invocations of `transpose_vectors.comp`, each with a square block of `vector` elements an edge, and how many of them lie along the
/// first of two extents: rows of 256 bytes on either side, of single bytes half of that where they are read, if the extents are so long.
fn blocks(caps: &DeviceCaps, extents: [u32; 2], vector: u32) -> [u32; 2] {
    let [most, wanted] = if vector == 16 { [128, 8] } else { [256, 16] };
    let mut lanes = most;
    while lanes * vector * 16 > caps.shared_memory_bytes || lanes > caps.max_workgroup_invocations {
        lanes /= 2;
    }
    let [along_i, along_j] = extents.map(|extent| (extent / vector).next_power_of_two().min(lanes));
    [lanes, wanted.max(lanes / along_j).min(along_i)]
}

/// The tensor's own dimensions, as a gather that changes nothing. Where an element is several words, they are the last one.
fn source_dims(builder: &Builder<'_>, id: TensorId, words: u32) -> Vec<Dim> {
    let shape = &builder.graph.tensor(id).shape;
    let mut stride = 1_i32;
    let mut dims: Vec<Dim> = shape
        .iter()
        .copied()
        .chain((words > 1).then_some(words))
        .rev()
        .map(|size| {
            let dim = Dim { size, start: 0, extent: size, stride };
            stride = stride.wrapping_mul(size as i32);
            dim
        })
        .collect();
    dims.reverse();
    dims
}

/// Bytes of what the movers take as an element, and how many of those an element of the tensor is.
pub(crate) fn element_bytes(builder: &Builder<'_>, id: TensorId) -> Result<(usize, u32), Refusal> {
    let dtype = builder.graph.tensor(id).dtype;
    match dtype.bytes() {
        Some(size @ (1 | 2 | 4)) => Ok((size, 1)),
        Some(8) if dtype == DType::Int64 => Ok((4, 2)),
        _ => Err(builder.unsupported(format!(
            "{} has no kernel for {dtype}; it takes elements of 1, 2, 4 or 8 bytes",
            builder.at.1
        ))),
    }
}

/// How many elements of `size` bytes make the next larger kind that the kernels move: words, then vectors of 16 bytes.
pub(crate) fn wider(size: usize) -> Option<u32> {
    match size {
        1 | 2 => Some(2),
        4 => Some(4),
        _ => None,
    }
}

/// Workgroups of streaming kernels whose invocations own a word each, or an element of 16 bytes.
pub(crate) fn stream_groups(builder: &Builder<'_>, count: u64, size: usize) -> u64 {
    count.div_ceil((4 / size as u64).max(1)).div_ceil(u64::from(builder.caps.stream_lanes()))
}

/// Specialization constants of streaming kernels.
pub(crate) fn stream_constants(builder: &Builder<'_>) -> [(u32, u32); 1] {
    [(LANES_CONSTANT, builder.caps.stream_lanes())]
}

/// Workgroups of kernels whose invocations own a 32-bit word each.
pub(crate) fn word_groups(count: u64, size: usize) -> u64 {
    count.div_ceil(4 / size as u64).div_ceil(LANES)
}

/// Factor and shift such that `(n * factor) >> 32 >> shift` is `n / d` for `n < 2^31`; `d` of 1 is the
/// shaders' business (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
pub(crate) fn magic(d: u32) -> (u32, u32) {
    if d < 2 {
        return (0, 0);
    }
    let log = 32 - (d - 1).leading_zeros();
    ((1_u64 << (31 + log)).div_ceil(u64::from(d)) as u32, log - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_divides() {
        for d in (2..2000).chain([65_535, 65_536, 65_537, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]) {
            let (factor, shift) = magic(d);
            for n in (0..5000).chain([d - 1, d, d + 1, 2 * d.min(1 << 29) - 1, (1 << 31) - 1]) {
                if n < 1 << 31 {
                    let quotient = ((u64::from(n) * u64::from(factor)) >> 32) as u32 >> shift;
                    assert_eq!(quotient, n / d, "{n} / {d}");
                }
            }
        }
    }

    #[test]
    fn dimensions_that_follow_each_other_merge_and_widen() {
        // INT8 NHWC padded in H and W: channels join W, and four bytes make a word.
        let dims = vec![
            Dim { size: 1, start: 0, extent: 1, stride: 5 * 6 * 8 },
            Dim { size: 7, start: -1, extent: 5, stride: 6 * 8 },
            Dim { size: 8, start: -1, extent: 6, stride: 8 },
            Dim { size: 8, start: 0, extent: 8, stride: 1 },
        ];
        let mut gather = Gather { dims, base: 0, size: 1, beyond: Beyond::Value(0x85) };
        gather.simplify();
        assert_eq!(gather.size, 4);
        assert_eq!(gather.beyond, Beyond::Value(0x8585_8585));
        assert_eq!(
            gather.dims,
            [
                Dim { size: 7, start: -1, extent: 5, stride: 12 },
                Dim { size: 16, start: -2, extent: 12, stride: 1 }
            ]
        );
    }

    #[test]
    fn runs_of_whole_vectors_move_as_such() {
        let dims = vec![
            Dim { size: 6, start: -1, extent: 4, stride: 32 },
            Dim { size: 16, start: 8, extent: 32, stride: 1 },
        ];
        let mut gather = Gather { dims, base: 8, size: 2, beyond: Beyond::Value(0x1234) };
        gather.simplify();
        assert_eq!((gather.size, gather.base, gather.beyond), (16, 1, Beyond::Value(0x1234_1234)));
        assert_eq!(
            gather.dims,
            [
                Dim { size: 6, start: -1, extent: 4, stride: 4 },
                Dim { size: 2, start: 1, extent: 4, stride: 1 }
            ]
        );
    }

    #[test]
    fn a_run_that_widens_to_one_element_is_no_dimension() {
        let dims = vec![
            Dim { size: 7, start: 0, extent: 7, stride: -4 },
            Dim { size: 4, start: 0, extent: 4, stride: 1 },
        ];
        let mut gather = Gather { dims, base: 24, size: 1, beyond: Beyond::Never };
        gather.simplify();
        assert_eq!((gather.size, gather.base), (4, 6));
        assert_eq!(gather.dims, [Dim { size: 7, start: 0, extent: 7, stride: -1 }]);
    }

    #[test]
    fn a_reversed_dimension_does_not_merge_with_its_inner_one() {
        let dims = vec![
            Dim { size: 3, start: 0, extent: 3, stride: 10 },
            Dim { size: 2, start: 0, extent: 2, stride: -5 },
            Dim { size: 5, start: 0, extent: 5, stride: 1 },
        ];
        let mut gather = Gather { dims: dims.clone(), base: 5, size: 4, beyond: Beyond::Never };
        gather.simplify();
        assert_eq!(gather.dims, dims);
    }
}
