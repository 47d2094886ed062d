//! What MATMUL and CONV2D share: a matrix product `C[m][n] = sum of A[m][k] * B[k][n] + bias`, the geometry of
//! its kernels and the choice among them.

use accel_tosa::{Refusal, TensorId};

use super::axes::Windows;
use super::blocked;
use super::matrix::{self, Matrix};
use super::movers::{LANES, magic, word_groups};
use super::packed;
use super::prepare::{self, Prepared};
use super::skinny::{Layout, Skinny};
use super::zero_points;
use crate::builder::{Builder, Launch, Value};
use crate::epilogue::Epilogue;
use crate::{DeviceCaps, DeviceKind};

/// How a workgroup of `gemm_tiled.comp` divides its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Invocations.
    pub lanes: u32,
    /// Invocations along n; the rest lie along m.
    pub lanes_n: u32,
    /// 4 x 4 blocks of sums of an invocation along m and along n.
    pub quads: [u32; 2],
    /// Depth of a staged slab of k.
    pub slab: u32,
}

/// Why a geometry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GeometryError {
    /// The device lacks what it needs; another device may have it.
    #[error("a workgroup needs {needed} {resource} and the device has {limit}")]
    Unavailable {
        /// What is short.
        resource: &'static str,
        /// How much is needed.
        needed: u32,
        /// How much there is.
        limit: u32,
    },
    /// It contradicts itself and runs nowhere.
    #[error(
        "{lanes} invocations cannot stage a slab of {rows} x {slab} and {columns} x {slab} in equal parts"
    )]
    InvalidConfig {
        /// Invocations.
        lanes: u32,
        /// Rows of the tile.
        rows: u32,
        /// Columns of the tile.
        columns: u32,
        /// Depth of the slab.
        slab: u32,
    },
}

impl Geometry {
    /// Rows and columns of C that a workgroup makes.
    pub fn tile(&self) -> [u32; 2] {
        [
            4 * self.quads[0] * self.lanes.checked_div(self.lanes_n).unwrap_or(0),
            4 * self.quads[1] * self.lanes_n,
        ]
    }

    /// Bytes of shared memory: both slabs, rows padded by four elements.
    pub fn shared_bytes(&self) -> u32 {
        let [rows, columns] = self.tile();
        self.slab * (rows + 4 + columns + 4) * 4
    }

    /// Checks that the parts fit each other and the device.
    pub fn check(self, caps: &DeviceCaps) -> Result<Self, GeometryError> {
        let [rows, columns] = self.tile();
        let Self { lanes, lanes_n, slab, .. } = self;
        let whole = |total: u32, part: u32| part != 0 && total != 0 && total.is_multiple_of(part);
        if !(whole(lanes, lanes_n)
            && whole(lanes, slab)
            && whole(rows * slab, lanes)
            && whole(columns * slab, lanes))
        {
            return Err(GeometryError::InvalidConfig { lanes, rows, columns, slab });
        }
        let limits = [
            ("invocations", lanes, caps.max_workgroup_invocations),
            ("bytes of shared memory", self.shared_bytes(), caps.shared_memory_bytes),
        ];
        match limits.into_iter().find(|&(_, needed, limit)| needed > limit) {
            Some((resource, needed, limit)) => Err(GeometryError::Unavailable { resource, needed, limit }),
            None => Ok(self),
        }
    }
}

/// Sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub batches: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// How the kernels find the elements of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing<'a> {
    /// A is `[m][k]`, B is `[k][n]`.
    Matrix,
    /// A is `[m][k]`, B is `[n][k]`.
    RowsOfK,
    /// A is windows; B is `[n][k]`.
    Image(&'a Windows),
}

/// How a workgroup of `gemm_direct.comp` divides its part of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// Invocations, along n.
    pub lanes: u32,
    /// Rows and columns of an invocation.
    pub block: [u32; 2],
    /// Lanes of a subgroup that share loads of A; 1 for none.
    pub share: u32,
}

