//! Packs intermediates by lifetime into one arena.

/// Bytes needed from step `first` to step `last`, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub bytes: u64,
    pub first: u32,
    pub last: u32,
}

const ALIGNMENT: u64 = 256;

/// Gives each lifetime an offset such that those alive at a common step do not overlap; returns the offsets
/// and the arena's size. Largest first at the lowest free offset (greedy by size: Pisarchyk and Lee,
/// "Efficient Memory Management for Deep Neural Net Inference", 2020).
pub(crate) fn pack(lifetimes: &[Lifetime]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lifetimes[i].bytes), i));
    let mut offsets = vec![0; lifetimes.len()];
    // Placed lifetimes by ascending offset.
    let mut placed: Vec<(u64, u64, usize)> = Vec::new();
    let mut size = 0;
    for index in order {
        let life = lifetimes[index];
        let bytes = life.bytes.max(1).next_multiple_of(ALIGNMENT);
        let mut offset = 0;
        for &(start, end, other) in &placed {
            let other = lifetimes[other];
            if other.last < life.first || life.last < other.first {
                continue;
            }
            if start >= offset + bytes {
                break;
            }
            offset = offset.max(end);
        }
        offsets[index] = offset;
        size = size.max(offset + bytes);
        let at = placed.partition_point(|&(start, ..)| start <= offset);
        placed.insert(at, (offset, offset + bytes, index));
    }
    (offsets, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_needs_two_buffers() {
        let lives: Vec<_> = (0..10).map(|i| Lifetime { bytes: 1000, first: i, last: i + 1 }).collect();
        let (_, size) = pack(&lives);
        assert_eq!(size, 2048);
    }

    #[test]
    fn overlapping_lifetimes_never_share_bytes() {
        let mut seed = 1_u64;
        let mut next = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        let lives: Vec<_> = (0..300)
            .map(|_| {
                let first = next(100) as u32;
                Lifetime { bytes: next(5000), first, last: first + next(12) as u32 }
            })
            .collect();
        let (offsets, size) = pack(&lives);
        for (i, a) in lives.iter().enumerate() {
            assert!(offsets[i] % ALIGNMENT == 0 && offsets[i] + a.bytes <= size);
            for (j, b) in lives.iter().enumerate().skip(i + 1) {
                if a.last >= b.first && b.last >= a.first {
                    assert!(offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i]);
                }
            }
        }
    }
}
