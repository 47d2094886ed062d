//! Resets, reboots, disconnects and memory that changes: nothing of a guest outlives it.

use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost_device_accel::{Error, Server, Stop};
use vm_memory::{Bytes, GuestAddress};

use crate::daemon::{Daemon, QUEUES};
use crate::guest::*;
use crate::stub::*;

#[test]
fn a_reboot_drops_the_state_once_every_queue_has_stopped() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.round_trip(0, &[ECHO; 16], 16);
    guest.round_trip(1, &[ECHO; 16], 16);
    let before = daemon.stub().resets();
    guest.frontend.get_vring_base(0).unwrap();
    assert_eq!(daemon.stub().resets(), before);
    guest.frontend.get_vring_base(1).unwrap();
    assert_eq!(daemon.stub().resets(), before + 1);
    // A second stop of what is stopped changes nothing.
    guest.frontend.get_vring_base(1).unwrap();
    assert_eq!(daemon.stub().resets(), before + 1);
    guest.frontend.set_features(VERSION_1 | PROTOCOL).unwrap();
    guest.start_queues();
    assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
    assert_eq!(guest.round_trip(1, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn the_base_tells_how_far_the_ring_was_read() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    for _ in 0..3 {
        guest.round_trip(0, &[ECHO; 16], 16);
    }
    assert_eq!(guest.frontend.get_vring_base(0).unwrap(), 3);
}

#[test]
fn an_answer_after_the_stop_touches_nothing() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let answer = guest.send(0, 0, &[HOLD; 16], 16);
    let late = daemon.stub().take_held(1);
    guest.stop_queues();
    for reply in late {
        reply(&[1; 16]);
    }
    assert_eq!(guest.read(answer, 16), [UNTOUCHED; 16]);
    assert_eq!((guest.used_index(0), guest.interrupts(0)), (0, 0));
}

#[test]
fn an_answer_from_before_a_reboot_touches_nothing_after_it() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.send(0, 0, &[HOLD; 16], 16);
    let late = daemon.stub().take_held(1);
    guest.stop_queues();
    guest.start_queues();
    let answer = guest.send(0, 0, &[HOLD; 16], 16);
    let timely = daemon.stub().take_held(1);
    for reply in late {
        reply(&[1; 16]);
    }
    assert_eq!(guest.read(answer, 16), [UNTOUCHED; 16]);
    assert_eq!(guest.used_index(0), 0);
    for reply in timely {
        reply(&[2; 4]);
    }
    assert_eq!(guest.wait_used(0), (0, 4));
    assert_eq!(guest.read(answer, 4), [2; 4]);
}

#[test]
fn a_device_reset_drops_the_state_and_the_answers() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let answer = guest.send(0, 0, &[HOLD; 16], 16);
    let late = daemon.stub().take_held(1);
    let before = daemon.stub().resets();
    guest.frontend.reset_device().unwrap();
    assert_eq!(daemon.stub().resets(), before + 1);
    for reply in late {
        reply(&[1; 16]);
    }
    assert_eq!((guest.read(answer, 16), guest.used_index(0)), (vec![UNTOUCHED; 16], 0));
    guest.frontend.set_features(VERSION_1 | PROTOCOL).unwrap();
    guest.stop_queues();
    guest.start_queues();
    assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn a_stop_does_not_wait_for_a_slow_command() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.send(0, 0, &[BLOCK; 16], 16);
    eventually(|| !daemon.stub().seen.lock().unwrap().is_empty());
    guest.stop_queues();
    assert_eq!(daemon.stub().resets(), 1);
    guest.start_queues();
    daemon.stub().open_gate();
    assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn a_front_end_that_vanishes_mid_request_makes_room_for_the_next() {
    let daemon = Daemon::one();
    for _ in 0..3 {
        let mut guest = Guest::boot(&daemon);
        // Not earlier: the connection before is over only now.
        let before = daemon.stub().resets();
        let answer = guest.send(0, 0, &[HOLD; 16], 16);
        guest.send(1, 0, &[HOLD; 16], 16);
        let late = daemon.stub().take_held(2);
        let Guest { frontend, memory, .. } = guest;
        drop(frontend);
        eventually(|| daemon.stub().resets() > before);
        for reply in late {
            reply(&[1; 16]);
        }
        let byte: u8 = memory.read_obj(GuestAddress(answer)).unwrap();
        assert_eq!(byte, UNTOUCHED);
    }
    assert_eq!(Guest::boot(&daemon).round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn connections_leave_no_file_descriptors_behind() {
    let daemon = Daemon::one();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let visit = || {
        let before = daemon.stub().resets();
        drop(Guest::boot(&daemon));
        // Two resets end a connection: at its end, and when its workers are gone.
        eventually(|| daemon.stub().resets() >= before + 2);
    };
    visit();
    let before = open();
    for _ in 0..10 {
        visit();
    }
    eventually(|| open() <= before);
}

#[test]
fn memory_comes_and_goes() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let base = BASE + (1 << 30);
    for round in 0..3 {
        let extra = blank(base, 0x10000);
        let info = region(&extra);
        guest.frontend.add_mem_region(&info).unwrap();
        let (ask, _) = guest.place(0, 0, &[ECHO, round], 16);
        guest.write(0, 0, descriptor(ask, 2, NEXT, 1));
        guest.write(0, 1, descriptor(base + 0x80, 16, WRITE, 0));
        guest.push(0, 0);
        assert_eq!(guest.wait_used(0), (0, 2));
        let written: u16 = extra.read_obj(GuestAddress(base + 0x80)).unwrap();
        assert_eq!(written.to_le_bytes(), [ECHO, round]);

        // An answer on its way when its memory goes is not written there; the chain still completes.
        guest.write(0, 0, descriptor(guest.place(0, 0, &[HOLD, 0], 16).0, 2, NEXT, 1));
        guest.push(0, 0);
        let late = daemon.stub().take_held(1);
        guest.frontend.remove_mem_region(&info).unwrap();
        for reply in late {
            reply(&[0xee; 8]);
        }
        assert_eq!(guest.wait_used(0), (0, 0));
        let written: u16 = extra.read_obj(GuestAddress(base + 0x80)).unwrap();
        assert_eq!(written.to_le_bytes(), [ECHO, round]);

        guest.write(0, 0, descriptor(ask, 2, NEXT, 1));
        guest.push(0, 0);
        assert_eq!(guest.wait_used(0), (0, 0));
    }
}

#[test]
fn more_than_eight_regions() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    assert!(guest.frontend.get_max_mem_slots().unwrap() > 8);
    let mut kept = Vec::new();
    for index in 1..=20_u64 {
        let extra = blank(BASE + (index << 30), 0x1000);
        guest.frontend.add_mem_region(&region(&extra)).unwrap();
        kept.push(extra);
    }
    let (ask, _) = guest.place(0, 0, &[ECHO, 9], 16);
    guest.write(0, 0, descriptor(ask, 2, NEXT, 1));
    guest.write(0, 1, descriptor(BASE + (20 << 30), 16, WRITE, 0));
    guest.push(0, 0);
    assert_eq!(guest.wait_used(0), (0, 2));
}

