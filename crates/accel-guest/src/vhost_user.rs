//! The host-side transport: this process plays the virtual machine monitor and the guest in one.
//!
//! It connects to the daemon's socket as a VMM would, shares a memfd as guest memory, and drives the
//! virtqueues itself.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use accel_proto::{CONFIG_BYTES, CONFIG_PREFIX_BYTES, ConfigSpace, FromBytes};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use crate::memory::MemfdMemory;
use crate::queue::{CommandQueue, QueueFeatures};
use crate::transport::{Notifier, Token, Transport, Wake, sleep_milliseconds};
use crate::virtqueue::RingLayout;
use crate::{Error, Result};

/// Where guest memory starts in the guest's view. Not 0, so that a device that mixes offsets and addresses
/// up is found out.
const GUEST_BASE: u64 = 0x1_0000_0000;

/// How to drive the device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Command queues to start at most; as many as the device serves when absent.
    pub queues: Option<usize>,
    /// Entries of each ring; a power of two.
    pub queue_size: u16,
    /// Memory of each queue for requests and responses. Only what is touched is taken.
    pub memory_per_queue: usize,
    /// Use VIRTIO_RING_F_INDIRECT_DESC where it is offered.
    pub indirect: bool,
    /// Use VIRTIO_RING_F_EVENT_IDX where it is offered.
    pub event_idx: bool,
    /// Give up when the device has not answered the set-up by then.
    pub setup_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: None,
            queue_size: 256,
            memory_per_queue: 64 << 20,
            indirect: true,
            event_idx: true,
            setup_timeout: Duration::from_secs(10),
        }
    }
}

/// A queue of this transport.
pub type FrontendQueue = CommandQueue<MemfdMemory, Eventfds>;

/// Transport over a vhost-user socket.
pub struct FrontendTransport {
    frontend: Frontend,
    /// Kept to notice the daemon's end; the front-end owns a clone of it.
    socket: UnixStream,
    options: Options,
    features: u64,
    config: Vec<u8>,
    queues: Vec<FrontendQueue>,
}

impl FrontendTransport {
    /// Connects to a daemon's socket and starts its queues.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::Unanswered`], [`Error::Setup`], [`Error::Incompatible`].
    pub fn connect(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        let connect = |source| Error::Connect { path: path.into(), source };
        Self::from_stream(UnixStream::connect(path).map_err(connect)?, options)
    }

