//! Geometries of `gemm_blocked.comp`: large products in FP32 on devices whose matrix units have no such type, or none at all.

use super::gemm::{Addressing, Choice, Geometry, GeometryError, Kernel, Size};
use crate::{DeviceCaps, DeviceKind};

/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 4;
/// Shortest part of k that is worth a workgroup.
const MIN_CHUNK: u32 = 256;

/// From the largest tile down; ADR 0008 has others' figures.
const GEOMETRIES: [(Geometry, &str); 3] = [
    (Geometry { lanes: 128, lanes_n: 16, quads: [4, 2], slab: 8 }, "FP32 fills many tiles of 128 x 128"),
    (Geometry { lanes: 256, lanes_n: 16, quads: [2, 2], slab: 8 }, "FP32 fills tiles of 128 x 128"),
    (Geometry { lanes: 64, lanes_n: 8, quads: [2, 2], slab: 16 }, "FP32 fills tiles of 64 x 64"),
];

/// Bytes of shared memory: two buffers of both slabs, rows padded by a vector.
fn shared_bytes(geometry: &Geometry) -> u32 {
    let [rows, columns] = geometry.tile();
    2 * geometry.slab * (rows + VECTOR + columns + VECTOR) * 4
}

/// Checks that the parts fit each other and the device.
fn check(geometry: Geometry, caps: &DeviceCaps) -> Result<Geometry, GeometryError> {
    let [rows, columns] = geometry.tile();
    let Geometry { lanes, lanes_n, slab, .. } = geometry;
    let whole = |total: u32, part: u32| part != 0 && total != 0 && total.is_multiple_of(part);
    if !(whole(lanes, lanes_n)
        && whole(slab, VECTOR)
        && whole(rows * slab, VECTOR * lanes)
        && whole(columns * slab, VECTOR * lanes))
    {
        return Err(GeometryError::InvalidConfig { lanes, rows, columns, slab });
    }
    let limits = [
        ("invocations", lanes, caps.max_workgroup_invocations),
        ("bytes of shared memory", shared_bytes(&geometry), caps.shared_memory_bytes),
    ];
    match limits.into_iter().find(|&(_, needed, limit)| needed > limit) {
        Some((resource, needed, limit)) => Err(GeometryError::Unavailable { resource, needed, limit }),
        None => Ok(geometry),
    }
}

/// k that the kernel multiplies at a time: short slabs whole.
pub(crate) fn step(caps: &DeviceCaps, geometry: &Geometry) -> u32 {
    caps.tuning.or("blocked.step", if geometry.slab == 8 { 8 } else { 1 })
}

/// The geometry for a product, or `None` where another kernel is to take it: other types, CPUs, rows that are not whole vectors,
/// and products of less than a small tile.
pub(crate) fn choose(
    caps: &DeviceCaps,
    types: &str,
    addressing: &Addressing<'_>,
    size: Size,
) -> Option<Choice> {
    let gpu = caps.tuning.or("blocked", u32::from(caps.kind != DeviceKind::Cpu)) != 0;
    let rows_are_vectors = match addressing {
        Addressing::Matrix => size.k.is_multiple_of(VECTOR) && size.n.is_multiple_of(VECTOR),
        Addressing::RowsOfK => size.k.is_multiple_of(VECTOR),
        Addressing::Image(_) => false,
    };
    if !gpu || types != "f32" || !rows_are_vectors || size.m < 32 || size.n < 32 {
        return None;
    }
    let fill = if caps.kind == DeviceKind::Discrete { 264 } else { 32 };
    let groups = |geometry: &Geometry| {
        let [rows, columns] = geometry.tile();
        u64::from(size.batches) * u64::from(size.m.div_ceil(rows)) * u64::from(size.n.div_ceil(columns))
    };
    let splits = |geometry: &Geometry| {
        let wanted = (fill / groups(geometry).max(1)).max(1) as u32;
        wanted.min(size.k / MIN_CHUNK).max(1)
    };
    let [huge, large, small] = GEOMETRIES;
    let forced = caps.tuning.or("blocked.geometry", u32::MAX) as usize;
    let preferred = match GEOMETRIES.get(forced) {
        Some(&geometry) => geometry,
        None if groups(&huge.0) >= 3 * fill => huge,
        None if groups(&large.0) * u64::from(splits(&large.0)) * 2 >= fill => large,
        None => small,
    };
    let (geometry, reason) = [preferred, large, small]
        .into_iter()
        .find_map(|(geometry, reason)| Some((check(geometry, caps).ok()?, reason)))?;
    let chunk = size.k.div_ceil(splits(&geometry)).next_multiple_of(geometry.slab);
    Some(Choice { kernel: Kernel::Blocked(geometry), splits: size.k.div_ceil(chunk), chunk, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_little_shared_memory_gets_a_geometry_that_fits() {
        let caps = DeviceCaps { kind: DeviceKind::Discrete, ..DeviceCaps::baseline() };
        for shared_memory_bytes in [16 << 10, 32 << 10, 48 << 10] {
            let caps = DeviceCaps { shared_memory_bytes, ..caps.clone() };
            for (m, n) in [(4096, 4096), (64, 64), (100, 8192)] {
                let size = Size { batches: 1, m, n, k: 4096 };
                let choice = choose(&caps, "f32", &Addressing::Matrix, size);
                let Some(Choice { kernel: Kernel::Blocked(geometry), splits, chunk, .. }) = choice else {
                    assert!(shared_memory_bytes < 32 << 10);
                    continue;
                };
                assert_eq!(check(geometry, &caps), Ok(geometry));
                assert!(splits * chunk >= 4096 && (splits - 1) * chunk < 4096);
            }
        }
    }

    #[test]
    fn a_geometry_that_contradicts_itself_is_refused() {
        let (large, _) = GEOMETRIES[1];
        let caps = DeviceCaps::baseline();
        let uneven = Geometry { slab: 6, ..large };
        assert!(matches!(check(uneven, &caps), Err(GeometryError::InvalidConfig { .. })));
        let deep = Geometry { slab: 64, ..large };
        assert!(matches!(check(deep, &caps), Err(GeometryError::Unavailable { .. })));
    }
}
