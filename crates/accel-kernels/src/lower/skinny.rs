//! Products of a few rows: kernels that read B once, 16 bytes an invocation, from as many workgroups as fill a GPU.

use accel_tosa::DType;

use super::gemm::Size;
use super::matrix;
use crate::builder::{Builder, Launch, Value};
use crate::stage::Element;
use crate::{DeviceCaps, DeviceKind};

/// Invocations of a workgroup.
const LANES: u32 = 256;
/// Bytes that an invocation loads at once.
const LOAD: u32 = 16;
/// Most bytes of shared memory that staged elements of A take.
const STAGED: u32 = 16 << 10;
/// Fewest bytes of B that are worth a second launch.
const LEAST_BYTES: u64 = 1 << 20;
/// Bytes of B that take so long to read that it takes all workgroups that the device can hold.
const LARGE_BYTES: u64 = 128 << 20;
/// Most rows of a product that takes these kernels.
pub(crate) const MOST_ROWS: u32 = 64;

/// How B lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[k][n]`: invocations lie along n.
    Columns,
    /// `[n][k]`: the invocations of a subgroup lie along k.
    Rows,
}

/// A product and how a workgroup divides its part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skinny {
    size: Size,
    layout: Layout,
    factors: [Element; 2],
    /// Invocations along n ([`Layout::Columns`]), or of a subgroup.
    lanes_n: u32,
    /// Rows of A at a time.
    rows: u32,
    /// Loads in flight of an invocation.
    loads: u32,
    /// k of A in shared memory at a time.
    slab: u32,
    /// k of a part.
    chunk: u32,
}

/// Rows up to which the products of these types are not the matrix units'.
fn most_before_matrices(caps: &DeviceCaps, size: Size, factors: [DType; 2]) -> u32 {
    let types = match factors {
        [DType::Fp16, DType::Fp16] => "f16",
        [DType::Bf16, DType::Bf16] => "bf16",
        [DType::Fp8E4M3, DType::Fp8E4M3] => "e4m3",
        [DType::Fp8E5M2, DType::Fp8E5M2] => "e5m2",
        // Mixed factors would be widened by a launch of its own.
        _ => "i8",
    };
    matrix::least_rows(caps, size, types).min(9) - 1
}

impl Skinny {
    /// The geometry for a product, or `None` where another kernel is to take it: on CPUs, for more than [`MOST_ROWS`]
    /// rows, and where rows of B are not whole vectors.
    pub fn choose(caps: &DeviceCaps, size: Size, layout: Layout, dtypes: [DType; 2]) -> Option<Self> {
        let factors = [Element::of(dtypes[0])?, Element::of(dtypes[1])?];
        let bytes = factors[1].bytes();
        let vector = LOAD / bytes;
        let row = if layout == Layout::Columns { size.n } else { size.k };
        // 0 is never, 1 where it pays and 2 always.
        let wanted = if caps.kind == DeviceKind::Cpu { 0 } else { caps.tuning.or("skinny", 1) };
        let read = u64::from(size.n) * u64::from(size.k) * u64::from(bytes);
        let (pays, large) = (read >= LEAST_BYTES, read >= LARGE_BYTES);
        // More rows of less than a word are a matter of multiplications; weights along k have no more than a vector of sums each.
        let most_rows = match (layout, bytes) {
            (_, 4) => MOST_ROWS,
            _ if !caps.matrices.is_empty() => most_before_matrices(caps, size, dtypes),
            (Layout::Columns, _) => MOST_ROWS,
            (Layout::Rows, _) => 16,
        };
        if wanted == 0
            || caps.matrix_geometry.is_some()
            || (wanted == 1 && !pays)
            || size.m > most_rows
            || !row.is_multiple_of(vector)
            || caps.max_workgroup_invocations < LANES
            || !LANES.is_multiple_of(caps.subgroup_size)
        {
            return None;
        }
        // Few distinct numbers, because each is a pipeline to compile.
        let rows = caps.tuning.or(
            "skinny.rows",
            match size.m {
                1 => 1,
                2 => 2,
                3..=4 => 4,
                // With more blocks of rows the sums of four leave more invocations room.
                9.. if layout == Layout::Columns && bytes < 4 && factors[1].is_float() => 4,
                _ => 8,
            },
        );
        let (lanes_n, loads, round) = match layout {
            Layout::Columns => {
                // Neighbours read 256 bytes of a row.
                let most = caps.tuning.or("skinny.lanes_n", 16);
                let lanes_n = (size.n / vector).next_power_of_two().clamp(1, most);
                let loads = caps.tuning.or("skinny.loads", if bytes == 1 { 4 } else { 8 });
                (lanes_n, loads, LANES / lanes_n * loads)
            }
            Layout::Rows => (
                caps.subgroup_size,
                caps.tuning.or("skinny.loads", if large { 8 } else { 4 }),
                caps.subgroup_size * vector,
            ),
        };
        let mut this = Self { size, layout, factors, lanes_n, rows, loads, slab: round, chunk: size.k };
        let groups = match (caps.kind, large, layout) {
            (DeviceKind::Discrete, true, _) => 2112,
            (DeviceKind::Discrete, false, Layout::Columns) if bytes == 1 => 264,
            (DeviceKind::Discrete, ..) => 528,
            _ => 128,
        };
        let fill = caps.tuning.or("skinny.groups", groups);
        let wanted = u64::from(fill).div_ceil(this.blocks()).max(1);
        let least = round * caps.tuning.or("skinny.rounds", 1);
        this.chunk = (u64::from(size.k).div_ceil(wanted) as u32).next_multiple_of(round).max(least);
        let most = (STAGED / (rows * 4) / round).max(1) * round;
        this.slab = this.chunk.min(most);
        (this.shared_bytes() <= caps.shared_memory_bytes).then_some(this)
    }

