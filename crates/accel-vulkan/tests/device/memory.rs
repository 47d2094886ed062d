//! Buffers: zeroed, bounded, counted, and copied through the staging ring.

use accel_vulkan::{EngineOptions, Error, MemoryKind};

use crate::support::{open, open_with};

const KINDS: [MemoryKind; 3] = [MemoryKind::Host, MemoryKind::Device, MemoryKind::Shared];

/// Bytes without a short period.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i ^ (i >> 8) ^ (i >> 16) ^ 0x3c) as u8).collect()
}

fn read_all(buffer: &accel_vulkan::Buffer) -> Vec<u8> {
    let mut bytes = vec![0xaa; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn memory_is_zeroed_even_where_another_buffer_was() {
    for staged in [false, true] {
        let Some(engine) = open_with(EngineOptions { staged, ..Default::default() }) else { return };
        for kind in KINDS {
            for _ in 0..3 {
                let buffer = engine.allocate(100_001, kind).unwrap();
                assert_eq!(read_all(&buffer), vec![0; 100_001], "{kind:?} staged {staged}");
                buffer.write(0, &pattern(100_001)).unwrap();
            }
        }
    }
}

#[test]
fn what_was_written_is_read_at_any_offset_and_size() {
    for staged in [false, true] {
        let Some(engine) = open_with(EngineOptions { staged, ..Default::default() }) else { return };
        for kind in KINDS {
            // More chunks than the staging ring has, and a ragged end.
            let total = (22 << 20) + 5;
            let buffer = engine.allocate(total as u64, kind).unwrap();
            let data = pattern(total);
            buffer.write(0, &data).unwrap();
            assert!(read_all(&buffer) == data, "{kind:?} staged {staged}");
            buffer.write(3, b"middle").unwrap();
            buffer.write(total as u64 - 1, b"e").unwrap();
            let mut part = [0; 8];
            buffer.read(2, &mut part).unwrap();
            assert_eq!(part, [data[2], b'm', b'i', b'd', b'd', b'l', b'e', data[9]]);
            let mut end = [0; 2];
            buffer.read(total as u64 - 2, &mut end).unwrap();
            assert_eq!(end, [data[total - 2], b'e']);
            buffer.read(total as u64, &mut []).unwrap();
        }
    }
}

#[test]
fn ranges_outside_a_buffer_are_refused() {
    let Some(engine) = open() else { return };
    let buffer = engine.allocate(10, MemoryKind::Device).unwrap();
    for (offset, bytes) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 1), (u64::MAX - 1, 10)] {
        let mut data = vec![0; bytes];
        let read = buffer.read(offset, &mut data).unwrap_err();
        assert!(matches!(read, Error::OutOfRange { size: 10, .. }), "{read}");
        let write = buffer.write(offset, &data).unwrap_err();
        assert!(matches!(write, Error::OutOfRange { size: 10, .. }), "{write}");
    }
}

#[test]
fn the_memory_limit_holds_and_freed_memory_counts_again() {
    let options = EngineOptions { memory_limit_bytes: Some(1 << 20), ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let most = engine.allocate(1 << 20, MemoryKind::Device).unwrap();
    let error = engine.allocate(1, MemoryKind::Host).unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { used: 1_048_576, limit: 1_048_576, .. }), "{error}");
    drop(most);
    assert_eq!(engine.memory_used(), 0);
    engine.allocate(1 << 20, MemoryKind::Host).unwrap();
}

#[test]
fn impossible_sizes_are_refused() {
    let Some(engine) = open() else { return };
    for bytes in [0, u64::MAX, engine.caps().max_allocation_bytes + 1] {
        let error = engine.allocate(bytes, MemoryKind::Device).unwrap_err();
        assert!(matches!(error, Error::Size { .. }), "{error}");
    }
    assert_eq!(engine.memory_used(), 0);
}
