//! Memory that the device can reach.

use std::os::fd::FromRawFd;

use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

use crate::{Error, Result};

/// A mapping shared with the device. Offsets count from the start of the mapping.
pub trait DeviceMemory: Send + Sync {
    /// The whole mapping.
    fn bytes(&self) -> VolatileSlice<'_>;

    /// Address by which the device knows `offset`, and how many bytes from there on follow each other in
    /// the device's view too. `offset` is below the mapping's size.
    fn device_address(&self, offset: usize) -> (u64, usize);
}

/// Guest memory in a memfd: one region, contiguous in the device's view. Pages are taken on first use,
/// so a large region costs nothing until it is written.
#[derive(Debug)]
pub struct MemfdMemory {
    region: MmapRegion,
    guest_base: u64,
}

impl MemfdMemory {
    /// Maps `bytes` of a new memfd; the device sees them from `guest_base` on.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn new(bytes: usize, guest_base: u64) -> Result<Self> {
        let system = |what| move |source| Error::System { what, source };
        // SAFETY: the name is a NUL-terminated literal; the call has no other memory operands.
        let fd = unsafe { libc::memfd_create(c"accel-guest".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(system("create shared memory for the device")(std::io::Error::last_os_error()));
        }
        // SAFETY: `fd` was just returned by the kernel and nothing else owns it.
        let file = unsafe { std::fs::File::from_raw_fd(fd) };
        file.set_len(bytes as u64).map_err(system("size the shared memory"))?;
        let region = MmapRegion::from_file(FileOffset::new(file, 0), bytes)
            .map_err(std::io::Error::other)
            .map_err(system("map the shared memory"))?;
        Ok(Self { region, guest_base })
    }

    /// The mapping, for the front-end's memory table.
    pub fn region(&self) -> &MmapRegion {
        &self.region
    }

    /// First guest-physical address.
    pub fn guest_base(&self) -> u64 {
        self.guest_base
    }
}

impl DeviceMemory for MemfdMemory {
    fn bytes(&self) -> VolatileSlice<'_> {
        self.region.as_volatile_slice()
    }

    fn device_address(&self, offset: usize) -> (u64, usize) {
        (self.guest_base + offset as u64, self.region.size().saturating_sub(offset))
    }
}
