//! A VMM and its guest: negotiation, shared memory, and split rings written by hand.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::daemon::Daemon;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const VERSION_1: u64 = 1 << 32;
pub const EVENT_IDX: u64 = 1 << 29;
pub const PROTOCOL: u64 = 1 << 30;

/// Guest memory starts here, so that offsets and addresses cannot be confused.
pub const BASE: u64 = 0x4000_0000;
const MEMORY_BYTES: usize = 4 << 20;
/// Entries of each ring.
pub const RING: u16 = 8;
/// Bytes set aside for a queue's rings and buffers.
const QUEUE_BYTES: u64 = 0x10_0000;
/// Where a queue's requests and responses go.
const REQUESTS: u64 = 0x2_0000;
const RESPONSES: u64 = 0x4_0000;
/// Fills responses before they are written.
pub const UNTOUCHED: u8 = 0xaa;

#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub address: u64,
    pub bytes: u32,
    pub flags: u16,
    pub next: u16,
}

pub fn descriptor(address: u64, bytes: u32, flags: u16, next: u16) -> Descriptor {
    Descriptor { address, bytes, flags, next }
}

pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    pub queues: Vec<Queue>,
}

pub struct Queue {
    index: usize,
    pub size: u16,
    pub kick: EventFd,
    pub call: EventFd,
    next_avail: u16,
    next_used: u16,
}

impl Guest {
    /// Connects, negotiates, shares memory and starts every queue.
    pub fn boot(daemon: &Daemon) -> Self {
        Self::boot_with(&daemon.socket(0), VERSION_1 | PROTOCOL)
    }

    pub fn boot_with(socket: &Path, features: u64) -> Self {
        let mut guest = Self::connect(socket, features);
        guest.share_memory().unwrap();
        guest.start_queues();
        guest
    }

    /// Connects and negotiates only.
    pub fn connect(socket: &Path, features: u64) -> Self {
        let mut frontend = Frontend::connect(socket, 16).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        assert_eq!(offered & features, features, "offered {offered:#x}");
        frontend.set_features(features).unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS;
        assert_eq!(protocol, wanted);
        frontend.set_protocol_features(wanted).unwrap();
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        let queues = frontend.get_queue_num().unwrap();
        Self::new(frontend, queues)
    }

    /// A guest with memory and `queues` queues that the front-end has still to tell of.
    pub fn new(frontend: Frontend, queues: u64) -> Self {
        let memory = blank(BASE, MEMORY_BYTES);
        Self { frontend, memory, queues: (0..queues as usize).map(Queue::new).collect() }
    }

    pub fn share_memory(&self) -> vhost::Result<()> {
        self.frontend.set_mem_table(&[region(&self.memory)]).map(|_| ())
    }

    pub fn start_queues(&mut self) {
        for index in 0..self.queues.len() {
            self.start_queue(index).unwrap();
        }
    }

    /// The messages that start a queue, in QEMU's order, over rings that are all zero.
    pub fn start_queue(&mut self, index: usize) -> vhost::Result<()> {
        self.clear_rings(index);
        let queue = &self.queues[index];
        self.frontend.set_vring_num(index, queue.size)?;
        self.frontend.set_vring_base(index, 0)?;
        self.frontend.set_vring_addr(index, &self.rings(index))?;
        self.frontend.set_vring_call(index, &queue.call)?;
        self.frontend.set_vring_kick(index, &queue.kick)?;
        self.frontend.set_vring_enable(index, true)
    }

    /// What a driver does with its rings before it starts them.
    pub fn clear_rings(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        queue.next_avail = 0;
        queue.next_used = 0;
        self.memory.write_slice(&vec![0; REQUESTS as usize], GuestAddress(queue.descriptors())).unwrap();
    }

    /// Where a queue's rings lie, as a front-end tells it.
    pub fn rings(&self, index: usize) -> VringConfigData {
        let queue = &self.queues[index];
        let host = |address| self.memory.get_host_address(GuestAddress(address)).unwrap() as u64;
        VringConfigData {
            queue_max_size: 1024,
            queue_size: queue.size,
            flags: 0,
            desc_table_addr: host(queue.descriptors()),
            used_ring_addr: host(queue.used()),
            avail_ring_addr: host(queue.avail()),
            log_addr: None,
        }
    }

    /// What QEMU sends when the guest reboots.
    pub fn stop_queues(&mut self) {
        for index in 0..self.queues.len() {
            self.frontend.get_vring_base(index).unwrap();
        }
    }

    pub fn config(&mut self, offset: u32, bytes: u32) -> Vec<u8> {
        let blank = vec![0; bytes as usize];
        self.frontend.get_config(offset, bytes, VhostUserConfigFlags::empty(), &blank).unwrap().1
    }

    /// Puts a request into slot `slot` of a queue's buffers and fills the response with [`UNTOUCHED`].
    pub fn place(&self, queue: usize, slot: u16, request: &[u8], room: usize) -> (u64, u64) {
        let base = BASE + queue as u64 * QUEUE_BYTES + u64::from(slot) * 0x4000;
        let (ask, answer) = (base + REQUESTS, base + RESPONSES);
        self.memory.write_slice(request, GuestAddress(ask)).unwrap();
        self.memory.write_slice(&vec![UNTOUCHED; room], GuestAddress(answer)).unwrap();
        (ask, answer)
    }

    /// Makes a chain of one request and one response descriptor available; `slot` is below half the ring's size.
    /// Tells where the response will be.
    pub fn send(&mut self, queue: usize, slot: u16, request: &[u8], room: usize) -> u64 {
        let (ask, answer) = self.place(queue, slot, request, room);
        let head = slot * 2;
        self.write(queue, head, descriptor(ask, request.len() as u32, NEXT, head + 1));
        self.write(queue, head + 1, descriptor(answer, room as u32, WRITE, 0));
        self.push(queue, head);
        answer
    }

