//! What MATMUL and CONV2D share: a matrix product `C[m][n] = sum of A[m][k] * B[k][n] + bias`, the geometry of
//! its kernels and the choice among them.

use accel_tosa::{DType, Refusal, TensorId};

use super::movers::word_groups;
use crate::builder::{Builder, Groups, Launch};
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

/// A kernel and how k is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub geometry: Geometry,
    /// Parts of k, summed by a second kernel when there are several.
    pub splits: u32,
    /// Depth of a part.
    pub chunk: u32,
    /// Why, for the label.
    pub reason: &'static str,
}

/// Geometries from the largest tile down. The last runs on every Vulkan device.
const GEOMETRIES: [(Geometry, &str); 3] = [
    (Geometry { lanes: 256, lanes_n: 16, quads: [1, 1], slab: 16 }, "m and n fill a square tile"),
    (Geometry { lanes: 64, lanes_n: 16, quads: [1, 1], slab: 16 }, "few rows"),
    (Geometry { lanes: 64, lanes_n: 4, quads: [1, 1], slab: 16 }, "few columns"),
];

/// Workgroups that fill a device of its kind.
fn fill(caps: &DeviceCaps) -> u64 {
    match caps.kind {
        DeviceKind::Cpu => 8,
        DeviceKind::Integrated => 64,
        DeviceKind::Discrete => 264,
    }
}

/// Shortest part of k that is worth a workgroup.
const MIN_CHUNK: u32 = 128;

/// Chooses a geometry: the square tile unless m or n is so small that most of it would idle; k is split while the tiles
/// do not fill the device.
pub(crate) fn choose(caps: &DeviceCaps, size: Size) -> Result<Choice, GeometryError> {
    let [square, flat, tall] = GEOMETRIES;
    let preferred = match size {
        Size { m: ..=16, .. } => flat,
        Size { n: ..=16, .. } => tall,
        _ => square,
    };
    let (geometry, reason) = match preferred.0.check(caps) {
        Ok(geometry) => (geometry, preferred.1),
        Err(GeometryError::Unavailable { .. }) => {
            (flat.0.check(caps)?, "the preferred tile exceeds the device")
        }
        Err(error) => return Err(error),
    };
    let [rows, columns] = geometry.tile();
    let tiles =
        u64::from(size.batches) * u64::from(size.m.div_ceil(rows)) * u64::from(size.n.div_ceil(columns));
    let wanted = (fill(caps) / tiles.max(1)).max(1) as u32;
    let splits = wanted.min(size.k / MIN_CHUNK).max(1);
    let chunk = size.k.div_ceil(splits).next_multiple_of(geometry.slab);
    let splits = size.k.div_ceil(chunk);
    Ok(Choice { geometry, splits, chunk, reason })
}

/// A product to launch.
pub(crate) struct Product<'a> {
    /// Variant of `gemm_tiled.comp`.
    pub kernel: String,
    /// Element types of the operands and of the result.
    pub types: [DType; 2],
    pub size: Size,
    pub output: TensorId,
    pub a: TensorId,
    pub b: TensorId,
    /// One element or one a column.
    pub bias: Option<TensorId>,
    pub zero_points: [i32; 2],
    /// Words that the variant takes beyond those of every product.
    pub params: &'a [u32],
}

impl Product<'_> {
    pub fn launch(self, builder: &mut Builder<'_>) -> Result<(), Refusal> {
        let Size { batches, m, n, k } = self.size;
        let choice = choose(builder.caps, self.size)
            .map_err(|error| builder.unsupported(format!("no geometry of {} fits: {error}", self.kernel)))?;
        let Choice { geometry, splits, chunk, reason } = choice;
        let output = builder.tensor(self.output);
        let a = builder.tensor(self.a);
        // Without a bias the address is that of A and is not used.
        let bias = self.bias.map_or(a, |id| builder.tensor(id));
        let bias_step = self.bias.map_or(2, |id| u32::from(builder.graph.tensor(id).elements() > 1));
        let count = u64::from(batches) * u64::from(m) * u64::from(n);
        let target = if splits > 1 { builder.scratch(count * u64::from(splits) * 4) } else { output };
        let [a_zp, b_zp] = self.zero_points.map(|zero_point| zero_point as u32);
        let mut params = vec![m, n, k, batches, splits, chunk, bias_step, a_zp, b_zp];
        params.extend(self.params);
        let [rows, columns] = geometry.tile();
        let tiles = u64::from(m.div_ceil(rows)) * u64::from(n.div_ceil(columns));
        builder.launch(&Launch {
            module: &format!("gemm_tiled.{}", self.kernel),
            constants: &[
                (0, geometry.lanes),
                (1, geometry.lanes_n),
                (2, geometry.quads[0]),
                (3, geometry.quads[1]),
                (4, geometry.slab),
            ],
            writes: &[target],
            reads: &[a, builder.tensor(self.b), bias],
            params: &params,
            groups: Groups::Flat(tiles * u64::from(splits) * u64::from(batches)),
            detail: &format!("{rows}x{columns}x{} of {m}x{n}x{k} in {splits} ({reason})", geometry.slab),
        })?;
        if splits == 1 {
            return Ok(());
        }
        let kernel = match self.types {
            [DType::Int8, _] => "i8",
            [_, DType::Fp16] => "f16",
            [_, DType::Bf16] => "bf16",
            _ => "f32",
        };
        let size = builder.graph.tensor(self.output).dtype.bytes().unwrap_or(4);
        builder.launch(&Launch {
            module: &format!("gemm_reduce.{kernel}"),
            constants: &[],
            writes: &[output],
            reads: &[target, bias],
            params: &[count as u32, n, splits, bias_step],
            groups: word_groups(count, size),
            detail: &format!("{splits} parts of k"),
        })
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
                    let choice = choose(&caps, Size { batches: 1, m, n, k }).unwrap();
                    assert!(choice.splits * choice.chunk >= k && (choice.splits - 1) * choice.chunk < k);
                }
            }
        }
    }
}
