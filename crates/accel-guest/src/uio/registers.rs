//! The device's registers: memory-mapped, every access exactly as wide as the register.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vm_memory::{AtomicAccess, Bytes, FileOffset, MmapRegion, VolatileMemory};

use super::pci::{Capabilities, Function, Range};
use crate::{Error, Result};

const DEVICE_FEATURE_SELECT: usize = 0;
const DEVICE_FEATURE: usize = 4;
const DRIVER_FEATURE_SELECT: usize = 8;
const DRIVER_FEATURE: usize = 12;
const NUM_QUEUES: usize = 18;
const STATUS: usize = 20;
const GENERATION: usize = 21;
const QUEUE_SELECT: usize = 22;
const QUEUE_SIZE: usize = 24;
const QUEUE_ENABLE: usize = 28;
const QUEUE_NOTIFY_OFFSET: usize = 30;
/// Addresses of descriptor table, available ring and used ring.
const QUEUE_ADDRESSES: [usize; 3] = [32, 40, 48];

/// Bits of the device status.
pub mod status {
    pub const ACKNOWLEDGE: u8 = 1;
    pub const DRIVER: u8 = 2;
    pub const DRIVER_OK: u8 = 4;
    pub const FEATURES_OK: u8 = 8;
}

const RESET: Duration = Duration::from_secs(5);

/// A mapped range of registers.
pub struct Window {
    bar: Arc<MmapRegion>,
    offset: usize,
    length: usize,
}

impl Window {
    /// Reads a register.
    pub fn read<T: AtomicAccess>(&self, at: usize) -> Result<T> {
        // An atomic access is one instruction of the register's width that the compiler neither splits nor drops.
        self.bar.as_volatile_slice().load(self.offset.saturating_add(at), Ordering::Acquire).map_err(outside)
    }

    /// Writes a register. What was written to memory before is there for the device.
    pub fn write<T: AtomicAccess>(&self, at: usize, value: T) -> Result<()> {
        let at = self.offset.saturating_add(at);
        self.bar.as_volatile_slice().store(value, at, Ordering::Release).map_err(outside)
    }
}

/// Notification register of a queue.
pub struct Doorbell {
    window: Window,
    queue: u16,
}

impl Doorbell {
    /// Tells the device to look at the queue.
    pub fn ring(&self) -> Result<()> {
        self.window.write(0, self.queue.to_le())
    }
}

/// All registers of a device.
pub struct Registers {
    bars: HashMap<u8, Arc<MmapRegion>>,
    capabilities: Capabilities,
    common: Window,
    device: Window,
}

impl Registers {
    /// Maps them.
    pub fn map(function: &Function) -> Result<Self> {
        let capabilities = function.capabilities()?;
        let mut bars = HashMap::new();
        for range in [capabilities.common, capabilities.notify, capabilities.isr, capabilities.device] {
            if let Entry::Vacant(free) = bars.entry(range.bar) {
                free.insert(Arc::new(map(function, range.bar)?));
            }
        }
        let common = window(&bars, capabilities.common)?;
        let device = window(&bars, capabilities.device)?;
        Ok(Self { bars, capabilities, common, device })
    }

    /// The interrupt status, which a read clears.
    pub fn isr(&self) -> Result<Window> {
        window(&self.bars, self.capabilities.isr)
    }

