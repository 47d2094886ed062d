//! Memory whose physical addresses this process knows: huge pages, looked up in `/proc/self/pagemap`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::memory::DeviceMemory;
use crate::{Error, Result};

/// Size and alignment of a huge page.
pub const HUGE: usize = 2 << 20;
const HUGE_LOG2: i32 = 21;
/// Pages of `/proc/self/pagemap`.
const SMALL: usize = 4096;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Huge pages, mapped one after the other. Unlike small ones the kernel does not move them about.
pub struct DmaMemory {
    region: MmapRegion,
    pages: Pages,
}

impl DmaMemory {
    /// Takes huge pages for `bytes`, a multiple of [`HUGE`].
    pub fn new(bytes: usize) -> Result<Self> {
        let flags = libc::MAP_SHARED
            | libc::MAP_ANONYMOUS
            | libc::MAP_POPULATE
            | libc::MAP_HUGETLB
            | HUGE_LOG2 << libc::MAP_HUGE_SHIFT;
        let region = MmapRegion::build(None, bytes, libc::PROT_READ | libc::PROT_WRITE, flags)
            .map_err(std::io::Error::other)
            .map_err(|source| Error::System {
                what: "take huge pages of 2 MiB for the device (reserve them: write how many, at least 20 for every command \
                       queue, to /proc/sys/vm/nr_hugepages)",
                source,
            })?;
        let what = "look up physical addresses in /proc/self/pagemap; this needs root";
        let system = |source| Error::System { what, source };
        let pagemap = File::open("/proc/self/pagemap").map_err(system)?;
        let mut addresses = Vec::new();
        for at in (0..bytes).step_by(HUGE) {
            let mut entry = [0; 8];
            let index = (region.as_ptr() as usize + at) / SMALL;
            pagemap.read_exact_at(&mut entry, (index * size_of::<u64>()) as u64).map_err(system)?;
            let entry = u64::from_ne_bytes(entry);
            if entry & PRESENT == 0 || entry & FRAME == 0 {
                return Err(system(std::io::ErrorKind::PermissionDenied.into()));
            }
            addresses.push((entry & FRAME) * SMALL as u64);
        }
        Ok(Self { region, pages: Pages(addresses) })
    }
}

impl DeviceMemory for DmaMemory {
    fn bytes(&self) -> VolatileSlice<'_> {
        self.region.as_volatile_slice()
    }

    fn device_address(&self, offset: usize) -> (u64, usize) {
        self.pages.locate(offset)
    }
}

/// Physical addresses of huge pages.
struct Pages(Vec<u64>);

impl Pages {
    /// Address of an offset, and bytes that follow each other from there on.
    fn locate(&self, offset: usize) -> (u64, usize) {
        let (first, within) = (offset / HUGE, offset % HUGE);
        let Some(&address) = self.0.get(first) else { return (0, 0) };
        let follow = self.0[first..].windows(2).take_while(|pair| pair[1] == pair[0] + HUGE as u64).count();
        (address + within as u64, (follow + 1) * HUGE - within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_and_gaps_are_kept() {
        let huge = HUGE as u64;
        let pages = Pages(vec![7 * huge, 8 * huge, 3 * huge, 2 * huge]);
        assert_eq!(pages.locate(0), (7 * huge, 2 * HUGE));
        assert_eq!(pages.locate(HUGE + 5), (8 * huge + 5, HUGE - 5));
        assert_eq!(pages.locate(2 * HUGE), (3 * huge, HUGE));
        assert_eq!(pages.locate(4 * HUGE - 1), (3 * huge - 1, 1));
        assert_eq!(pages.locate(4 * HUGE), (0, 0));
    }
}
