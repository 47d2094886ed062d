//! The transport for a guest without our kernel module: this process is the driver, over `uio_pci_generic`.
//!
//! For bringing a device up and for tests. It needs root, and nothing stands between the device and physical memory: a defect here,
//! or in anything that drives the device through it, can overwrite the guest's kernel. Programs for users go through
//! the kernel module.
//!
//! The device has one interrupt line (INTx), which `uio_pci_generic` closes at each interrupt and which is opened again
//! before each sleep; it stays raised until its status register is read, so no notification is lost in between.

mod dma;
mod pci;
mod registers;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use accel_proto::{CONFIG_BYTES, ConfigSpace, FromBytes};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use crate::memory::DeviceMemory;
use crate::queue::{CommandQueue, QueueFeatures};
use crate::transport::{Notifier, Token, Transport, Wake, sleep_milliseconds};
use crate::virtqueue::RingLayout;
use crate::{Error, Result};
use dma::{DmaMemory, HUGE};
use pci::Function;
use registers::{Doorbell, Registers, Window, status};

/// How to drive the device.
#[derive(Clone, Debug)]
pub struct UioOptions {
    /// PCI address, as `0000:01:00.0`; the first virtio device that `uio_pci_generic` holds when absent.
    pub address: Option<String>,
    /// Command queues to start at most; as many as the device serves when absent.
    pub queues: Option<usize>,
    /// Memory of each queue for requests and responses, taken from huge pages at once.
    pub memory_per_queue: usize,
}

impl Default for UioOptions {
    fn default() -> Self {
        // A request and a response of 16 MiB, the longest there are, with some air.
        Self { address: None, queues: None, memory_per_queue: 36 << 20 }
    }
}

/// A device that `uio_pci_generic` holds.
pub struct UioTransport {
    registers: Registers,
    queues: Vec<CommandQueue<DmaMemory, Interrupt>>,
    config: Vec<u8>,
}

impl UioTransport {
    /// Resets the device and starts it.
    ///
    /// # Errors
    /// [`Error::System`] without root, huge pages or a kernel that allows it; [`Error::Incompatible`].
    pub fn open(options: &UioOptions) -> Result<Self> {
        let function = Arc::new(Function::find(options.address.as_deref())?);
        let registers = Registers::map(&function)?;
        registers.reset()?;
        registers.add_status(status::ACKNOWLEDGE)?;
        registers.add_status(status::DRIVER)?;
        let (offered, required) = (registers.features()?, 1 << VIRTIO_F_VERSION_1);
        if offered & required == 0 {
            return Err(Error::Incompatible(format!(
                "it offers virtio features {offered:#x}, without VERSION_1"
            )));
        }
        let event_idx = 1 << VIRTIO_RING_F_EVENT_IDX;
        // No indirect tables: where huge pages do not follow each other, one could lie across two.
        let features = offered & (required | event_idx);
        registers.set_features(features)?;
        registers.add_status(status::FEATURES_OK)?;
        if registers.status()? & status::FEATURES_OK == 0 {
            return Err(Error::Incompatible(format!("it refuses the virtio features {features:#x}")));
        }
        let config = registers.config(CONFIG_BYTES)?;
        let mut transport = Self { registers, queues: Vec::new(), config };
        transport.start(&function, options, features & event_idx != 0)?;
        Ok(transport)
    }

