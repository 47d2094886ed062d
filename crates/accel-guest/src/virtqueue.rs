//! The driver's side of a split virtqueue (virtio 1.3, section 2.7), on any shared memory.
//!
//! What the driver must know of its own descriptors is kept outside the shared memory, so a device that
//! scribbles over the table can spoil its own requests but not the driver.

use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::{
    VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE, VRING_USED_F_NO_NOTIFY,
};
use vm_memory::{Bytes, VolatileSlice};

use crate::{Error, Result};

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;

const PAGE: usize = 4096;

/// Where the three parts of a ring lie, as offsets in the shared memory. Each starts a page, so that none
/// of them is split where the device's view of memory is contiguous only within pages (up to 256 entries).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Entries; a power of two.
    pub size: u16,
    /// Descriptor table.
    pub descriptors: usize,
    /// Available ring.
    pub available: usize,
    /// Used ring.
    pub used: usize,
}

impl RingLayout {
    /// Lays a ring of `size` entries out from `start`, a multiple of the page size.
    pub fn at(start: usize, size: u16) -> Self {
        let entries = usize::from(size);
        let available = (start + DESCRIPTOR_BYTES * entries).next_multiple_of(PAGE);
        let used = (available + 6 + 2 * entries).next_multiple_of(PAGE);
        Self { size, descriptors: start, available, used }
    }

    /// First page after the ring.
    pub fn end(&self) -> usize {
        (self.used + 6 + 8 * usize::from(self.size)).next_multiple_of(PAGE)
    }

    /// Offset of the used ring's `avail_event`.
    fn avail_event(&self) -> usize {
        self.used + 4 + 8 * usize::from(self.size)
    }

    /// Offset of the available ring's `used_event`.
    fn used_event(&self) -> usize {
        self.available + 4 + 2 * usize::from(self.size)
    }
}

/// A piece of a chain, in the device's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// The device writes it.
    pub writable: bool,
}

/// What the device returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Head of the chain as the device wrote it.
    pub head: u32,
    /// Bytes written, as the device claims.
    pub len: u32,
}

/// The driver's state of one ring.
#[derive(Debug)]
pub struct Virtqueue {
    layout: RingLayout,
    event_idx: bool,
    free: Vec<u16>,
    /// Further descriptors of the chain that starts at the index; empty for a single descriptor.
    tails: Vec<Vec<u16>>,
    next_available: u16,
    /// `next_available` when the device was last kicked.
    kicked: u16,
    last_used: u16,
}

impl Virtqueue {
    /// Clears the ring's memory and starts at index 0.
    ///
    /// # Errors
    /// [`Error::Ring`] when the layout does not fit the memory.
    pub fn new(memory: VolatileSlice<'_>, layout: RingLayout, event_idx: bool) -> Result<Self> {
        let zeros = vec![0; layout.end() - layout.descriptors];
        memory.write_slice(&zeros, layout.descriptors).map_err(outside)?;
        Ok(Self {
            layout,
            event_idx,
            free: (0..layout.size).rev().collect(),
            tails: vec![Vec::new(); usize::from(layout.size)],
            next_available: 0,
            kicked: 0,
            last_used: 0,
        })
    }

    /// Descriptors that a chain may take now.
    pub fn free_descriptors(&self) -> usize {
        self.free.len()
    }

    /// Writes a chain into the table and returns its head; nothing is published yet.
    ///
    /// # Errors
    /// [`Error::Ring`] when the table has too few free descriptors (see [`Self::free_descriptors`]).
    pub fn add(&mut self, memory: VolatileSlice<'_>, chain: &[Descriptor]) -> Result<u16> {
        if chain.is_empty() || chain.len() > self.free.len() {
            return Err(Error::Ring("the chain does not fit the descriptor table"));
        }
        let taken = self.free.split_off(self.free.len() - chain.len());
        for (at, (piece, &index)) in chain.iter().zip(&taken).enumerate() {
            let next = taken.get(at + 1).copied();
            let offset = self.layout.descriptors + DESCRIPTOR_BYTES * usize::from(index);
            write_descriptor(memory, offset, piece, next)?;
        }
        self.tails[usize::from(taken[0])] = taken[1..].to_vec();
        Ok(taken[0])
    }