/// A kernel and its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// `gemm_tiled.comp`.
    Tiled(Geometry),
    /// `gemm_blocked.comp`.
    Blocked(Geometry),
    /// `gemm_direct.comp`.
    Direct(Direct),
    /// `gemm_matrix.comp`, or `gemm_packed.comp`.
    Matrix(Matrix),
}

/// A kernel and how k is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub kernel: Kernel,
    /// Parts of k, summed by a second kernel when there are several.
    pub splits: u32,
    /// Depth of a part.
    pub chunk: u32,
    /// Why, for the label.
    pub reason: &'static str,
}

/// Geometries from the largest tile down. All run on every Vulkan device.
const GEOMETRIES: [(Geometry, &str); 3] = [
    (Geometry { lanes: 256, lanes_n: 16, quads: [1, 1], slab: 16 }, "m and n fill a square tile"),
    (Geometry { lanes: 64, lanes_n: 16, quads: [1, 1], slab: 16 }, "few rows"),
    (Geometry { lanes: 64, lanes_n: 4, quads: [1, 1], slab: 16 }, "few columns"),
];

/// The specialization constant of kernels for windows whose outputs lie apart.
const SPREAD: u32 = 15;
/// Most rows and columns of an invocation of `gemm_direct.comp`.
const DIRECT_BLOCK: [u32; 2] = [8, 4];
/// k is split in multiples of this.
const SLAB: u32 = 16;
/// Shortest part of k that is worth a workgroup.
const MIN_CHUNK: u32 = 128;

/// Workgroups that fill a device of its kind.
fn fill(caps: &DeviceCaps) -> u64 {
    match caps.kind {
        DeviceKind::Cpu => 8,
        DeviceKind::Integrated => 64,
        DeviceKind::Discrete => 264,
    }
}

/// Chooses a kernel for a product whose output has `columns` elements a word. CPUs take the direct one always, GPUs
/// for few rows; otherwise tiles are square unless n or m is so small that most of one would idle. k is split
/// while the workgroups do not fill the device; not so for images, whose kernels walk through whole windows.
pub(crate) fn choose(
    caps: &DeviceCaps,
    size: Size,
    columns: u32,
    image: bool,
) -> Result<Choice, GeometryError> {
    let [square, flat, tall] = GEOMETRIES;
    // Few distinct blocks, because each is a pipeline to compile.
    let rows = match size.m {
        1 => 1,
        2..=4 => 4,
        _ => DIRECT_BLOCK[0],
    };
    let (kernel, reason) = if caps.kind == DeviceKind::Cpu {
        let lanes = caps.subgroup_size.clamp(4, 16);
        let share = if lanes == caps.subgroup_size { lanes } else { 1 };
        let wide = size.n.div_ceil(lanes).next_power_of_two().clamp(columns, DIRECT_BLOCK[1]);
        (
            Kernel::Direct(Direct { lanes, block: [rows, wide], share }),
            "a CPU gains nothing from shared memory",
        )
    } else if size.m <= DIRECT_BLOCK[0] && !image {
        (
            Kernel::Direct(Direct { lanes: 64, block: [rows, columns], share: 1 }),
            "so few rows that B is read once",
        )
    } else {
        let preferred = match size {
            Size { m: ..=16, .. } => flat,
            Size { n: ..=16, .. } => tall,
            _ => square,
        };
        match preferred.0.check(caps) {
            Ok(geometry) => (Kernel::Tiled(geometry), preferred.1),
            Err(GeometryError::Unavailable { .. }) => {
                (Kernel::Tiled(flat.0.check(caps)?), "the preferred tile exceeds the device")
            }
            Err(error) => return Err(error),
        }
    };
    Ok(split(caps, kernel, size, image, reason))
}

