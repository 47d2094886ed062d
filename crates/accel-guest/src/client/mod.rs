//! Typed calls over any transport.

mod flight;
mod objects;
mod program;
mod query;
mod run;
mod transfer;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use accel_proto::{
    CONFIG_BYTES, CONFIG_PREFIX_BYTES, Capabilities, ConfigSpace, DeviceInfo, Extensions, FromBytes,
    MemoryDomain, Opcode,
};

pub use objects::{Buffer, Context, Event, Program, Queue};
pub use query::SlotInfo;
pub use run::{EventStatus, Execution, Pending, SlotBinding};

use crate::transport::Transport;
use crate::{Error, Result};
use flight::{Flight, Reply};

/// A driver of one device. Calls may come from several threads at once.
///
/// Objects are ids: dropping one frees nothing, and a device forgets all of them when the transport is
/// dropped or reset.
pub struct Client<T> {
    transport: T,
    config: ConfigSpace,
    info: DeviceInfo,
    timeout: Option<Duration>,
    next_request: AtomicU64,
    next_ring: AtomicUsize,
}

impl<T: Transport> Client<T> {
    /// Reads the device's limits and makes sure that it can be driven.
    ///
    /// # Errors
    /// [`Error::Incompatible`], and whatever GET_DEVICE_INFO fails with.
    pub fn new(transport: T) -> Result<Self> {
        let bytes = transport.config();
        if bytes.len() < CONFIG_PREFIX_BYTES {
            let text = format!("its configuration space has {} bytes instead of 16 or more", bytes.len());
            return Err(Error::Incompatible(text));
        }
        let mut space = [0; CONFIG_BYTES];
        let known = bytes.len().min(CONFIG_BYTES);
        space[..known].copy_from_slice(&bytes[..known]);
        let config = ConfigSpace::read_from_bytes(&space)
            .map_err(|_| Error::Incompatible("its configuration space cannot be read".into()))?;
        if !config.prefix.is_usable() {
            return Err(Error::Incompatible(format!("its configuration space says {:?}", config.prefix)));
        }
        let mut client = Self {
            transport,
            config,
            info: DeviceInfo::default(),
            timeout: Some(Duration::from_secs(300)),
            next_request: AtomicU64::new(1),
            next_ring: AtomicUsize::new(0),
        };
        client.info = client.device_info()?;
        Ok(client)
    }

    /// How long a call waits for its answer before it fails with [`Error::TimedOut`]; `None` is for ever.
    /// At first five minutes, because loading a large program takes long.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Takes the transport out, for example to reset it.
    pub fn into_transport(self) -> T {
        self.transport
    }

    /// The configuration space; the extension block is all zero on a plain 1.0 device.
    pub fn config(&self) -> &ConfigSpace {
        &self.config
    }

    /// Extensions that the device announces.
    pub fn extensions(&self) -> Extensions {
        self.config.extension.announced()
    }

    /// Identity and limits, as read at start.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Command queues in use.
    pub fn rings(&self) -> usize {
        self.transport.queues()
    }

    /// Where to place buffers that are written or read often: the shared domain where the device serves
    /// it, else the host's, else its own.
    pub fn transfer_domain(&self) -> MemoryDomain {
        [MemoryDomain::Shared, MemoryDomain::Host]
            .into_iter()
            .find(|&domain| self.serves(domain))
            .unwrap_or(MemoryDomain::Device)
    }

    /// Whether the device places buffers in a domain.
    pub fn serves(&self, domain: MemoryDomain) -> bool {
        Capabilities::from_bits_retain(self.info.capabilities.get()).contains(domain.capability())
    }

    /// GET_DEVICE_INFO, asked anew.
    ///
    /// # Errors
    /// As every call: a device status, a dead or late device, an unreadable answer.
    pub fn device_info(&self) -> Result<DeviceInfo> {
        self.call(Opcode::GetDeviceInfo, &[], 0, || "its limits were asked for".into())?.read()
    }

    /// Payload bytes that a request can carry after a head of `head` bytes.
    fn request_room(&self, head: usize) -> usize {
        (self.config.prefix.max_request_bytes.get() as usize).saturating_sub(16 + head)
    }

    /// Payload bytes that a response can carry after a head of `head` bytes.
    fn response_room(&self, head: usize) -> usize {
        (self.config.prefix.max_response_bytes.get() as usize).saturating_sub(16 + head)
    }

    fn require(&self, extension: Extensions, opcode: Opcode) -> Result<()> {
        if self.extensions().contains(extension) {
            return Ok(());
        }
        Err(Error::Argument(format!("the device does not announce the extension {opcode}")))
    }

    /// Sends a request and sleeps until its answer. `asked` says in words what was wanted.
    fn call(
        &self,
        opcode: Opcode,
        parts: &[&[u8]],
        requested: usize,
        asked: impl FnOnce() -> String,
    ) -> Result<Reply> {
        self.start(0, opcode, parts, requested, asked())?.finish(self.timeout)
    }

    /// Sends a request on a ring. `requested` is the room for data that READ_BUFFER and QUERY ask for.
    fn start(
        &self,
        ring: usize,
        opcode: Opcode,
        parts: &[&[u8]],
        requested: usize,
        asked: String,
    ) -> Result<Flight<'_, T>> {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        Flight::start(&self.transport, ring, id, opcode, parts, requested, asked)
    }
}