    /// Starts the queues of a daemon at the other end of `socket`.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn from_stream(socket: UnixStream, options: Options) -> Result<Self> {
        let timeout = options.setup_timeout;
        let watched = clone(&socket)?;
        let (finished, watch) = channel::<()>();
        // The vhost crate waits for replies without a limit. Shutting the socket down ends such a wait.
        let watchdog = std::thread::spawn(move || {
            let late = watch.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            if late {
                let _ = watched.shutdown(std::net::Shutdown::Both);
            }
            late
        });
        let result = Self::set_up(socket, options);
        drop(finished);
        let late = watchdog.join().unwrap_or(false);
        if late { Err(Error::Unanswered(timeout)) } else { result }
    }

    fn set_up(socket: UnixStream, options: Options) -> Result<Self> {
        // As many rings as a vhost-user message can name, until the device says how many it has.
        let mut frontend = Frontend::from_stream(clone(&socket)?, 256);
        frontend.set_owner().map_err(step("SET_OWNER"))?;
        let offered = frontend.get_features().map_err(step("GET_FEATURES"))?;
        let required = 1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        if offered & required != required {
            let text = format!("it offers virtio features {offered:#x} and must offer {required:#x}");
            return Err(Error::Incompatible(text));
        }
        let mut wanted = required;
        if options.indirect {
            wanted |= 1 << VIRTIO_RING_F_INDIRECT_DESC;
        }
        if options.event_idx {
            wanted |= 1 << VIRTIO_RING_F_EVENT_IDX;
        }
        let features = offered & wanted;

        let protocol = frontend.get_protocol_features().map_err(step("GET_PROTOCOL_FEATURES"))?
            & (VhostUserProtocolFeatures::CONFIG
                | VhostUserProtocolFeatures::MQ
                | VhostUserProtocolFeatures::REPLY_ACK);
        if !protocol.contains(VhostUserProtocolFeatures::CONFIG) {
            return Err(Error::Incompatible(
                "it has no configuration space (protocol feature CONFIG)".into(),
            ));
        }
        frontend.set_protocol_features(protocol).map_err(step("SET_PROTOCOL_FEATURES"))?;
        if protocol.contains(VhostUserProtocolFeatures::REPLY_ACK) {
            frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        let rings = match protocol.contains(VhostUserProtocolFeatures::MQ) {
            true => frontend.get_queue_num().map_err(step("GET_QUEUE_NUM"))? as usize,
            false => 1,
        };
        let config = read_config(&mut frontend, CONFIG_BYTES)
            .or_else(|_| read_config(&mut frontend, CONFIG_PREFIX_BYTES))
            .map_err(step("GET_CONFIG"))?;

        let mut transport = Self { frontend, socket, options, features, config, queues: Vec::new() };
        transport.start(rings)?;
        Ok(transport)
    }

    /// Shares fresh memory and starts fresh rings.
    fn start(&mut self, rings: usize) -> Result<()> {
        let mut bytes = [0; CONFIG_BYTES];
        bytes[..self.config.len()].copy_from_slice(&self.config);
        let config = ConfigSpace::read_from_bytes(&bytes)
            .map_err(|_| Error::Incompatible("its configuration space is too short".into()))?;
        if !config.prefix.is_usable() {
            let text = format!("its configuration space says {:?}", config.prefix);
            return Err(Error::Incompatible(text));
        }
        let wanted = self.options.queues.unwrap_or(usize::MAX);
        let queues = usize::from(config.extension.queues()).min(rings).min(wanted).max(1);
        let has = |bit: u32| self.features & 1 << bit != 0;
        let queue_features = QueueFeatures {
            indirect: has(VIRTIO_RING_F_INDIRECT_DESC),
            event_idx: has(VIRTIO_RING_F_EVENT_IDX),
            max_chain: config.prefix.max_chain_descriptors.get().into(),
        };

        let ring_bytes = RingLayout::at(0, self.options.queue_size).end();
        let stride = ring_bytes + self.options.memory_per_queue.next_multiple_of(4096);
        let memory = Arc::new(MemfdMemory::new(stride * queues, GUEST_BASE)?);
        self.frontend.set_features(self.features).map_err(step("SET_FEATURES"))?;
        let region = memory.region();
        let user_base = region.as_ptr() as u64;
        self.frontend
            .set_mem_table(&[VhostUserMemoryRegionInfo {
                guest_phys_addr: memory.guest_base(),
                memory_size: region.size() as u64,
                userspace_addr: user_base,
                mmap_offset: 0,
                mmap_handle: region.file_offset().map_or(-1, |file| file.file().as_raw_fd()),
            }])
            .map_err(step("SET_MEM_TABLE"))?;

        for index in 0..queues {
            let layout = RingLayout::at(stride * index, self.options.queue_size);
            let arena = stride * index + ring_bytes..stride * (index + 1);
            let eventfds = Eventfds::new(&self.socket)?;
            let (kick, call) = (clone_eventfd(&eventfds.kick)?, clone_eventfd(&eventfds.call)?);
            // The rings must be in place before the device learns of them.
            let queue = CommandQueue::new(memory.clone(), layout, arena, queue_features, eventfds)?;
            let frontend = &mut self.frontend;
            frontend.set_vring_num(index, layout.size).map_err(step("SET_VRING_NUM"))?;
            frontend
                .set_vring_addr(
                    index,
                    &VringConfigData {
                        queue_max_size: layout.size,
                        queue_size: layout.size,
                        flags: 0,
                        desc_table_addr: user_base + layout.descriptors as u64,
                        used_ring_addr: user_base + layout.used as u64,
                        avail_ring_addr: user_base + layout.available as u64,
                        log_addr: None,
                    },
                )
                .map_err(step("SET_VRING_ADDR"))?;
            frontend.set_vring_base(index, 0).map_err(step("SET_VRING_BASE"))?;
            frontend.set_vring_call(index, &call).map_err(step("SET_VRING_CALL"))?;
            frontend.set_vring_kick(index, &kick).map_err(step("SET_VRING_KICK"))?;
            frontend.set_vring_enable(index, true).map_err(step("SET_VRING_ENABLE"))?;
            self.queues.push(queue);
        }
        Ok(())
    }

    /// Resets the device as a rebooting guest does: every ring stops, all objects are gone, and fresh rings
    /// start. Requests in flight are lost.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn reset(&mut self) -> Result<()> {
        let queues = std::mem::take(&mut self.queues);
        for index in 0..queues.len() {
            self.frontend.set_vring_enable(index, false).map_err(step("SET_VRING_ENABLE"))?;
            self.frontend.get_vring_base(index).map_err(step("GET_VRING_BASE"))?;
        }
        self.start(queues.len())
    }

    /// A queue with its raw entry points, for tests that attack a device.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`].
    pub fn queue(&self, queue: usize) -> Result<&FrontendQueue> {
        self.queues.get(queue).ok_or(Error::NoSuchQueue { queue, queues: self.queues.len() })
    }

    /// The vhost-user front-end, for tests that send messages of their own.
    pub fn frontend(&mut self) -> &mut Frontend {
        &mut self.frontend
    }

    /// The virtio features in use.
    pub fn features(&self) -> u64 {
        self.features
    }
}

