//! Buffers: sub-allocated, zeroed, counted, and read and written by the host within their bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use accel_kernels::REGION_ALIGNMENT;
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator};
use gpu_allocator::{AllocationError, MemoryLocation};

use crate::Error;
use crate::core::Core;
use crate::instance::lock;
use crate::staging::Staging;

/// Sizes are rounded up to this, so that kernels may load whole words at the end of a tensor.
const SIZE_GRAIN: u64 = 16;

/// Where a buffer is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Host memory, cached: fast for the host to read.
    Host,
    /// Device memory.
    Device,
    /// Device memory that the host writes directly, where the device has such.
    Shared,
}

/// Bytes in use against the configured limit.
pub(crate) struct Accounting {
    limit: u64,
    used: AtomicU64,
}

impl Accounting {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), used: AtomicU64::new(0) }
    }

    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .map(|_| ())
            .map_err(|used| Error::MemoryLimit { bytes, used, limit: self.limit })
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }
}

/// A `VkBuffer` and its memory, without an owner: whoever makes it destroys it.
pub(crate) struct RawBuffer {
    pub(crate) handle: vk::Buffer,
    pub(crate) allocation: Allocation,
}

impl RawBuffer {
    /// Makes a buffer of `bytes`, a multiple of [`SIZE_GRAIN`]; its contents are undefined.
    pub(crate) fn new(core: &Core, bytes: u64, location: MemoryLocation) -> Result<Self, Error> {
        let families = core.families();
        let sharing =
            if families.len() > 1 { vk::SharingMode::CONCURRENT } else { vk::SharingMode::EXCLUSIVE };
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(
                vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
                    | vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST,
            )
            .sharing_mode(sharing)
            .queue_family_indices(&families);
        // SAFETY: alive and well-formed; the size is within the device's limit.
        let handle =
            unsafe { core.device.create_buffer(&info, None) }.map_err(Error::of("vkCreateBuffer"))?;
        Self::back(core, handle, bytes, location).inspect_err(|_| {
            // SAFETY: just made and never used.
            unsafe { core.device.destroy_buffer(handle, None) };
        })
    }

    fn back(core: &Core, handle: vk::Buffer, bytes: u64, location: MemoryLocation) -> Result<Self, Error> {
        // SAFETY: alive.
        let mut requirements = unsafe { core.device.get_buffer_memory_requirements(handle) };
        requirements.alignment = requirements.alignment.max(REGION_ALIGNMENT);
        let mut guard = lock(&core.allocator);
        let allocator = guard.as_mut().ok_or(Error::DeviceLost)?;
        let description = AllocationCreateDesc {
            name: "buffer",
            requirements,
            location,
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        };
        let allocation = allocator.allocate(&description).map_err(|error| match error {
            AllocationError::OutOfMemory => Error::OutOfMemory { bytes },
            error => Error::Allocator(error),
        })?;
        // SAFETY: both are alive and unused; the allocation was made for this buffer's requirements.
        let bound =
            unsafe { core.device.bind_buffer_memory(handle, allocation.memory(), allocation.offset()) };
        match bound {
            Ok(()) => Ok(Self { handle, allocation }),
            Err(result) => {
                free(allocator, allocation);
                Err(Error::of("vkBindBufferMemory")(result))
            }
        }
    }

    /// Destroys the buffer and gives its memory back.
    ///
    /// # Safety
    /// The device does not use the buffer any more.
    pub(crate) unsafe fn destroy(self, device: &ash::Device, allocator: Option<&mut Allocator>) {
        // SAFETY: by this function's contract; `self` is consumed.
        unsafe { device.destroy_buffer(self.handle, None) };
        if let Some(allocator) = allocator {
            free(allocator, self.allocation);
        }
    }

    /// Start of the mapping, where the host may use it without flushes.
    pub(crate) fn mapping(&self) -> Option<*mut u8> {
        let coherent = self.allocation.memory_properties().contains(vk::MemoryPropertyFlags::HOST_COHERENT);
        self.allocation.mapped_ptr().filter(|_| coherent).map(|p| p.as_ptr().cast())
    }
}

fn free(allocator: &mut Allocator, allocation: Allocation) {
    if let Err(error) = allocator.free(allocation) {
        log::error!("device memory could not be freed: {error}");
    }
}

/// A zeroed allocation. Dropping it frees it once no submission in flight uses it.
pub struct Buffer {
    core: Arc<Core>,
    // None only during drop.
    raw: Option<RawBuffer>,
    bytes: u64,
    reserved: u64,
    address: u64,
    writes_map: bool,
    reads_map: bool,
    // Host copies of one buffer exclude each other: writers from everyone, readers from writers.
    host: RwLock<()>,
    /// Timeline value up to which submissions that ended early may still use the buffer.
    busy_until: AtomicU64,
}

impl Buffer {
    pub(crate) fn new(core: &Arc<Core>, bytes: u64, kind: MemoryKind) -> Result<Self, Error> {
        if core.is_lost() {
            return Err(Error::DeviceLost);
        }
        let limit = core.properties.caps.max_allocation_bytes / SIZE_GRAIN * SIZE_GRAIN;
        if bytes == 0 || bytes > limit {
            return Err(Error::Size { bytes, limit });
        }
        let reserved = bytes.next_multiple_of(SIZE_GRAIN);
        core.accounting.reserve(reserved)?;
        let location = match kind {
            MemoryKind::Host => MemoryLocation::GpuToCpu,
            MemoryKind::Device => MemoryLocation::GpuOnly,
            MemoryKind::Shared => MemoryLocation::CpuToGpu,
        };
        let raw =
            RawBuffer::new(core, reserved, location).inspect_err(|_| core.accounting.release(reserved))?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(raw.handle);
        // SAFETY: alive, bound, and made with the device-address usage.
        let address = unsafe { core.device.get_buffer_device_address(&info) };
        let writes_map = raw.mapping().is_some() && !(core.staged && kind != MemoryKind::Host);
        let cached = raw.allocation.memory_properties().contains(vk::MemoryPropertyFlags::HOST_CACHED);
        let buffer = Self {
            core: Arc::clone(core),
            bytes,
            reserved,
            address,
            writes_map,
            reads_map: writes_map && cached,
            raw: Some(raw),
            host: RwLock::new(()),
            busy_until: AtomicU64::new(0),
        };
        if !address.is_multiple_of(REGION_ALIGNMENT) {
            return Err(Error::Plan(format!(
                "the driver placed a buffer at an address that is no multiple of {REGION_ALIGNMENT}"
            )));
        }
        buffer.zero()?;
        Ok(buffer)
    }