    /// Adds a chain that lies in an indirect table of `entries` at `address`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_indirect(&mut self, memory: VolatileSlice<'_>, address: u64, entries: usize) -> Result<u16> {
        let index = self.free.pop().ok_or(Error::Ring("the chain does not fit the descriptor table"))?;
        let offset = self.layout.descriptors + DESCRIPTOR_BYTES * usize::from(index);
        let len = (entries * DESCRIPTOR_BYTES) as u32;
        put_descriptor(memory, offset, address, len, VRING_DESC_F_INDIRECT as u16, 0)?;
        Ok(index)
    }

    /// Hands a head to the device; `true` when the device wants a kick.
    ///
    /// # Errors
    /// [`Error::Ring`] when the layout does not fit the memory.
    pub fn publish(&mut self, memory: VolatileSlice<'_>, head: u16) -> Result<bool> {
        let slot = usize::from(self.next_available % self.layout.size);
        memory.write_obj(head.to_le(), self.layout.available + 4 + 2 * slot).map_err(outside)?;
        self.next_available = self.next_available.wrapping_add(1);
        self.announce(memory)
    }

    /// Stores the available index and decides on a kick.
    fn announce(&mut self, memory: VolatileSlice<'_>) -> Result<bool> {
        // Release: the device that sees the index sees the entry and the descriptors.
        memory
            .store(self.next_available.to_le(), self.layout.available + 2, Ordering::Release)
            .map_err(outside)?;
        // The index must be visible before the device's wish is read, or both sides may sleep.
        fence(Ordering::SeqCst);
        let kick = if self.event_idx {
            let event: u16 = memory.load(self.layout.avail_event(), Ordering::Relaxed).map_err(outside)?;
            needs_event(u16::from_le(event), self.next_available, self.kicked)
        } else {
            let flags: u16 = memory.load(self.layout.used, Ordering::Relaxed).map_err(outside)?;
            u32::from(u16::from_le(flags)) & VRING_USED_F_NO_NOTIFY == 0
        };
        if kick {
            self.kicked = self.next_available;
        }
        Ok(kick)
    }

    /// The next used element, if there is one. The caller frees the chain with [`Self::release`].
    ///
    /// # Errors
    /// [`Error::Ring`] when the device's index runs ahead of what was published.
    pub fn pop_used(&mut self, memory: VolatileSlice<'_>) -> Result<Option<Used>> {
        let index: u16 = memory.load(self.layout.used + 2, Ordering::Acquire).map_err(outside)?;
        let ready = u16::from_le(index).wrapping_sub(self.last_used);
        if ready == 0 {
            return Ok(None);
        }
        if ready > self.layout.size {
            return Err(Error::Ring("the used index ran ahead of the ring"));
        }
        let slot = self.layout.used + 4 + 8 * usize::from(self.last_used % self.layout.size);
        let head: u32 = memory.read_obj(slot).map_err(outside)?;
        let len: u32 = memory.read_obj(slot + 4).map_err(outside)?;
        self.last_used = self.last_used.wrapping_add(1);
        Ok(Some(Used { head: u32::from_le(head), len: u32::from_le(len) }))
    }

    /// Asks for a notification at the next used element. `true` when one arrived meanwhile, for which no
    /// notification may come: look again.
    ///
    /// # Errors
    /// [`Error::Ring`] when the layout does not fit the memory.
    pub fn arm(&mut self, memory: VolatileSlice<'_>) -> Result<bool> {
        if self.event_idx {
            memory
                .store(self.last_used.to_le(), self.layout.used_event(), Ordering::Release)
                .map_err(outside)?;
            fence(Ordering::SeqCst);
        }
        let index: u16 = memory.load(self.layout.used + 2, Ordering::Acquire).map_err(outside)?;
        Ok(u16::from_le(index) != self.last_used)
    }

    /// Takes the descriptors of a chain back.
    pub fn release(&mut self, head: u16) {
        let tail = std::mem::take(&mut self.tails[usize::from(head)]);
        self.free.push(head);
        self.free.extend(tail);
    }

    /// Writes one entry of the table, fields as they are. For tests of devices.
    ///
    /// # Errors
    /// [`Error::Ring`] when the entry lies outside the memory.
    pub fn write_raw(
        &mut self,
        memory: VolatileSlice<'_>,
        index: u16,
        address: u64,
        len: u32,
        flags: u16,
        next: u16,
    ) -> Result<()> {
        let offset = self.layout.descriptors + DESCRIPTOR_BYTES * usize::from(index);
        put_descriptor(memory, offset, address, len, flags, next)
    }

    /// Writes an available entry and advances the index by `advance`, whatever that means to the device.
    /// For tests of devices.
    ///
    /// # Errors
    /// [`Error::Ring`] when the layout does not fit the memory.
    pub fn publish_raw(&mut self, memory: VolatileSlice<'_>, head: u16, advance: u16) -> Result<()> {
        let slot = usize::from(self.next_available % self.layout.size);
        memory.write_obj(head.to_le(), self.layout.available + 4 + 2 * slot).map_err(outside)?;
        self.next_available = self.next_available.wrapping_add(advance);
        self.announce(memory).map(drop)
    }
}