impl Transport for FrontendTransport {
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

/// Kick and call eventfds of a ring, and the socket whose end means that no call will come.
pub struct Eventfds {
    kick: EventFd,
    call: EventFd,
    epoll: Epoll,
}

impl Eventfds {
    fn new(socket: &UnixStream) -> Result<Self> {
        let eventfd =
            || EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC).map_err(system("make an eventfd"));
        let (kick, call) = (eventfd()?, eventfd()?);
        let epoll = Epoll::new().map_err(system("make an epoll instance"))?;
        let add = |fd, events, data| {
            epoll
                .ctl(ControlOperation::Add, fd, EpollEvent::new(events, data))
                .map_err(system("watch the device's notifications"))
        };
        add(call.as_raw_fd(), EventSet::IN, CALL)?;
        add(socket.as_raw_fd(), EventSet::READ_HANG_UP, SOCKET)?;
        Ok(Self { kick, call, epoll })
    }
}

const CALL: u64 = 0;
const SOCKET: u64 = 1;

impl Notifier for Eventfds {
    fn kick(&self) -> Result<()> {
        self.kick.write(1).map_err(system("kick the device"))
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<Wake> {
        let mut events = [EpollEvent::default(); 2];
        let ready = match self.epoll.wait(sleep_milliseconds(timeout), &mut events) {
            Ok(ready) => ready,
            // A signal: the caller looks at its deadline and sleeps again.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Wake::TimedOut),
            Err(error) => return Err(system("wait for the device")(error)),
        };
        let mut wake = Wake::TimedOut;
        for event in &events[..ready] {
            if event.data() == SOCKET {
                return Ok(Wake::Gone);
            }
            // Only resets the counter; what happened is in the ring.
            let _ = self.call.read();
            wake = Wake::Notified;
        }
        Ok(wake)
    }
}

fn read_config(frontend: &mut Frontend, bytes: usize) -> vhost::Result<Vec<u8>> {
    let flags = VhostUserConfigFlags::WRITABLE;
    frontend.get_config(0, bytes as u32, flags, &vec![0; bytes]).map(|(_, payload)| payload)
}

fn clone(socket: &UnixStream) -> Result<UnixStream> {
    socket.try_clone().map_err(system("duplicate the socket"))
}

fn clone_eventfd(eventfd: &EventFd) -> Result<EventFd> {
    eventfd.try_clone().map_err(system("duplicate an eventfd"))
}

fn step(step: &'static str) -> impl Fn(vhost::Error) -> Error {
    move |source| Error::Setup { step, source }
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}
