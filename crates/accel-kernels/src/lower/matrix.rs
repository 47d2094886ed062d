//! Products on matrix units: the geometry of `gemm_matrix.comp` and `gemm_packed.comp`, and the choice of one.

use super::gemm::{GeometryError, Size};
use crate::{DeviceCaps, DeviceKind, MatrixGeometry, MatrixTuple};

/// Bytes that are staged at once.
const VECTOR_BYTES: u32 = 16;

/// `VkComponentTypeKHR` of operands and sums, and bytes of an operand as it is staged, for a variant's types.
fn components(types: &str) -> Option<(i32, i32, u32)> {
    Some(match types {
        // FP8 is widened when it is staged.
        "f16" | "f16f32" | "e4m3" | "e5m2" => (MatrixTuple::FLOAT16, MatrixTuple::FLOAT32, 2),
        "bf16" | "bf16f32" => (MatrixTuple::BFLOAT16, MatrixTuple::FLOAT32, 2),
        "i8" => (MatrixTuple::SINT8, MatrixTuple::SINT32, 1),
        _ => return None,
    })
}

/// A geometry with the device's matrices in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub geometry: MatrixGeometry,
    /// Rows, columns and depth of a matrix.
    pub unit: [u32; 3],
    /// Lanes of a subgroup.
    pub subgroup: u32,
    /// Operands in a staged vector.
    pub vector: u32,
}

impl Matrix {
    /// Rows and columns of C that a workgroup makes.
    pub fn tile(&self) -> [u32; 2] {
        let MatrixGeometry { subgroups, part, .. } = self.geometry;
        [subgroups[0] * part[0], subgroups[1] * part[1]]
    }

    /// Invocations.
    pub fn lanes(&self) -> u32 {
        self.geometry.subgroups[0] * self.geometry.subgroups[1] * self.subgroup
    }

    /// Specialization constants.
    pub fn constants(&self) -> Vec<(u32, u32)> {
        let ([tile_m, tile_n], MatrixGeometry { part, slab, band, .. }) = (self.tile(), self.geometry);
        let [m, n, k] = self.unit;
        let values = [self.lanes(), tile_m, tile_n, slab, part[0], part[1], m, n, k, self.subgroup, band];
        (0..).zip(values).collect()
    }

    /// Rows of B in shared memory, and vectors in each.
    fn b_slab(&self, rows_of_k: bool) -> (u32, u32) {
        let (tile_n, slab) = (self.tile()[1], self.geometry.slab);
        if rows_of_k { (tile_n, slab / self.vector) } else { (slab, tile_n / self.vector) }
    }

    /// Steps of k in registers at once, of packed operands.
    pub fn steps(&self) -> u32 {
        self.geometry.slab / self.unit[2]
    }

    /// Bytes of shared memory: slabs with a vector more in each row, or the sums of a row of matrices of every subgroup.
    pub fn shared_bytes(&self, rows_of_k: bool) -> u32 {
        let (rows, across) = self.b_slab(rows_of_k);
        let staged = self.tile()[0] * (self.geometry.slab / self.vector + 1) + rows * (across + 1);
        let subgroups = self.geometry.subgroups[0] * self.geometry.subgroups[1];
        let stored = subgroups * self.unit[0] * (self.geometry.part[1] / 4 + 1);
        if self.geometry.packed { stored } else { staged.max(stored) }.saturating_mul(VECTOR_BYTES)
    }

    /// Bytes of A and of B when they are packed, with those behind them that are loaded and not used. `None` where an operand would be
    /// too large.
    pub fn packed_bytes(&self, size: Size) -> Option<[u64; 2]> {
        let [rows, columns] = self.tile();
        let depth = u64::from(size.k.next_multiple_of(self.geometry.slab));
        let element = u64::from(VECTOR_BYTES / self.vector);
        let bytes = [(size.m, rows, 0), (size.n, columns, 1)].map(|(extent, tile, side)| {
            let filled = u64::from(size.batches) * u64::from(extent.div_ceil(tile)) * u64::from(tile) * depth;
            (filled + u64::from(self.geometry.part[side] * self.geometry.slab)) * element
        });
        bytes.iter().all(|&bytes| bytes <= LARGEST_PACKED).then_some(bytes)
    }

