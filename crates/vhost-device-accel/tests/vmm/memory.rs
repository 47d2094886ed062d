//! Guest memory that changes while requests are in flight.

use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::commands::*;
use crate::front_end::*;
use crate::guest::*;

/// A small region, far from the others.
fn small(index: u64) -> GuestMemoryMmap {
    blank(BASE + (index << 30), 0x1000)
}

/// Makes an EXECUTE available whose answer goes to `answer`.
fn send_to(guest: &mut Guest, objects: [u64; 4], answer: u64) {
    let request = execute(1, objects);
    let (ask, _) = guest.place(0, 0, &request, 16);
    guest.write(0, 0, descriptor(ask, request.len() as u32, NEXT, 1));
    guest.write(0, 1, descriptor(answer, 64, WRITE, 0));
    guest.push(0, 0);
    a_while();
}

fn answered(memory: &GuestMemoryMmap, address: u64) -> bool {
    let bytes: [u8; 24] = memory.read_obj(GuestAddress(address)).unwrap();
    bytes != [0; 24]
}

#[test]
fn regions_come_and_go_around_a_request_in_flight() {
    let (daemon, backend, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let objects = works(&mut guest);
    let extra: Vec<_> = (1..=12).map(small).collect();
    guest.frontend.add_mem_region(&region(&extra[4])).unwrap();
    backend.hold();
    let answer = BASE + (5 << 30) + 0x80;
    send_to(&mut guest, objects, answer);
    for memory in extra[..4].iter().chain(&extra[5..]) {
        guest.frontend.add_mem_region(&region(memory)).unwrap();
    }
    guest.frontend.remove_mem_region(&region(&extra[0])).unwrap();
    guest.frontend.remove_mem_region(&region(&extra[11])).unwrap();
    backend.release();
    assert_eq!(guest.wait_used(0), (0, 24));
    assert!(answered(&extra[4], answer));
    runs(&mut guest, 1, objects);
}

#[test]
fn a_table_of_more_than_eight_regions_replaced_under_a_request() {
    let (daemon, backend, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let objects = works(&mut guest);
    let extra: Vec<_> = (1..=12).map(small).collect();
    let all: Vec<_> = std::iter::once(&guest.memory).chain(&extra).map(region).collect();
    let answer = BASE + (12 << 30) + 0x80;
    for (table, bytes) in [(&all[..], 24), (&all[..12], 0)] {
        guest.frontend.set_mem_table(&all).unwrap();
        backend.hold();
        extra[11].write_obj([0_u8; 24], GuestAddress(answer)).unwrap();
        send_to(&mut guest, objects, answer);
        guest.frontend.set_mem_table(table).unwrap();
        backend.release();
        assert_eq!(guest.wait_used(0), (0, bytes));
        assert_eq!(answered(&extra[11], answer), bytes > 0);
    }
    runs(&mut guest, 0, objects);
}

/// The rings themselves go: nothing can be completed, and nobody dies of it.
#[test]
fn the_region_of_the_rings_goes_under_a_request() {
    let (daemon, backend, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let objects = works(&mut guest);
    let before = guest.used_index(0);
    let other = small(1);
    guest.frontend.add_mem_region(&region(&other)).unwrap();
    backend.hold();
    let answer = guest.send(0, 0, &execute(1, objects), 64);
    a_while();
    guest.frontend.remove_mem_region(&region(&guest.memory)).unwrap();
    backend.release();
    a_while();
    assert_eq!((guest.used_index(0), guest.read(answer, 64)), (before, vec![UNTOUCHED; 64]));
    guest.frontend.add_mem_region(&region(&guest.memory)).unwrap();
    guest.stop_queues();
    guest.start_queues();
    works(&mut guest);
}

/// A memory map that changes as a whole, as on a reboot: every region goes before the first one comes.
#[test]
fn every_region_goes() {
    let (daemon, _, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    works(&mut guest);
    stop_queues(&guest);
    guest.frontend.remove_mem_region(&region(&guest.memory)).unwrap();
    guest.frontend.add_mem_region(&region(&guest.memory)).unwrap();
    clear_rings(&mut guest);
    start_queues(&guest, [0, 0]);
    works(&mut guest);
}
