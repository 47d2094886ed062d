//! First-fit allocator over a range of the shared memory.

use std::ops::Range;

/// Granularity and alignment of every block: a cache line, so that requests never share one.
const ALIGN: usize = 64;

/// Free list of a range, kept in address order and merged on release.
#[derive(Debug)]
pub struct Arena {
    capacity: usize,
    free: Vec<Range<usize>>,
}

impl Arena {
    /// All of `range` is free; its start is a multiple of 64.
    pub fn new(range: Range<usize>) -> Self {
        Self { capacity: range.len(), free: vec![range] }
    }

    /// Bytes that a single block could have in the empty arena.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// A block of at least `bytes`, aligned to 64; `None` while nothing free is long enough.
    pub fn allocate(&mut self, bytes: usize) -> Option<Range<usize>> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let at = self.free.iter().position(|hole| hole.len() >= bytes)?;
        let hole = &mut self.free[at];
        let block = hole.start..hole.start + bytes;
        hole.start = block.end;
        if hole.start == hole.end {
            self.free.remove(at);
        }
        Some(block)
    }

    /// Returns a block.
    pub fn release(&mut self, block: Range<usize>) {
        let at = self.free.partition_point(|hole| hole.start < block.start);
        self.free.insert(at, block);
        if at + 1 < self.free.len() && self.free[at].end == self.free[at + 1].start {
            self.free[at].end = self.free.remove(at + 1).end;
        }
        if at > 0 && self.free[at - 1].end == self.free[at].start {
            self.free[at - 1].end = self.free.remove(at).end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_and_merge_when_released() {
        let mut arena = Arena::new(0..64 * 8);
        let blocks: Vec<_> = (0..8).map(|_| arena.allocate(1).unwrap()).collect();
        assert!(blocks.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(arena.allocate(1), None);
        // Out of order, so that both neighbours get merged.
        for at in [1, 3, 2, 0, 7, 5, 6, 4] {
            arena.release(blocks[at].clone());
        }
        assert_eq!(arena.allocate(64 * 8), Some(0..512));
    }

    #[test]
    fn a_request_beyond_the_address_space_is_refused() {
        assert_eq!(Arena::new(0..64).allocate(usize::MAX), None);
    }
}