    fn start(&mut self, function: &Arc<Function>, options: &UioOptions, event_idx: bool) -> Result<()> {
        let mut bytes = [0; CONFIG_BYTES];
        bytes[..self.config.len()].copy_from_slice(&self.config);
        let config = ConfigSpace::read_from_bytes(&bytes)
            .map_err(|_| Error::Incompatible("its configuration space is too short".into()))?;
        if !config.prefix.is_usable() {
            let text = format!("its configuration space says {:?}", config.prefix);
            return Err(Error::Incompatible(text));
        }
        let wanted = options.queues.unwrap_or(usize::MAX).min(self.registers.queues()?.into());
        let queues = usize::from(config.extension.queues()).min(wanted).max(1);
        let features = QueueFeatures {
            indirect: false,
            event_idx,
            max_chain: config.prefix.max_chain_descriptors.get().into(),
        };
        let node = function.node()?;
        // A ring and its memory start a huge page, so no part of a ring lies across two.
        let ring_bytes = RingLayout::at(0, RING).end();
        let stride = (ring_bytes + options.memory_per_queue).next_multiple_of(HUGE);
        let memory = Arc::new(DmaMemory::new(stride * queues)?);
        for index in 0..queues {
            let size = self.registers.queue_size(index as u16)?.min(RING);
            if !size.is_power_of_two() {
                return Err(Error::Incompatible(format!(
                    "queue {index} takes {size} entries, no power of two"
                )));
            }
            let layout = RingLayout::at(stride * index, size);
            let parts = [layout.descriptors, layout.available, layout.used];
            let addresses = parts.map(|part| memory.device_address(part).0);
            let doorbell = self.registers.start_queue(index as u16, size, addresses)?;
            let notifier = Interrupt::new(function.clone(), &node, self.registers.isr()?, doorbell)?;
            let arena = stride * index + ring_bytes..stride * (index + 1);
            self.queues.push(CommandQueue::new(memory.clone(), layout, arena, features, notifier)?);
        }
        // Opening the node allowed the device nothing yet.
        function.enable()?;
        self.registers.add_status(status::DRIVER_OK)
    }

    fn queue(&self, queue: usize) -> Result<&CommandQueue<DmaMemory, Interrupt>> {
        self.queues.get(queue).ok_or(Error::NoSuchQueue { queue, queues: self.queues.len() })
    }
}

/// Entries of a ring; each part of it fills at most a page.
const RING: u16 = 256;

impl Drop for UioTransport {
    fn drop(&mut self) {
        // The device must be off our memory before that is unmapped.
        if let Err(error) = self.registers.reset() {
            log::warn!("the device could not be stopped: {error}");
        }
    }
}

impl Transport for UioTransport {
    fn config(&self) -> &[u8] {
        &self.config
    }

    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn submit(&self, queue: usize, request: &[&[u8]], response_capacity: usize) -> Result<Token> {
        let id = self.queue(queue)?.submit(request, response_capacity)?;
        Ok(Token { queue, id })
    }

    fn wait(&self, token: Token, timeout: Option<Duration>) -> Result<Vec<u8>> {
        self.queue(token.queue)?.wait(token.id, timeout)
    }

    fn forget(&self, token: Token) {
        if let Ok(queue) = self.queue(token.queue) {
            queue.forget(token.id);
        }
    }
}

/// The interrupt line as one queue sees it. Each has the node open by itself, and so its own count of interrupts: all queues
/// wake at each.
struct Interrupt {
    function: Arc<Function>,
    node: File,
    epoll: Epoll,
    isr: Window,
    doorbell: Doorbell,
}

impl Interrupt {
    fn new(function: Arc<Function>, node: &str, isr: Window, doorbell: Doorbell) -> Result<Self> {
        let node = File::open(format!("/dev/{node}")).map_err(system("open the device's UIO node"))?;
        let watch = system("watch the device's interrupt");
        let epoll = Epoll::new().map_err(&watch)?;
        epoll
            .ctl(ControlOperation::Add, node.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))
            .map_err(&watch)?;
        Ok(Self { function, node, epoll, isr, doorbell })
    }
}

impl Notifier for Interrupt {
    fn kick(&self) -> Result<()> {
        self.doorbell.ring()
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<Wake> {
        // Without its configuration space the device was unplugged.
        if self.function.enable().is_err() {
            return Ok(Wake::Gone);
        }
        let mut events = [EpollEvent::default()];
        match self.epoll.wait(sleep_milliseconds(timeout), &mut events) {
            Ok(0) => return Ok(Wake::TimedOut),
            Ok(_) => {}
            // A signal: the caller looks at its deadline and sleeps again.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Wake::TimedOut),
            Err(error) => return Err(system("wait for the device")(error)),
        }
        // Fails once the device is unplugged.
        if (&self.node).read_exact(&mut [0; 4]).is_err() {
            return Ok(Wake::Gone);
        }
        self.isr.read::<u8>(0)?;
        Ok(Wake::Notified)
    }
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}