#[test]
fn two_sockets_serve_two_guests_at_once() {
    let daemon = Daemon::start(2, false);
    let mut first = Guest::boot_with(&daemon.socket(0), VERSION_1 | PROTOCOL);
    let mut second = Guest::boot_with(&daemon.socket(1), VERSION_1 | PROTOCOL | EVENT_IDX);
    first.send(0, 0, &[BLOCK; 16], 16);
    assert_eq!(second.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
    drop(second);
    eventually(|| daemon.stubs[1].resets() > 0);
    assert_eq!(daemon.stubs[0].resets(), 0);
    daemon.stubs[0].open_gate();
    assert_eq!(first.wait_used(0), (0, 0));
}

#[test]
fn once_ends_after_the_first_front_end() {
    let mut daemon = Daemon::start(1, true);
    Guest::boot(&daemon).round_trip(0, &[ECHO; 16], 16);
    daemon.join();
    assert!(!daemon.socket(0).exists());
}

#[test]
fn a_stop_ends_servers_that_wait_and_servers_that_serve() {
    let daemon = Daemon::start(2, false);
    let mut guest = Guest::boot(&daemon);
    guest.send(0, 0, &[HOLD; 16], 16);
    let late = daemon.stub().take_held(1);
    let socket = daemon.socket(1);
    assert!(socket.exists());
    drop(daemon);
    assert!(!socket.exists());
    for reply in late {
        reply(&[1; 16]);
    }
    assert_eq!(guest.used_index(0), 0);
}

#[test]
fn stale_socket_files_are_replaced_and_live_ones_respected() {
    let daemon = Daemon::one();
    let stop = std::sync::Arc::new(Stop::new().unwrap());
    let bind = |path: &std::path::Path| Server::bind(path, Stub::new(), QUEUES, stop.clone());
    assert!(matches!(bind(&daemon.socket(0)), Err(Error::SocketInUse { .. })));
    // The question did not disturb who serves it.
    assert_eq!(Guest::boot(&daemon).round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);

    let stale = daemon.directory.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    drop(bind(&stale).unwrap());

    let file = daemon.directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(bind(&file), Err(Error::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(matches!(bind(&daemon.directory.path().join("no/such")), Err(Error::Listen { .. })));
}

#[test]
fn a_defect_of_the_device_model_costs_one_answer_and_no_queue() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    for _ in 0..3 {
        let answer = guest.send(0, 0, &[PANIC; 16], 16);
        assert_eq!(guest.wait_used(0), (0, 0));
        assert_eq!(guest.read(answer, 16), [UNTOUCHED; 16]);
        // What was answered before is not answered again.
        assert_eq!(guest.round_trip(0, &[ANSWER_AND_PANIC; 16], 16), [ANSWER_AND_PANIC; 16]);
        assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
    }
    assert_eq!(guest.used_index(0), 9);
}
