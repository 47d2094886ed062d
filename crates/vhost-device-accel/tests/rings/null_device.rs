//! The real device model behind the rings, over a backend that needs no hardware.

use accel_proto::{DeviceInfo, FromBytes, IntoBytes, Opcode, Status, Transfer};

use crate::commands::*;
use crate::guest::*;

#[test]
fn a_program_runs_over_both_queues() {
    let (daemon, _, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let info = command(&mut guest, Opcode::GetDeviceInfo, &[]);
    assert_eq!(DeviceInfo::read_from_bytes(&info).unwrap().uuid, *b"null-accelerator");
    let objects = prepare(&mut guest);
    let transfer =
        |buffer: u64| Transfer { buffer_id: buffer.into(), bytes: 4.into(), ..Transfer::default() };
    command(&mut guest, Opcode::WriteBuffer, &[transfer(objects[2]).as_bytes(), b"dust"]);
    let answer = guest.round_trip(1, &execute(5, objects), 64);
    assert_eq!(payload(&answer, 5).len(), 8);
    let result = command(&mut guest, Opcode::ReadBuffer, &[transfer(objects[3]).as_bytes()]);
    assert_eq!(result, b"dust");
}

#[test]
fn work_in_flight_ends_with_its_guest() {
    let (daemon, backend, device) = daemon();
    // A reboot, and a front-end that vanishes.
    for vanish in [false, true] {
        let mut guest = Guest::boot(&daemon);
        let objects = prepare(&mut guest);
        assert!(device.memory_used() > 0);
        backend.hold();
        let answer = guest.send(1, 0, &execute(6, objects), 64);
        // The other queue's answer comes after the submission was admitted at the latest.
        std::thread::sleep(std::time::Duration::from_millis(20));
        if vanish {
            let Guest { frontend, memory, .. } = guest;
            drop(frontend);
            eventually(|| device.memory_used() == 0);
            backend.release();
            let mut status = [0; 16];
            vm_memory::Bytes::read_slice(&memory, &mut status, vm_memory::GuestAddress(answer)).unwrap();
            assert_eq!(status, [UNTOUCHED; 16]);
        } else {
            guest.stop_queues();
            assert_eq!(device.memory_used(), 0);
            backend.release();
            guest.start_queues();
            // Its objects are gone, and new ones work.
            let stale = guest.round_trip(0, &execute(7, objects), 64);
            assert_eq!(stale.len(), 16);
            assert_eq!(stale[0], Status::StaleObject.code() as u8);
            let objects = prepare(&mut guest);
            payload(&guest.round_trip(1, &execute(8, objects), 64), 8);
            assert_eq!(guest.used_index(1), 1);
        }
    }
    assert_eq!(command(&mut Guest::boot(&daemon), Opcode::GetDeviceInfo, &[]).len(), DeviceInfo::BYTES);
}

#[test]
fn every_request_in_flight_completes_exactly_once() {
    let (daemon, backend, _) = daemon();
    let mut guest = Guest::boot(&daemon);
    let objects = prepare(&mut guest);
    backend.hold();
    for slot in 0..4 {
        for queue in 0..2 {
            guest.send(queue, slot, &execute(u64::from(slot) + 1, objects), 64);
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    backend.release();
    for queue in 0..2 {
        let mut heads: Vec<_> = (0..4)
            .map(|_| {
                let (head, bytes) = guest.wait_used(queue);
                assert_eq!(bytes, 24);
                head
            })
            .collect();
        heads.sort_unstable();
        assert_eq!(heads, [0, 2, 4, 6]);
    }
}
