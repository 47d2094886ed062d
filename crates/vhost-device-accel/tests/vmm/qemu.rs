//! QEMU's generic vhost-user device.

use accel_proto::{CreateContext, IntoBytes, Opcode};
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{Bytes, GuestAddress};

use crate::commands::*;
use crate::daemon::{Daemon, QUEUES};
use crate::front_end::*;
use crate::guest::*;

/// Creates the device: negotiation, and interrupts before there are rings.
fn create(daemon: &Daemon) -> Guest {
    let guest = Guest::new(negotiate(daemon), QUEUES.into());
    guest.frontend.get_features().unwrap();
    for (index, queue) in guest.queues.iter().enumerate() {
        guest.frontend.set_vring_call(index, &queue.call).unwrap();
    }
    guest
}

/// What the guest's DRIVER_OK brings.
fn start(guest: &mut Guest, bases: [u16; QUEUES as usize]) {
    for _ in 0..2 {
        guest.frontend.set_features(VERSION_1 | PROTOCOL | EVENT_IDX).unwrap();
    }
    start_queues(guest, bases);
}

fn boot(daemon: &Daemon) -> Guest {
    let mut guest = create(daemon);
    guest.frontend.add_mem_region(&region(&guest.memory)).unwrap();
    clear_rings(&mut guest);
    start(&mut guest, [0, 0]);
    guest
}

#[test]
fn a_start_with_the_whole_configuration_read_for_every_byte() {
    let (daemon, _, _) = daemon();
    let mut guest = create(&daemon);
    let whole = guest.config(0, 64);
    assert_eq!(&whole[16..20], b"AXT1");
    for byte in 0..64 {
        assert_eq!(guest.config(0, 64), whole);
        assert_eq!(guest.config(byte, 1), whole[byte as usize..][..1]);
    }
    guest.frontend.add_mem_region(&region(&guest.memory)).unwrap();
    clear_rings(&mut guest);
    start(&mut guest, [0, 0]);
    works(&mut guest);
    assert_eq!(guest.config(0, 64), whole);
}

#[test]
fn a_reboot_with_requests_in_flight() {
    let (daemon, backend, device) = daemon();
    let mut guest = boot(&daemon);
    for released_before_the_start in [true, false] {
        let objects = works(&mut guest);
        backend.hold();
        for slot in 0..3 {
            for queue in 0..2 {
                guest.send(queue, slot, &execute(1, objects), 64);
            }
        }
        a_while();
        stop_queues(&guest);
        assert_eq!(device.memory_used(), 0);
        if released_before_the_start {
            backend.release();
            a_while();
        }
        clear_rings(&mut guest);
        start(&mut guest, [0, 0]);
        backend.release();
        a_while();
        assert_eq!([guest.used_index(0), guest.used_index(1)], [0, 0]);
        stale(&mut guest, objects);
        works(&mut guest);
        assert_eq!(guest.used_index(1), 1);
        stop_queues(&guest);
        clear_rings(&mut guest);
        start(&mut guest, [0, 0]);
    }
}

#[test]
fn a_reboot_while_a_program_loads() {
    let (daemon, backend, device) = daemon();
    let mut guest = boot(&daemon);
    works(&mut guest);
    let context = object(&command(&mut guest, Opcode::CreateContext, &[CreateContext::default().as_bytes()]));
    backend.hold_loads(true);
    guest.send(1, 0, &load(context), 64);
    a_while();
    stop_queues(&guest);
    clear_rings(&mut guest);
    start(&mut guest, [0, 0]);
    backend.hold_loads(false);
    // The queue's worker takes this after the load, which has nowhere to go.
    assert_eq!(guest.round_trip(1, &execute(1, [1; 4]), 64).len(), 16);
    assert_eq!((guest.used_index(1), device.memory_used()), (1, 0));
}

/// `stop` and `cont`: nothing but the bases tells it from a reboot.
#[test]
fn a_pause_keeps_the_rings_and_drops_the_objects() {
    let (daemon, _, device) = daemon();
    let mut guest = boot(&daemon);
    let objects = works(&mut guest);
    let used = [guest.used_index(0), guest.used_index(1)];
    let bases = stop_queues(&guest);
    assert_eq!(bases, used);
    assert_eq!(device.memory_used(), 0);
    start(&mut guest, bases);
    stale(&mut guest, objects);
    let objects = prepare(&mut guest);
    runs(&mut guest, 1, objects);
    assert_eq!(guest.used_index(1), used[1] + 1);
}

#[test]
fn rings_that_the_guest_cleared_while_the_device_goes_on() {
    let (daemon, _, _) = daemon();
    let mut guest = boot(&daemon);
    works(&mut guest);
    let bases = stop_queues(&guest);
    clear_rings(&mut guest);
    // Read up to beyond what was made available: no ring to serve, until it starts as it is.
    start(&mut guest, bases);
    guest.send(0, 0, &execute(1, [1; 4]), 64);
    a_while();
    assert_eq!(guest.used_index(0), 0);
    stop_queues(&guest);
    clear_rings(&mut guest);
    start(&mut guest, [0, 0]);
    works(&mut guest);
}

/// A driver has to clear its rings. Where it does not, its used index counts, as it does with the kernel's vhost.
#[test]
fn a_used_index_left_from_before_a_reset() {
    let (daemon, _, _) = daemon();
    let mut guest = boot(&daemon);
    works(&mut guest);
    stop_queues(&guest);
    clear_rings(&mut guest);
    let VringConfigData { used_ring_addr, desc_table_addr, .. } = guest.rings(0);
    let used = BASE + used_ring_addr - desc_table_addr;
    guest.memory.write_obj(5_u16, GuestAddress(used + 2)).unwrap();
    start(&mut guest, [0, 0]);
    guest.send(0, 3, &execute(1, [1; 4]), 64);
    eventually(|| guest.used_index(0) == 6);
    let entry: [u32; 2] = guest.memory.read_obj(GuestAddress(used + 4 + 5 * 8)).unwrap();
    assert_eq!(entry, [6, 16]);
}
