//! Memory of the kernel module's that requests carry without a copy by the kernel.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use vm_memory::{VolatileSlice, WriteVolatile};

use super::uapi;

/// Kept for the next transfers at most; as many bytes as a client has in flight at once.
const KEPT_BYTES: usize = 16 << 20;

/// A buffer of the module's, mapped. Dropped, it is freed; what is in flight stays the module's until it is over.
pub struct Mapped {
    node: Arc<File>,
    handle: u32,
    at: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its bytes are only touched as volatile memory.
unsafe impl Send for Mapped {}

impl Mapped {
    fn new(node: &Arc<File>, bytes: usize) -> io::Result<Self> {
        let made = uapi::make_buffer(node, bytes)?;
        // SAFETY: a new mapping at a place of the kernel's choice takes nothing away.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                made.bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                node.as_raw_fd(),
                made.offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            uapi::free_buffer(node, made.handle);
            return Err(error);
        }
        Ok(Self { node: node.clone(), handle: made.handle, at: at.cast(), len: made.bytes })
    }

    /// Its name in requests.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    fn memory(&self) -> VolatileSlice<'_> {
        // SAFETY: the mapping has `len` bytes and lives as long as `self`, which the slice borrows. The device may write them at
        // any time, which volatile accesses bear.
        unsafe { VolatileSlice::new(self.at, self.len) }
    }

    /// Copies `bytes` to the beginning; they fit.
    pub fn write(&self, bytes: &[u8]) {
        self.memory().copy_from(bytes);
    }

    /// Appends the first `len` bytes to `to`, or as many as there are.
    pub fn append_to(&self, to: &mut Vec<u8>, len: usize) {
        let appended =
            self.memory().subslice(0, len.min(self.len)).and_then(|part| to.write_all_volatile(&part));
        debug_assert!(appended.is_ok(), "a vector takes all that there is");
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and slices of it borrow `self`.
        unsafe { libc::munmap(self.at.cast(), self.len) };
        uapi::free_buffer(&self.node, self.handle);
    }
}

/// Buffers that are not in use.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Mapped>>);

impl Pool {
    /// A buffer of at least so many bytes; `None` when the module gives no more, and the kernel has to copy instead.
    pub fn take(&self, node: &Arc<File>, bytes: usize) -> Option<Mapped> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|mapped| mapped.len >= bytes) {
            return Some(kept.swap_remove(at));
        }
        // Those that are too small make place.
        kept.clear();
        drop(kept);
        match Mapped::new(node, bytes) {
            Ok(mapped) => {
                log::debug!("The kernel module made a buffer of {} bytes", mapped.len);
                Some(mapped)
            }
            Err(error) => {
                log::debug!("The kernel module makes no buffer of {bytes} bytes: {error}");
                None
            }
        }
    }

    /// Takes back a buffer that no request in flight carries.
    pub fn give_back(&self, mapped: Mapped) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().map(|mapped| mapped.len).sum::<usize>() + mapped.len <= KEPT_BYTES {
            kept.push(mapped);
        }
    }
}