/// Splits k while the workgroups do not fill the device.
fn split(caps: &DeviceCaps, kernel: Kernel, size: Size, image: bool, reason: &'static str) -> Choice {
    let streams = matches!(kernel, Kernel::Matrix(_)) && size.m <= matrix::FEW_ROWS && !image;
    // Workgroups that mostly wait for B: twice as many.
    let fill = fill(caps) * if streams && caps.kind != DeviceKind::Cpu { 2 } else { 1 };
    let wanted =
        (u64::from(caps.tuning.or("gemm.fill", fill as u32)) / workgroups(kernel, size).max(1)).max(1) as u32;
    let (slab, least, splittable) = match kernel {
        Kernel::Tiled(_) | Kernel::Blocked(_) => (SLAB, MIN_CHUNK, true),
        Kernel::Direct(_) => (SLAB, MIN_CHUNK, !image),
        Kernel::Matrix(matrix) => (matrix.geometry.slab, matrix::MIN_CHUNK, true),
    };
    let splits = if splittable { wanted.min(size.k / least).max(1) } else { 1 };
    let chunk = size.k.div_ceil(splits).next_multiple_of(slab);
    Choice { kernel, splits: size.k.div_ceil(chunk), chunk, reason }
}

/// Workgroups of one part of k.
fn workgroups(kernel: Kernel, size: Size) -> u64 {
    let [rows, columns] = match kernel {
        Kernel::Tiled(geometry) | Kernel::Blocked(geometry) => geometry.tile(),
        Kernel::Direct(Direct { lanes, block: [rows, columns], .. }) => [rows, lanes * columns],
        Kernel::Matrix(matrix) => matrix.tile(),
    };
    u64::from(size.batches) * u64::from(size.m.div_ceil(rows)) * u64::from(size.n.div_ceil(columns))
}

/// What the push constants of a kernel for windows have beside those of others.
pub(crate) fn image_params(windows: &Windows) -> [u32; 3] {
    let (factor, shift) = magic(windows.channels);
    [windows.channels, factor, shift]
}

/// A kernel for matrix units and what it reads beside the operands.
struct OnMatrices {
    matrix: Matrix,
    prepared: Option<Prepared>,
    /// The bias, or the terms that take zero points off, and the step that the kernel knows them by.
    bias: Option<(Value, u32)>,
}

/// A product to launch.
pub(crate) struct Product<'a> {
    pub addressing: Addressing<'a>,
    /// Element types as the kernels' variants name them.
    pub types: &'static str,
    pub size: Size,
    pub output: TensorId,
    pub a: TensorId,
    pub b: TensorId,
    /// B's bytes where they are made while lowering; `b` tells their type.
    pub known: Option<Vec<u8>>,
    /// One element or one a column.
    pub bias: Option<TensorId>,
    pub zero_points: [i32; 2],
}