    /// Sends one request and waits for the bytes of its response.
    pub fn round_trip(&mut self, queue: usize, request: &[u8], room: usize) -> Vec<u8> {
        let answer = self.send(queue, 0, request, room);
        let (head, bytes) = self.wait_used(queue);
        assert_eq!(head, 0);
        self.read(answer, bytes as usize)
    }

    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        self.memory.read_slice(&mut buffer, GuestAddress(address)).unwrap();
        buffer
    }

    /// Writes entry `index` of a queue's descriptor table.
    pub fn write(&self, queue: usize, index: u16, descriptor: Descriptor) {
        self.write_at(self.queues[queue].descriptors() + u64::from(index) * 16, descriptor);
    }

    pub fn write_at(&self, address: u64, descriptor: Descriptor) {
        let Descriptor { address: buffer, bytes, flags, next } = descriptor;
        let mut raw = buffer.to_le_bytes().to_vec();
        raw.extend(bytes.to_le_bytes());
        raw.extend(flags.to_le_bytes());
        raw.extend(next.to_le_bytes());
        self.memory.write_slice(&raw, GuestAddress(address)).unwrap();
    }

    /// Makes a chain available and kicks.
    pub fn push(&mut self, queue: usize, head: u16) {
        self.push_quietly(queue, head);
        self.queues[queue].kick.write(1).unwrap();
    }

    pub fn push_quietly(&mut self, queue: usize, head: u16) {
        let queue = &mut self.queues[queue];
        let entry = queue.avail() + 4 + u64::from(queue.next_avail % queue.size) * 2;
        self.memory.write_obj(head, GuestAddress(entry)).unwrap();
        queue.next_avail = queue.next_avail.wrapping_add(1);
        self.memory.store(queue.next_avail, GuestAddress(queue.avail() + 2), Ordering::Release).unwrap();
    }

    /// Moves the available index to anywhere.
    pub fn set_avail_index(&mut self, queue: usize, index: u16) {
        self.memory.store(index, GuestAddress(self.queues[queue].avail() + 2), Ordering::Release).unwrap();
        self.queues[queue].kick.write(1).unwrap();
    }

    pub fn set_avail_flags(&self, queue: usize, flags: u16) {
        self.memory.write_obj(flags, GuestAddress(self.queues[queue].avail())).unwrap();
    }

    /// With event index: interrupt when the used index passes `index`.
    pub fn set_used_event(&self, queue: usize, index: u16) {
        let queue = &self.queues[queue];
        let address = queue.avail() + 4 + 2 * u64::from(queue.size);
        self.memory.store(index, GuestAddress(address), Ordering::Release).unwrap();
    }

    /// With event index: the available index at which the device wants a kick.
    pub fn avail_event(&self, queue: usize) -> u16 {
        let queue = &self.queues[queue];
        let address = queue.used() + 4 + 8 * u64::from(queue.size);
        self.memory.load(GuestAddress(address), Ordering::Acquire).unwrap()
    }

    pub fn used_flags(&self, queue: usize) -> u16 {
        self.memory.load(GuestAddress(self.queues[queue].used()), Ordering::Acquire).unwrap()
    }

    pub fn used_index(&self, queue: usize) -> u16 {
        self.memory.load(GuestAddress(self.queues[queue].used() + 2), Ordering::Acquire).unwrap()
    }

    /// Waits for the next completion: the chain's head and the bytes written.
    pub fn wait_used(&mut self, queue: usize) -> (u32, u32) {
        eventually(|| self.used_index(queue) != self.queues[queue].next_used);
        let queue = &mut self.queues[queue];
        let entry = queue.used() + 4 + u64::from(queue.next_used % queue.size) * 8;
        queue.next_used = queue.next_used.wrapping_add(1);
        (
            self.memory.read_obj(GuestAddress(entry)).unwrap(),
            self.memory.read_obj(GuestAddress(entry + 4)).unwrap(),
        )
    }

    /// Interrupts since the last look.
    pub fn interrupts(&self, queue: usize) -> u64 {
        self.queues[queue].call.read().unwrap_or(0)
    }
}

impl Queue {
    fn new(index: usize) -> Self {
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        Self { index, size: RING, kick: event(), call: event(), next_avail: 0, next_used: 0 }
    }

    fn descriptors(&self) -> u64 {
        BASE + self.index as u64 * QUEUE_BYTES
    }

    fn avail(&self) -> u64 {
        self.descriptors() + 0x8000
    }

    fn used(&self) -> u64 {
        self.descriptors() + 0x1_0000
    }
}

/// Memory of zeros in a file of its own.
pub fn blank(base: u64, bytes: usize) -> GuestMemoryMmap {
    let file = tempfile::tempfile().unwrap();
    file.set_len(bytes as u64).unwrap();
    map(file, base, bytes)
}

fn map(file: File, base: u64, bytes: usize) -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges_with_files([(GuestAddress(base), bytes, Some(FileOffset::new(file, 0)))])
        .unwrap()
}

pub fn region(memory: &GuestMemoryMmap) -> VhostUserMemoryRegionInfo {
    let region = memory.iter().next().unwrap();
    let backing = region.file_offset().unwrap();
    VhostUserMemoryRegionInfo {
        guest_phys_addr: memory.iter().next().unwrap().start_addr().0,
        memory_size: region.len(),
        userspace_addr: region.as_ptr() as u64,
        mmap_offset: backing.start(),
        mmap_handle: backing.file().as_raw_fd(),
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it did not happen within ten seconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}