    /// Checks that the parts tile the block exactly and fit the device.
    fn check(self, caps: &DeviceCaps, rows_of_k: bool) -> Result<Self, GeometryError> {
        let MatrixGeometry { part, slab, .. } = self.geometry;
        let ([rows, columns], lanes) = (self.tile(), self.lanes());
        let whole = |total: u32, part: u32| part != 0 && total != 0 && total.is_multiple_of(part);
        let (b_rows, b_across) = self.b_slab(rows_of_k);
        let across = slab / self.vector;
        let staged = || {
            whole(slab, self.vector)
                && whole(columns, self.vector)
                && whole(lanes, across)
                && whole(rows * across, lanes)
                && whole(lanes, b_across)
                && whole(b_rows * b_across, lanes)
        };
        // Each lane holds whole vectors of a matrix, and one step is loaded while another is multiplied. Bytes are not packed: a
        // matrix's components of eight bits cannot be set a word at once.
        let packed = || {
            let [m, n, k] = self.unit;
            self.vector < 16
                && self.steps() > 1
                && [m, n].iter().all(|&rows| whole(rows * k, self.vector * self.subgroup))
        };
        if !(whole(part[0], self.unit[0])
            && whole(part[1], self.unit[1])
            && whole(slab, self.unit[2])
            && if self.geometry.packed { packed() } else { staged() }
            // Matrices start at whole vectors.
            && whole(self.unit[2], self.vector)
            && (rows_of_k || whole(self.unit[1], self.vector))
            // Lanes of a subgroup take four columns each of whole rows.
            && whole(self.unit[1], 4)
            && whole(self.subgroup, part[1] / 4))
        {
            return Err(GeometryError::InvalidConfig { lanes, rows, columns, slab });
        }
        let limits = [
            ("invocations", lanes, caps.max_workgroup_invocations),
            ("bytes of shared memory", self.shared_bytes(rows_of_k), caps.shared_memory_bytes),
        ];
        match limits.into_iter().find(|&(_, needed, limit)| needed > limit) {
            Some((resource, needed, limit)) => Err(GeometryError::Unavailable { resource, needed, limit }),
            None => Ok(self),
        }
    }
}

/// Geometries from the largest tile down, for operands of two bytes; slabs of single bytes are twice as deep.
const GEOMETRIES: [MatrixGeometry; 5] = [
    MatrixGeometry { subgroups: [2, 2], part: [64, 64], slab: 64, band: 8, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [32, 32], slab: 64, band: 8, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [16, 32], slab: 64, band: 8, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 64, band: 8, packed: false },
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 32, band: 8, packed: false },
];

/// For packed operands of two bytes: three steps of k in registers.
const PACKED: MatrixGeometry =
    MatrixGeometry { subgroups: [2, 2], part: [64, 64], slab: 48, band: 16, packed: true };

/// The quickest on CPUs.
const ON_CPUS: MatrixGeometry =
    MatrixGeometry { subgroups: [2, 2], part: [16, 16], slab: 32, band: 8, packed: false };

/// Fewest rows and columns for which a tile pays.
const LEAST: u32 = 16;
/// Elements of a B that takes so long to read that empty rows cost nothing.
const LARGE: u64 = 1 << 22;
/// Rows of a product that takes as long as reading B.
pub(crate) const FEW_ROWS: u32 = 64;
/// Workgroups that fill a large GPU.
const FILL: u64 = 200;
/// Depth of a part of k that is worth a workgroup of a large tile, and the most parts that are.
const PART_OF_K: u32 = 1024;
const PARTS_OF_K: u32 = 4;
/// Packing pays for products of at least so many rows and columns, as `m n / (m + n)`: it costs time in proportion to `(m + n) k`, and
/// saves time in proportion to `m n k`.
const PACKING_PAYS: u32 = 400;
/// Largest packed operand in bytes.
const LARGEST_PACKED: u64 = 1 << 30;