impl Product<'_> {
    /// Launches the product, with the pointwise chain that follows it where there is one.
    pub fn launch_fused(self, builder: &mut Builder<'_>, epilogue: Option<&Epilogue>) -> Result<(), Refusal> {
        let Size { batches, m, n, k } = self.size;
        let output = epilogue.map_or(self.output, |e| e.output);
        let (fused, label) = epilogue.map_or(("", String::new()), |e| ("_fused", e.label()));
        let element = builder.graph.tensor(output).dtype.bytes().unwrap_or(4);
        let columns = (4 / element) as u32;
        let image = matches!(self.addressing, Addressing::Image(_));
        let layout = match self.addressing {
            Addressing::Matrix => Some(Layout::Columns),
            Addressing::RowsOfK => Some(Layout::Rows),
            Addressing::Image(_) => None,
        };
        let factors = [self.a, builder.encoded.get(&self.b).copied().unwrap_or(self.b)];
        let dtypes = factors.map(|id| builder.graph.tensor(id).dtype);
        if let Some(skinny) = layout.and_then(|at| Skinny::choose(builder.caps, self.size, at, dtypes)) {
            let factors = factors.map(|id| builder.tensor(id));
            let (parts, splits) = skinny.launch(builder, factors, self.zero_points)?;
            return self.add_parts(builder, parts, splits, self.plain_bias(builder), epilogue);
        }
        let rows_of_k = !matches!(self.addressing, Addressing::Matrix);
        let matrices = match matrix::choose(builder.caps, self.types, self.size, rows_of_k, image) {
            Some(matrix) => self.on_matrices(builder, matrix)?,
            None => None,
        };
        let mut prepared = None;
        let (choice, bias) = match matrices {
            Some(found) => {
                prepared = found.prepared;
                let kernel = Kernel::Matrix(found.matrix);
                (split(builder.caps, kernel, self.size, image, "matrix units take its types"), found.bias)
            }
            None => {
                let choice = match blocked::choose(builder.caps, self.types, &self.addressing, self.size) {
                    Some(choice) => choice,
                    None => choose(builder.caps, self.size, columns, image).map_err(|error| {
                        builder.unsupported(format!("no geometry of its kernel fits: {error}"))
                    })?,
                };
                (choice, self.plain_bias(builder))
            }
        };
        let Choice { kernel, mut splits, mut chunk, reason } = choice;
        if self.is_spread() {
            // The second kernel would store outputs side by side.
            (splits, chunk) = (1, self.size.k);
        }
        // Windows that were laid out as rows are addressed as such.
        let addressing =
            if prepared.as_ref().is_some_and(|p| p.unrolled) { Addressing::RowsOfK } else { self.addressing };
        let output = builder.tensor(output);
        let a = prepared.as_ref().and_then(|p| p.a).unwrap_or_else(|| builder.tensor(self.a));
        let types = prepared.as_ref().map_or(self.types, |p| p.types);
        let k = prepared.as_ref().map_or(k, |p| p.k);
        let (b, b_steps) = match self.addressing {
            _ if prepared.is_some() => {
                let p = prepared.as_ref().map(|p| (p.b, p.b_step));
                let (b, step) = p.unwrap_or((None, n));
                (b.unwrap_or_else(|| self.b(builder)), [step, 1])
            }
            Addressing::Matrix => (self.b(builder), [n, 1]),
            Addressing::RowsOfK | Addressing::Image(_) => match self.constant_columns(builder, kernel) {
                Some(columns) => (builder.blob(columns), [n, 1]),
                None => (self.b(builder), [1, k]),
            },
        };
        // Without a bias the address is that of A and is not used.
        let (bias, bias_step) = bias.unwrap_or((a, 2));
        let count = u64::from(batches) * u64::from(m) * u64::from(n);
        let target = if splits > 1 { builder.scratch(count * u64::from(splits) * 4) } else { output };
        let [a_zp, b_zp] = self.zero_points.map(|zero_point| zero_point as u32);
        let mut params = vec![m, n, k, batches, splits, chunk, bias_step, a_zp, b_zp, b_steps[0], b_steps[1]];
        let mut reads = match epilogue {
            Some(epilogue) => epilogue.reads(builder, &[a, b, bias]),
            None => vec![a, b, bias],
        };
        if let Addressing::Image(windows) = addressing {
            reads.push(self.windows(builder, windows)?);
            params.extend(image_params(windows));
        }
        let detail = format!("{m}x{n}x{k} in {splits} ({reason})");
        let addressing = match addressing {
            Addressing::Matrix if prepared.as_ref().is_some_and(|p| p.exchanged) => "pointwise",
            Addressing::Matrix => "matmul",
            Addressing::RowsOfK => "pointwise",
            Addressing::Image(_) => "conv",
        };
        let (module, mut constants, detail) = match kernel {
            Kernel::Matrix(matrix) => {
                let ([rows, columns], slab) = (matrix.tile(), matrix.geometry.slab);
                let module = if matrix.geometry.packed {
                    format!("gemm_packed.{types}{fused}")
                } else {
                    format!("gemm_matrix.{addressing}_{types}{fused}")
                };
                (module, matrix.constants(), format!("{rows}x{columns}x{slab} of {detail}"))
            }
            Kernel::Tiled(geometry) | Kernel::Blocked(geometry) => {
                let Geometry { lanes, lanes_n, quads: [quads_m, quads_n], slab } = geometry;
                let mut constants = vec![(0, lanes), (1, lanes_n), (2, quads_m), (3, quads_n), (4, slab)];
                let family = if matches!(kernel, Kernel::Tiled(_)) { "tiled" } else { "blocked" };
                if family == "blocked" {
                    constants.push((5, blocked::step(builder.caps, &geometry)));
                }
                let [rows, columns] = [4 * quads_m * lanes / lanes_n, 4 * quads_n * lanes_n];
                (
                    format!("gemm_{family}.{addressing}_{}{fused}", self.types),
                    constants,
                    format!("{rows}x{columns}x{slab} of {detail}"),
                )
            }
            Kernel::Direct(Direct { lanes, block: [rows, columns], share }) => (
                format!("gemm_direct.{}_{}{fused}", if image { "image" } else { "plain" }, self.types),
                vec![(0, lanes), (1, rows), (2, columns), (3, share)],
                format!("{rows}x{} of {detail}", lanes * columns),
            ),
        };
        if self.is_spread() {
            constants.push((SPREAD, 1));
        }
        // The second kernel runs the chain of a split product.
        let stages = epilogue.map_or(&[][..], |e| &e.constants);
        if splits == 1 {
            constants.extend(stages);
        }
        builder.launch(&Launch {
            module: &module,
            constants: &constants,
            writes: &[target],
            reads: &reads,
            params: &params,
            groups: workgroups(kernel, self.size) * u64::from(splits),
            detail: &format!("{label}{detail}"),
        })?;
        if splits == 1 {
            return Ok(());
        }
        let bias = (bias_step < 2).then_some((bias, bias_step));
        self.add_parts(builder, target, splits, bias, epilogue)
    }

    /// Adds the sums of several parts of k, the bias, and runs the chain.
    fn add_parts(
        &self,
        builder: &mut Builder<'_>,
        parts: Value,
        splits: u32,
        bias: Option<(Value, u32)>,
        epilogue: Option<&Epilogue>,
    ) -> Result<(), Refusal> {
        let Size { batches, m, n, .. } = self.size;
        let count = u64::from(batches) * u64::from(m) * u64::from(n);
        let id = epilogue.map_or(self.output, |e| e.output);
        let output = builder.tensor(id);
        let element = builder.graph.tensor(id).dtype.bytes().unwrap_or(4);
        let (fused, label) = epilogue.map_or(("", String::new()), |e| ("_fused", e.label()));
        // Without a bias the address is that of the parts and is not used.
        let (bias, bias_step) = bias.unwrap_or((parts, 2));
        let groups = match epilogue {
            Some(_) => (u64::from(batches) * u64::from(m) * u64::from(n.div_ceil(4))).div_ceil(LANES),
            None => word_groups(count, element),
        };
        let reads = epilogue.map_or(vec![parts, bias], |e| e.reads(builder, &[parts, bias]));
        builder.launch(&Launch {
            module: &format!("gemm_reduce.{}{fused}", self.types),
            constants: epilogue.map_or(&[][..], |e| &e.constants),
            writes: &[output],
            reads: &reads,
            params: &[count as u32, n, splits, bias_step],
            groups,
            detail: &format!("{label}{splits} parts of k"),
        })
    }

    /// Multiplications.
    pub fn work(&self) -> u64 {
        let Size { batches, m, n, k } = self.size;
        [batches, m, n, k].into_iter().map(u64::from).product()
    }

    /// B as a kernel reads it.
    pub fn b(&self, builder: &mut Builder<'_>) -> Value {
        match &self.known {
            Some(bytes) => builder.blob(bytes.clone()),
            None => builder.tensor(self.b),
        }
    }

    /// B, if it is known while lowering.
    pub fn constant_b<'a>(&'a self, builder: &'a Builder<'_>) -> Option<&'a [u8]> {
        self.known.as_deref().or_else(|| builder.constant(self.b))
    }

    fn is_spread(&self) -> bool {
        matches!(self.addressing, Addressing::Image(windows) if windows.spread.is_some())
    }

    /// The block of words that kernels know windows by.
    pub fn windows(&self, builder: &mut Builder<'_>, windows: &Windows) -> Result<Value, Refusal> {
        let padding = u32::from(self.zero_points[0] as u8) * 0x0101_0101;
        let words = windows.words(padding);
        let words =
            words.ok_or_else(|| builder.unsupported("a window has more taps than kernels address"))?;
        Ok(builder.words(&words))
    }

    /// The bias and the step from one column's to the next.
    pub fn plain_bias(&self, builder: &Builder<'_>) -> Option<(Value, u32)> {
        let id = self.bias?;
        Some((builder.tensor(id), u32::from(builder.graph.tensor(id).elements() > 1)))
    }

    /// What a kernel for matrix units is launched with, if it can make this product: matrices multiply what is stored, so that
    /// zero points are taken off the sums.
    fn on_matrices(&self, builder: &mut Builder<'_>, matrix: Matrix) -> Result<Option<OnMatrices>, Refusal> {
        let bias = zero_points::in_bias(builder, self);
        if bias.is_none() && !zero_points::pays(builder.caps, self) {
            return Ok(None);
        }
        let prepared = if matrix.geometry.packed {
            Some(packed::pack(builder, self, matrix)?)
        } else {
            prepare::prepare(builder, self, matrix)?
        };
        let bias = match bias {
            Some(bias) => bias,
            None => match zero_points::terms(builder, self, prepared.as_ref())? {
                Some(terms) => Some((terms, zero_points::BIAS_STEP)),
                None => return Ok(None),
            },
        };
        let matrix = prepared.as_ref().map_or(matrix, |p| p.matrix);
        Ok(Some(OnMatrices { matrix, prepared, bias }))
    }

    /// B as `[k][n]`, so that lanes read it side by side, where the kernel wants that and B is a constant.
    fn constant_columns(&self, builder: &Builder<'_>, kernel: Kernel) -> Option<Vec<u8>> {
        if !matches!(kernel, Kernel::Direct(_)) || self.size.batches > 1 {
            return None;
        }
        let rows = self.constant_b(builder)?;
        let size = builder.graph.tensor(self.b).dtype.bytes()?;
        let (n, k) = (self.size.n as usize, self.size.k as usize);
        let mut columns = vec![0; rows.len()];
        for (i, row) in rows.chunks_exact(k * size).enumerate() {
            for (j, element) in row.chunks_exact(size).enumerate() {
                let at = (j * n + i) * size;
                columns[at..at + size].copy_from_slice(element);
            }
        }
        Some(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_geometry_runs_on_the_least_device() {
        for (geometry, reason) in GEOMETRIES {
            assert_eq!(geometry.check(&DeviceCaps::baseline()), Ok(geometry), "{reason}");
        }
    }

    #[test]
    fn a_geometry_that_contradicts_itself_is_told_from_one_that_the_device_lacks() {
        let caps = DeviceCaps::baseline();
        let (square, _) = GEOMETRIES[0];
        let uneven = Geometry { slab: 12, ..square };
        assert!(matches!(uneven.check(&caps), Err(GeometryError::InvalidConfig { .. })));
        let nothing = Geometry { lanes_n: 0, ..square };
        assert!(matches!(nothing.check(&caps), Err(GeometryError::InvalidConfig { .. })));
        let large = Geometry { lanes: 1024, lanes_n: 32, ..square };
        assert!(matches!(
            large.check(&caps),
            Err(GeometryError::Unavailable { resource: "invocations", .. })
        ));
        let deep = Geometry { slab: 64, ..square };
        assert!(matches!(deep.check(&caps), Err(GeometryError::Unavailable { .. })));
    }

    #[test]
    fn parts_of_k_cover_it_without_an_empty_one() {
        for kind in [DeviceKind::Cpu, DeviceKind::Integrated, DeviceKind::Discrete] {
            let caps = DeviceCaps { kind, ..DeviceCaps::baseline() };
            for k in [1, 15, 16, 127, 128, 1000, 4096, 16_384] {
                for (m, n) in [(1, 1), (1, 4096), (49, 512), (4096, 4096)] {
                    let choice = choose(&caps, Size { batches: 1, m, n, k }, 1, false).unwrap();
                    assert!(choice.splits * choice.chunk >= k && (choice.splits - 1) * choice.chunk < k);
                }
            }
        }
    }
}