    /// Size in bytes, as asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Device address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn belongs_to(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// Copies `data` into the buffer. The caller sees to it that no submission uses the range meanwhile
    /// (otherwise the bytes that the submission sees or leaves are unspecified).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::DeviceLost`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let start = self.check(offset, data.len())?;
        let _exclusive = self.host.write().unwrap_or_else(PoisonError::into_inner);
        match self.mapping().filter(|_| self.writes_map) {
            Some(mapping) => {
                // SAFETY: in range by `check`; exclusive through the lock; `data` is no part of the mapping,
                // which is never lent out.
                unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), mapping.add(start), data.len()) };
                Ok(())
            }
            None => self.stage(|staging, handle| staging.upload(&self.core, handle, offset, data)),
        }
    }

    /// Copies the buffer's bytes out, with the caveat of [`write`](Self::write).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::DeviceLost`].
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        let start = self.check(offset, data.len())?;
        let _shared = self.host.read().unwrap_or_else(PoisonError::into_inner);
        // Reading write-combined memory is slower by orders of magnitude than a copy by the device.
        match self.mapping().filter(|_| self.reads_map) {
            Some(mapping) => {
                // SAFETY: as in `write`; no writer, through the lock.
                unsafe { std::ptr::copy_nonoverlapping(mapping.add(start), data.as_mut_ptr(), data.len()) };
                Ok(())
            }
            None => self.stage(|staging, handle| staging.download(&self.core, handle, offset, data)),
        }
    }

    /// A byte of host memory, read where it lies; the caller knows that no submission writes it now. `None` beyond the
    /// end, and for memory that is not mapped.
    pub(crate) fn byte(&self, offset: u64) -> Option<u8> {
        let at = usize::try_from(offset).ok().filter(|_| offset < self.bytes)?;
        // SAFETY: in range; nobody writes it, by this function's contract.
        self.mapping().map(|mapping| unsafe { mapping.add(at).read_volatile() })
    }

    /// Whether `bytes` from `offset` lie inside.
    pub(crate) fn contains(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::OutOfRange { offset, bytes, size: self.bytes }),
        }
    }

    /// Checks a host range, waits until the host may use it, and gives its start.
    fn check(&self, offset: u64, bytes: usize) -> Result<usize, Error> {
        let bytes = bytes as u64;
        self.contains(offset, bytes)?;
        if self.core.is_lost() {
            return Err(Error::DeviceLost);
        }
        self.settle()?;
        usize::try_from(offset).map_err(|_| Error::OutOfRange { offset, bytes, size: self.bytes })
    }

    /// The device may use the buffer until its timeline reaches `value`, though the submission has ended for
    /// its owner (it was cancelled, or its time ran out).
    pub(crate) fn busy_until(&self, value: u64) {
        self.busy_until.fetch_max(value, Ordering::AcqRel);
    }

    /// Waits for submissions that ended early, so that none of their stores shows up later.
    fn settle(&self) -> Result<(), Error> {
        let lane = &self.core.compute;
        let value = self.busy_until.load(Ordering::Acquire);
        if value <= lane.done.load(Ordering::Acquire) {
            return Ok(());
        }
        self.core.wait(lane, value, self.core.watchdog)?.map(|_| ()).ok_or(Error::DeviceLost)
    }

    fn mapping(&self) -> Option<*mut u8> {
        self.raw.as_ref().and_then(RawBuffer::mapping)
    }

    fn zero(&self) -> Result<(), Error> {
        match (self.mapping().filter(|_| self.writes_map), usize::try_from(self.reserved)) {
            (Some(mapping), Ok(bytes)) => {
                // SAFETY: the allocation has at least `reserved` bytes and nobody else knows it yet.
                unsafe { std::ptr::write_bytes(mapping, 0, bytes) };
                Ok(())
            }
            _ => self.stage(|staging, handle| staging.clear(&self.core, handle)),
        }
    }

    fn stage(&self, work: impl FnOnce(&mut Staging, vk::Buffer) -> Result<(), Error>) -> Result<(), Error> {
        let mut guard = lock(&self.core.staging);
        if guard.is_none() {
            *guard = Some(Staging::new(&self.core)?);
        }
        match (guard.as_mut(), &self.raw) {
            // A transfer that failed half-way leaves none behind, so that the ring and the buffer are idle.
            (Some(staging), Some(raw)) => {
                let result = work(staging, raw.handle);
                if result.is_err() {
                    staging.settle(&self.core);
                }
                result
            }
            _ => Err(Error::DeviceLost),
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.bytes)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.core.accounting.release(self.reserved);
        let Some(raw) = self.raw.take() else { return };
        if self.core.is_hung() {
            std::mem::forget(raw);
            return;
        }
        // SAFETY: idle: jobs in flight hold references, and transfers were waited for.
        unsafe { raw.destroy(&self.core.device, lock(&self.core.allocator).as_mut()) };
    }
}