    /// Stops the device and waits until it has.
    pub fn reset(&self) -> Result<()> {
        self.common.write(STATUS, 0u8)?;
        let start = Instant::now();
        while self.status()? != 0 {
            if start.elapsed() > RESET {
                return Err(Error::Incompatible(format!("it did not reset within {} s", RESET.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Status bits.
    pub fn status(&self) -> Result<u8> {
        self.common.read(STATUS)
    }

    /// Sets further status bits.
    pub fn add_status(&self, bits: u8) -> Result<()> {
        self.common.write(STATUS, self.status()? | bits)
    }

    /// Features that the device offers.
    pub fn features(&self) -> Result<u64> {
        let mut features = 0;
        for word in 0..2u32 {
            self.common.write(DEVICE_FEATURE_SELECT, word.to_le())?;
            features |= u64::from(u32::from_le(self.common.read(DEVICE_FEATURE)?)) << (32 * word);
        }
        Ok(features)
    }

    /// Features that the driver uses.
    pub fn set_features(&self, features: u64) -> Result<()> {
        for word in 0..2u32 {
            self.common.write(DRIVER_FEATURE_SELECT, word.to_le())?;
            self.common.write(DRIVER_FEATURE, ((features >> (32 * word)) as u32).to_le())?;
        }
        Ok(())
    }

    /// The first `bytes` of the device's configuration space, or as many as it has, in whole words.
    pub fn config(&self, bytes: usize) -> Result<Vec<u8>> {
        loop {
            let generation: u8 = self.common.read(GENERATION)?;
            let mut config = Vec::new();
            for at in (0..bytes.min(self.device.length) & !3).step_by(4) {
                config.extend(self.device.read::<u32>(at)?.to_ne_bytes());
            }
            if self.common.read::<u8>(GENERATION)? == generation {
                return Ok(config);
            }
        }
    }

    /// Queues that the device has.
    pub fn queues(&self) -> Result<u16> {
        self.common.read(NUM_QUEUES).map(u16::from_le)
    }

    /// Most entries that a queue may have.
    pub fn queue_size(&self, queue: u16) -> Result<u16> {
        self.common.write(QUEUE_SELECT, queue.to_le())?;
        self.common.read(QUEUE_SIZE).map(u16::from_le)
    }

    /// Starts a queue whose parts lie at `addresses`.
    pub fn start_queue(&self, queue: u16, size: u16, addresses: [u64; 3]) -> Result<Doorbell> {
        self.common.write(QUEUE_SELECT, queue.to_le())?;
        self.common.write(QUEUE_SIZE, size.to_le())?;
        for (at, address) in QUEUE_ADDRESSES.into_iter().zip(addresses) {
            self.common.write(at, (address as u32).to_le())?;
            self.common.write(at + 4, ((address >> 32) as u32).to_le())?;
        }
        let notify: u16 = self.common.read(QUEUE_NOTIFY_OFFSET)?;
        let step = usize::from(u16::from_le(notify)).saturating_mul(self.capabilities.notify_step);
        let range = self.capabilities.notify;
        if step.saturating_add(2) > range.length {
            return Err(Error::Incompatible(format!("queue {queue} has its doorbell outside the registers")));
        }
        let range = Range { offset: range.offset.saturating_add(step), length: 2, ..range };
        let window = window(&self.bars, range)?;
        self.common.write(QUEUE_ENABLE, 1u16.to_le())?;
        Ok(Doorbell { window, queue })
    }
}

fn map(function: &Function, bar: u8) -> Result<MmapRegion> {
    let what = "map the device's registers; this needs root and a kernel that is not locked down";
    let system = |source| Error::System { what, source };
    let file = File::options().read(true).write(true).open(function.bar(bar)).map_err(system)?;
    let length = file.metadata().map_err(system)?.len() as usize;
    MmapRegion::from_file(FileOffset::new(file, 0), length).map_err(std::io::Error::other).map_err(system)
}

fn window(bars: &HashMap<u8, Arc<MmapRegion>>, range: Range) -> Result<Window> {
    let bar = bars
        .get(&range.bar)
        .filter(|bar| range.offset.checked_add(range.length).is_some_and(|end| end <= bar.size()));
    let bar =
        bar.ok_or_else(|| Error::Incompatible("its registers lie outside its memory regions".into()))?;
    Ok(Window { bar: bar.clone(), offset: range.offset, length: range.length })
}

fn outside(_: vm_memory::VolatileMemoryError) -> Error {
    Error::Incompatible("a register lies outside its memory region, or across two words".into())
}