/// Shortest part of k that is worth a workgroup.
pub(crate) const MIN_CHUNK: u32 = 256;

/// A geometry with the first of the device's matrices of these types that it fits.
pub(crate) fn build(
    caps: &DeviceCaps,
    geometry: MatrixGeometry,
    types: &str,
    rows_of_k: bool,
) -> Option<Matrix> {
    let (operand, result, bytes) = components(types)?;
    let fitting = caps.matrices.iter().filter(|t| t.operand == operand && t.result == result);
    fitting.into_iter().find_map(|t| {
        let matrix = Matrix {
            geometry,
            unit: [t.m, t.n, t.k],
            subgroup: caps.subgroup_size,
            vector: VECTOR_BYTES / bytes,
        };
        matrix.check(caps, rows_of_k).ok()
    })
}

/// Fewest rows that matrix units multiply in the time that it takes to read a large B, though most of a tile is empty; otherwise the
/// fewest that fill half of one. Others take fewer rows as fast as they read B.
pub(crate) fn least_rows(caps: &DeviceCaps, size: Size, types: &str) -> u32 {
    let large = u64::from(size.n) * u64::from(size.k) >= LARGE;
    match types {
        _ if caps.kind == DeviceKind::Cpu || !large => LEAST,
        "f16" | "f16f32" | "bf16" | "bf16f32" => 3,
        "e4m3" | "e5m2" => 5,
        _ => 9,
    }
}

/// Chooses a geometry for a product of `types`; `None` where the device has no matrices of these or others are quicker.
pub(crate) fn choose(
    caps: &DeviceCaps,
    types: &str,
    size: Size,
    rows_of_k: bool,
    image: bool,
) -> Option<Matrix> {
    if let Some(geometry) = caps.matrix_geometry {
        let fits = |m: &Matrix| !geometry.packed || (!image && m.packed_bytes(size).is_some());
        return build(caps, geometry, types, rows_of_k).filter(fits);
    }
    let rows = if image { LEAST } else { least_rows(caps, size, types) };
    let least = caps.tuning.or("matrix.least", LEAST);
    if size.m < caps.tuning.or("matrix.least", rows) || size.n < least || size.k < least {
        return None;
    }
    if caps.kind == DeviceKind::Cpu {
        // lavapipe's compiler takes many seconds for the code that widens FP8, or finds the elements of images.
        if image || matches!(types, "e4m3" | "e5m2") {
            return None;
        }
        return build(caps, deepened(ON_CPUS, types), types, rows_of_k);
    }
    // The largest tile that rows and columns fill, and whose workgroups fill the device; or else the smallest one.
    let fitting: Vec<Matrix> = GEOMETRIES
        .into_iter()
        .filter_map(|geometry| build(caps, deepened(geometry, types), types, rows_of_k))
        .collect();
    let parts = (size.k / PART_OF_K).clamp(1, PARTS_OF_K);
    let fills = |m: &&Matrix| {
        let [rows, columns] = m.tile();
        let [tiles_m, tiles_n] = [size.m.div_ceil(rows), size.n.div_ceil(columns)];
        let groups = u64::from(size.batches) * u64::from(tiles_m) * u64::from(tiles_n);
        is_filled(size.m, rows) && is_filled(size.n, columns) && groups * u64::from(parts) >= FILL
    };
    let (m, n) = (u64::from(size.m), u64::from(size.n));
    let pays = u64::from(caps.tuning.or("matrix.packing", PACKING_PAYS));
    if caps.packs_matrices && !image && m * n >= pays.saturating_mul(m + n) {
        let packed =
            build(caps, PACKED, types, rows_of_k).filter(|matrix| matrix.packed_bytes(size).is_some());
        // From 0 on it pays for every product: for tests.
        if let Some(matrix) = packed.filter(|matrix| pays == 0 || fills(&matrix)) {
            return Some(matrix);
        }
    }
    fitting.iter().find(fills).or(fitting.last()).copied()
}