    fn shared_bytes(&self) -> u32 {
        let parts =
            if self.layout == Layout::Columns { LANES * LOAD * (4 / self.factors[1].bytes()) } else { 0 };
        self.slab * self.rows * 4 + parts
    }

    /// Workgroups of a part of k.
    fn blocks(&self) -> u64 {
        let columns = match self.layout {
            Layout::Columns => self.lanes_n * (LOAD / self.factors[1].bytes()),
            Layout::Rows => LANES / self.lanes_n * self.loads,
        };
        u64::from(self.size.batches)
            * u64::from(self.size.m.div_ceil(self.rows))
            * u64::from(self.size.n.div_ceil(columns))
    }

    /// Launches the kernel; gives its partial sums `[parts][batches * m][n]` and the number of parts.
    pub fn launch(
        &self,
        builder: &mut Builder<'_>,
        [a, b]: [Value; 2],
        zero_points: [i32; 2],
    ) -> Result<(Value, u32), accel_tosa::Refusal> {
        let Size { batches, m, n, k } = self.size;
        let splits = k.div_ceil(self.chunk);
        let parts = builder.scratch(u64::from(batches) * u64::from(m) * u64::from(n) * u64::from(splits) * 4);
        let [a_zp, b_zp] = zero_points.map(|zero_point| zero_point as u32);
        let layout = if self.layout == Layout::Columns { "columns" } else { "rows" };
        let sums = if self.factors[1].is_float() { "float" } else { "int" };
        let [a_type, b_type] = self.factors;
        let constants = [
            LANES,
            self.lanes_n,
            self.rows,
            self.loads,
            self.slab,
            a_type as u32,
            b_type as u32,
            4 / b_type.bytes(),
        ];
        builder.launch(&Launch {
            module: &format!("skinny_{layout}.{sums}"),
            constants: &(0..).zip(constants).collect::<Vec<_>>(),
            writes: &[parts],
            reads: &[a, b],
            params: &[m, n, k, batches, splits, self.chunk, a_zp, b_zp],
            groups: self.blocks() * u64::from(splits),
            detail: &format!(
                "{a_type:?} x {b_type:?} {m}x{n}x{k} in {splits}, {} rows, {} lanes, {} loads, slab {} (so few rows that B is read once)",
                self.rows, self.lanes_n, self.loads, self.slab
            ),
        })?;
        Ok((parts, splits))
    }
}