/// Whether an index that moved from `old` to `new` passed `event` (virtio 1.3, section 2.7.10).
fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// Writes a descriptor of a chain; also used for indirect tables, whose `next` counts within the table.
pub(crate) fn write_descriptor(
    memory: VolatileSlice<'_>,
    offset: usize,
    piece: &Descriptor,
    next: Option<u16>,
) -> Result<()> {
    let write = if piece.writable { VRING_DESC_F_WRITE } else { 0 };
    let chained = if next.is_some() { VRING_DESC_F_NEXT } else { 0 };
    put_descriptor(memory, offset, piece.address, piece.len, (write | chained) as u16, next.unwrap_or(0))
}

/// Writes a descriptor's four fields.
pub(crate) fn put_descriptor(
    memory: VolatileSlice<'_>,
    offset: usize,
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
) -> Result<()> {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    memory.write_slice(&bytes, offset).map_err(outside)
}

fn outside(_: vm_memory::VolatileMemoryError) -> Error {
    Error::Ring("the ring lies outside the shared memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{DeviceMemory, MemfdMemory};

    fn ring(size: u16, event_idx: bool) -> (MemfdMemory, Virtqueue) {
        let memory = MemfdMemory::new(1 << 20, 0x1000).unwrap();
        let queue = Virtqueue::new(memory.bytes(), RingLayout::at(0, size), event_idx).unwrap();
        (memory, queue)
    }

    /// Plays the device: returns `head` as used.
    fn complete(memory: &MemfdMemory, layout: RingLayout, at: u16, head: u32, len: u32) {
        let slot = layout.used + 4 + 8 * usize::from(at % layout.size);
        memory.bytes().write_obj(head.to_le(), slot).unwrap();
        memory.bytes().write_obj(len.to_le(), slot + 4).unwrap();
        memory.bytes().store((at.wrapping_add(1)).to_le(), layout.used + 2, Ordering::Release).unwrap();
    }

    #[test]
    fn the_event_rule_matches_the_specification_across_the_wrap() {
        assert!(needs_event(0, 1, 0));
        assert!(!needs_event(1, 1, 0));
        assert!(needs_event(0xffff, 0, 0xffff));
        assert!(!needs_event(5, 4, 3));
        assert!(needs_event(3, 0x10, 2));
    }

    #[test]
    fn parts_of_a_ring_lie_apart() {
        for size in [1, 2, 256, 1024] {
            let layout = RingLayout::at(8192, size);
            let entries = usize::from(size);
            assert!(layout.descriptors + 16 * entries <= layout.available);
            assert!(layout.used_event() + 2 <= layout.used);
            assert!(layout.avail_event() + 2 <= layout.end());
        }
    }

    #[test]
    fn a_chain_is_linked_and_comes_back_whole_through_many_wraps() {
        let (memory, mut queue) = ring(4, false);
        let layout = queue.layout;
        let chain = [
            Descriptor { address: 0x10, len: 1, writable: false },
            Descriptor { address: 0x20, len: 2, writable: false },
            Descriptor { address: 0x30, len: 3, writable: true },
        ];
        for turn in 0..70_000u32 {
            let head = queue.add(memory.bytes(), &chain).unwrap();
            assert!(queue.publish(memory.bytes(), head).unwrap());
            assert_eq!(queue.free_descriptors(), 1);
            assert!(queue.add(memory.bytes(), &chain).is_err());
            complete(&memory, layout, turn as u16, u32::from(head), 7);
            assert_eq!(queue.pop_used(memory.bytes()).unwrap(), Some(Used { head: head.into(), len: 7 }));
            assert_eq!(queue.pop_used(memory.bytes()).unwrap(), None);
            queue.release(head);
            assert_eq!(queue.free_descriptors(), 4);
        }
    }

    #[test]
    fn the_table_holds_flags_and_links_of_the_chain() {
        let (memory, mut queue) = ring(4, false);
        let chain = [
            Descriptor { address: 0x1122, len: 5, writable: false },
            Descriptor { address: 0x3344, len: 6, writable: true },
        ];
        let head = usize::from(queue.add(memory.bytes(), &chain).unwrap());
        let read = |index: usize| {
            let mut bytes = [0; 16];
            memory.bytes().read_slice(&mut bytes, 16 * index).unwrap();
            bytes
        };
        let first = read(head);
        assert_eq!(first[..8], 0x1122u64.to_le_bytes());
        assert_eq!(first[8..12], 5u32.to_le_bytes());
        assert_eq!(first[12..14], 1u16.to_le_bytes(), "NEXT");
        let second = read(usize::from(u16::from_le_bytes([first[14], first[15]])));
        assert_eq!(second[..8], 0x3344u64.to_le_bytes());
        assert_eq!(second[12..], [2, 0, 0, 0], "WRITE, no NEXT");
    }

    #[test]
    fn with_event_idx_a_kick_waits_for_the_device_to_ask() {
        let (memory, mut queue) = ring(8, true);
        let piece = [Descriptor { address: 0, len: 1, writable: true }];
        let push = |queue: &mut Virtqueue| {
            let head = queue.add(memory.bytes(), &piece).unwrap();
            queue.publish(memory.bytes(), head).unwrap()
        };
        assert!(push(&mut queue), "avail_event 0 asks for the first entry");
        assert!(!push(&mut queue), "the device has not asked again");
        let event = queue.layout.avail_event();
        memory.bytes().store(2u16.to_le(), event, Ordering::Relaxed).unwrap();
        assert!(push(&mut queue), "it asked to hear of entry 2");
    }

    #[test]
    fn arming_notices_an_element_that_slipped_in() {
        let (memory, mut queue) = ring(8, true);
        let layout = queue.layout;
        assert!(!queue.arm(memory.bytes()).unwrap());
        let head = queue.add(memory.bytes(), &[Descriptor { address: 0, len: 1, writable: true }]).unwrap();
        queue.publish(memory.bytes(), head).unwrap();
        complete(&memory, layout, 0, head.into(), 0);
        assert!(queue.arm(memory.bytes()).unwrap());
    }

    #[test]
    fn a_used_index_that_runs_ahead_is_an_error() {
        let (memory, mut queue) = ring(4, false);
        memory.bytes().store(9u16.to_le(), queue.layout.used + 2, Ordering::Release).unwrap();
        assert!(matches!(queue.pop_used(memory.bytes()), Err(Error::Ring(_))));
    }
}