/// Whether an extent uses more than half of a tile; of the smallest, less will do.
fn is_filled(extent: u32, tile: u32) -> bool {
    tile <= 32 || extent * 2 > tile
}

/// The geometry with slabs of as many bytes for single bytes as for two.
fn deepened(geometry: MatrixGeometry, types: &str) -> MatrixGeometry {
    let times = components(types).map_or(1, |(_, _, bytes)| 2 / bytes);
    MatrixGeometry { slab: geometry.slab * times, ..geometry }
}

/// The smallest geometry with matrices of this shape, which tells whether those are right at the least cost: of staged operands, or
/// of packed ones.
pub(crate) fn smallest_geometry(
    caps: &DeviceCaps,
    tuple: MatrixTuple,
    packed: bool,
) -> Option<MatrixGeometry> {
    let types = match tuple.operand {
        MatrixTuple::FLOAT16 => "f16f32",
        MatrixTuple::BFLOAT16 => "bf16f32",
        _ => "i8",
    };
    let mut deep =
        GEOMETRIES.into_iter().rev().map(|geometry| deepened(MatrixGeometry { packed, ..geometry }, types));
    deep.find(|&geometry| build(caps, geometry, types, false).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(units: &[(i32, i32, [u32; 3])], subgroup_size: u32) -> DeviceCaps {
        DeviceCaps {
            kind: DeviceKind::Discrete,
            subgroup_size,
            max_workgroup_invocations: 1024,
            shared_memory_bytes: 48 << 10,
            matrices: units
                .iter()
                .map(|&(operand, result, [m, n, k])| MatrixTuple { m, n, k, operand, result })
                .collect(),
            ..DeviceCaps::baseline()
        }
    }

    const HALF: (i32, i32) = (MatrixTuple::FLOAT16, MatrixTuple::FLOAT32);
    const BYTE: (i32, i32) = (MatrixTuple::SINT8, MatrixTuple::SINT32);

    fn size(m: u32, n: u32, k: u32) -> Size {
        Size { batches: 1, m, n, k }
    }

    #[test]
    fn every_shape_that_drivers_list_has_a_geometry() {
        for subgroup in [8, 16, 32, 64] {
            for unit in [[8, 8, 8], [8, 8, 16], [16, 16, 16], [16, 8, 16], [16, 8, 8]] {
                let caps = device(&[(HALF.0, HALF.1, unit)], subgroup);
                for (m, n) in [(16, 16), (127, 129), (4096, 4096)] {
                    for rows_of_k in [false, true] {
                        let found = choose(&caps, "f16", size(m, n, 1000), rows_of_k, false);
                        assert!(found.is_some(), "{unit:?} with {subgroup} lanes, {m}x{n}");
                    }
                }
            }
            for unit in [[16, 16, 32], [16, 16, 16], [16, 8, 32]] {
                let caps = device(&[(BYTE.0, BYTE.1, unit)], subgroup);
                assert!(
                    choose(&caps, "i8", size(300, 300, 300), true, false).is_some(),
                    "{unit:?} with {subgroup} lanes"
                );
            }
        }
    }

    #[test]
    fn sizes_choose_the_tiles_that_were_measured() {
        let caps = device(&[(HALF.0, HALF.1, [16; 3]), (BYTE.0, BYTE.1, [16, 16, 32])], 32);
        let tile = |types, m, n, k| {
            let chosen = choose(&caps, types, size(m, n, k), false, false).unwrap();
            let [rows, columns] = chosen.tile();
            [rows, columns, chosen.geometry.slab]
        };
        assert_eq!(tile("f16", 4096, 4096, 4096), [128, 128, 64]);
        assert_eq!(tile("f16", 1024, 1024, 1024), [64, 64, 64]);
        assert_eq!(tile("f16", 512, 512, 512), [32, 32, 64]);
        assert_eq!(tile("f16", 64, 4096, 4096), [64, 64, 64]);
        assert_eq!(tile("f16", 32, 4096, 4096), [32, 64, 64]);
        assert_eq!(tile("f16", 16, 4096, 4096), [32, 64, 64]);
        assert_eq!(tile("f16", 3, 4096, 4096), [32, 64, 64]);
        assert_eq!(tile("i8", 4096, 4096, 4096), [128, 128, 128]);
    }

    #[test]
    fn operands_are_packed_where_it_pays() {
        let matrices = [(HALF.0, HALF.1, [16; 3]), (BYTE.0, BYTE.1, [16, 16, 32])];
        let caps = DeviceCaps { packs_matrices: true, ..device(&matrices, 32) };
        let packs = |types, m, n, k, image| {
            choose(&caps, types, size(m, n, k), true, image).is_some_and(|matrix| matrix.geometry.packed)
        };
        assert!(packs("f16", 4096, 4096, 4096, false) && packs("e4m3", 512, 11_008, 4096, false));
        // Too few rows, too few workgroups, bytes, an image, an operand that is too large.
        assert!(!packs("f16", 256, 11_008, 4096, false) && !packs("f16", 1024, 1024, 1024, false));
        assert!(!packs("i8", 4096, 4096, 4096, false) && !packs("f16", 4096, 4096, 4096, true));
        assert!(!packs("f16", 4096, 131_072, 8192, false));
        let forced =
            DeviceCaps { tuning: "matrix.least=1,matrix.packing=0".parse().unwrap(), ..caps.clone() };
        assert!(choose(&forced, "f16", size(1, 3, 5), true, false).unwrap().geometry.packed);
        assert!(
            !choose(&device(&matrices, 32), "f16", size(4096, 4096, 4096), true, false)
                .unwrap()
                .geometry
                .packed
        );
    }

    #[test]
    fn few_rows_other_types_and_devices_without_matrices_have_none() {
        let caps = device(&[(HALF.0, HALF.1, [16; 3])], 32);
        assert_eq!(choose(&caps, "f16", size(2, 4096, 4096), false, false), None);
        assert_eq!(choose(&caps, "f16", size(8, 1024, 1024), false, false), None);
        assert_eq!(choose(&caps, "e4m3", size(4, 4096, 4096), false, false), None);
        assert_eq!(choose(&caps, "f32", size(4096, 4096, 4096), false, false), None);
        assert_eq!(choose(&caps, "i8", size(4096, 4096, 4096), false, false), None);
        assert_eq!(choose(&device(&[], 32), "f16", size(4096, 4096, 4096), false, false), None);
        let forced = DeviceCaps { tuning: "matrix.least=1".parse().unwrap(), ..caps };
        assert!(choose(&forced, "f16", size(1, 3, 5), false, false).is_some());
    }

    #[test]
    fn a_geometry_whose_parts_do_not_tile_is_refused_when_it_is_built() {
        let caps = device(&[(HALF.0, HALF.1, [16; 3])], 32);
        let good = GEOMETRIES[0];
        let build = |geometry| build(&caps, geometry, "f16", false);
        assert!(build(good).is_some());
        assert!(build(PACKED).is_some());
        for bad in [
            MatrixGeometry { slab: 16, ..PACKED },
            MatrixGeometry { part: [64, 40], ..PACKED },
            MatrixGeometry { part: [64, 60], ..good },
            MatrixGeometry { part: [64, 48], ..good },
            MatrixGeometry { part: [0, 64], ..good },
            MatrixGeometry { slab: 24, ..good },
            MatrixGeometry { slab: 128, ..good },
            MatrixGeometry { subgroups: [8, 8], ..good },
            MatrixGeometry { subgroups: [0, 2], ..good },
        ] {
            assert_eq!(build(bad), None, "{bad:?}");
        }
    }
}
