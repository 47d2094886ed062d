//! cloud-hypervisor's generic vhost-user device.

use accel_proto::{Opcode, Status};
use vhost::VhostBackend;
use vhost::vhost_user::Frontend;

use crate::commands::*;
use crate::daemon::{Daemon, QUEUES};
use crate::front_end::*;
use crate::guest::*;

/// The feature bits that it hides from devices that it does not know.
const DEVICE_BITS: u64 = 0xff_ffff;

/// Starts every queue over rings as they are; the base follows the addresses.
fn activate(guest: &Guest, bases: [u16; QUEUES as usize]) {
    let frontend = &guest.frontend;
    let offered = frontend.get_features().unwrap();
    frontend.set_features(offered & !DEVICE_BITS).unwrap();
    guest.share_memory().unwrap();
    for (index, base) in bases.into_iter().enumerate() {
        let queue = &guest.queues[index];
        frontend.set_vring_num(index, queue.size).unwrap();
        frontend.set_vring_addr(index, &guest.rings(index)).unwrap();
        frontend.set_vring_base(index, base).unwrap();
        frontend.set_vring_call(index, &queue.call).unwrap();
        frontend.set_vring_kick(index, &queue.kick).unwrap();
    }
    enable(guest, true);
}

fn boot(daemon: &Daemon) -> Guest {
    let mut guest = Guest::new(negotiate(daemon), QUEUES.into());
    clear_rings(&mut guest);
    activate(&guest, [0, 0]);
    guest
}

#[test]
fn configuration_reads_of_any_offset_and_length() {
    let (daemon, _, _) = daemon();
    let mut guest = boot(&daemon);
    let whole = guest.config(0, 256);
    assert!(whole[64..].iter().all(|byte| *byte == 0));
    for offset in 0..=64 {
        for bytes in (1..=64 - offset).chain([100, 256 - offset]) {
            let read = guest.config(offset, bytes);
            assert_eq!(read, whole[offset as usize..][..bytes as usize], "{bytes} bytes at {offset}");
        }
    }
}

#[test]
fn extensions_are_found_without_feature_bits() {
    let (daemon, _, _) = daemon();
    let mut guest = boot(&daemon);
    assert_eq!(guest.frontend.get_features().unwrap() & DEVICE_BITS, 0, "a bit that it would hide");
    let extensions = guest.config(24, 8);
    assert_eq!(extensions[0] & 1, 1, "EXECUTE is not announced");
    works(&mut guest);
}

#[test]
fn a_reconnection_in_flight_goes_on_from_the_available_index() {
    let (daemon, backend, device) = daemon();
    let mut guest = boot(&daemon);
    let objects = works(&mut guest);
    let [done, other] = [guest.used_index(0), guest.used_index(1)];
    backend.hold();
    for slot in 0..2 {
        guest.send(0, slot, &execute(1, objects), 64);
    }
    a_while();
    // The connection is lost, and comes back with the rings as they are.
    guest.frontend = unconnected();
    eventually(|| device.memory_used() == 0);
    backend.release();
    guest.frontend = negotiate(&daemon);
    activate(&guest, [done + 2, other]);
    // Both requests are lost, and nothing of them comes now.
    a_while();
    assert_eq!(guest.used_index(0), done);
    stale(&mut guest, objects);
    works(&mut guest);
}

/// An end of a connection that leads nowhere.
fn unconnected() -> Frontend {
    let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
    Frontend::from_stream(end, 1)
}

/// It pauses by disabling queues, not by stopping them.
#[test]
fn a_pause_keeps_objects_and_requests() {
    let (daemon, backend, device) = daemon();
    let mut guest = boot(&daemon);
    let objects = works(&mut guest);
    backend.hold();
    guest.send(1, 0, &execute(1, objects), 64);
    a_while();
    enable(&guest, false);
    let before = guest.used_index(0);
    guest.send(0, 0, &execute(2, objects), 64);
    a_while();
    assert_eq!(guest.used_index(0), before);
    assert!(device.memory_used() > 0);
    enable(&guest, true);
    backend.release();
    assert_eq!(guest.wait_used(1), (0, 24));
    assert_eq!(guest.wait_used(0), (0, 24));
    runs(&mut guest, 0, objects);
}

/// A guest that resets the device has its queues disabled as for a pause; they are set up anew without being stopped.
#[test]
fn a_reset_by_the_guest_with_requests_in_flight() {
    let (daemon, backend, _) = daemon();
    let mut guest = boot(&daemon);
    let objects = works(&mut guest);
    backend.hold();
    for queue in 0..2 {
        guest.send(queue, 0, &execute(1, objects), 64);
    }
    a_while();
    enable(&guest, false);
    clear_rings(&mut guest);
    activate(&guest, [0, 0]);
    backend.release();
    a_while();
    assert_eq!([guest.used_index(0), guest.used_index(1)], [0, 0]);
    stale(&mut guest, objects);
    works(&mut guest);
}

#[test]
fn a_reboot_that_gives_up_the_ownership() {
    let (daemon, _, device) = daemon();
    let mut guest = boot(&daemon);
    let objects = works(&mut guest);
    stop_queues(&guest);
    guest.frontend.reset_owner().unwrap();
    assert_eq!(device.memory_used(), 0);
    guest.frontend.set_owner().unwrap();
    clear_rings(&mut guest);
    activate(&guest, [0, 0]);
    stale(&mut guest, objects);
    works(&mut guest);
}

/// A restored VM starts at bases that another daemon gave.
#[test]
fn a_start_at_a_base_that_is_not_zero() {
    let (daemon, _, _) = daemon();
    let mut guest = boot(&daemon);
    works(&mut guest);
    let bases = stop_queues(&guest);
    activate(&guest, bases);
    let answer = guest.round_trip(0, &frame(Opcode::GetDeviceInfo, 3, &[]), 4096);
    assert_eq!(answer[..2], Status::Ok.code().to_le_bytes()[..2]);
    assert_eq!(guest.used_index(0), bases[0] + 1);
}
