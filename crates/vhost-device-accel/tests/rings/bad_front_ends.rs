//! Front-ends that set the device up wrongly: refused, and the next guest is served.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;

use crate::daemon::Daemon;
use crate::guest::*;
use crate::stub::*;

#[track_caller]
fn next_guest_is_served(daemon: &Daemon) {
    assert_eq!(Guest::boot(daemon).round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn ring_sizes() {
    let daemon = Daemon::one();
    for size in [0, 3, 32768, 2048, 65535] {
        let mut guest = Guest::connect(&daemon.socket(0), VERSION_1 | PROTOCOL);
        guest.share_memory().unwrap();
        guest.queues[0].size = size;
        assert!(guest.start_queue(0).is_err(), "a ring of {size} entries is accepted");
        drop(guest);
        next_guest_is_served(&daemon);
    }
    for size in [1, 2, 256, 1024] {
        let mut guest = Guest::connect(&daemon.socket(0), VERSION_1 | PROTOCOL);
        guest.share_memory().unwrap();
        guest.queues[0].size = size;
        guest.start_queue(0).unwrap();
        if size > 1 {
            assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
        }
    }
}

#[test]
fn a_size_that_is_no_power_of_two_never_starts_the_ring() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.stop_queues();
    // The order of messages is free, so the addresses may be there before the size.
    guest.frontend.set_vring_num(0, 3).unwrap();
    guest.frontend.set_vring_call(0, &guest.queues[0].call).unwrap();
    guest.frontend.set_vring_kick(0, &guest.queues[0].kick).unwrap();
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.send(0, 0, &[ECHO; 16], 16);
    guest.start_queue(1).unwrap();
    assert_eq!(guest.round_trip(1, &[ECHO; 16], 16), [ECHO; 16]);
    assert_eq!(daemon.stub().seen.lock().unwrap().len(), 1);
}

#[test]
fn memory_that_cannot_be_mapped() {
    let daemon = Daemon::one();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let guest = Guest::connect(&daemon.socket(0), VERSION_1 | PROTOCOL);
    let mut info = region(&guest.memory);
    info.mmap_handle = pipe.as_raw_fd();
    assert!(guest.frontend.set_mem_table(&[info]).is_err());
    next_guest_is_served(&daemon);
}

#[test]
fn memory_beyond_the_end_of_its_file() {
    let daemon = Daemon::one();
    let file = tempfile::tempfile().unwrap();
    file.set_len(0x1000).unwrap();
    let guest = Guest::connect(&daemon.socket(0), VERSION_1 | PROTOCOL);
    let mut info = region(&guest.memory);
    info.mmap_handle = file.as_raw_fd();
    assert!(guest.frontend.set_mem_table(&[info]).is_err());
    let mut guest = Guest::boot(&daemon);
    info.guest_phys_addr += 1 << 30;
    assert!(guest.frontend.add_mem_region(&info).is_err());
    drop(guest);
    next_guest_is_served(&daemon);
}

/// The daemon sees a private mapping's file, in which nothing ever happens.
#[test]
fn private_memory() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let elsewhere = tempfile::tempfile().unwrap();
    elsewhere.set_len(4 << 20).unwrap();
    guest.stop_queues();
    let mut info = region(&guest.memory);
    info.mmap_handle = elsewhere.as_raw_fd();
    guest.frontend.set_mem_table(&[info]).unwrap();
    guest.start_queues();
    guest.send(0, 0, &[ECHO; 16], 16);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(guest.used_index(0), 0);
    drop(guest);
    next_guest_is_served(&daemon);
}

#[test]
fn rings_outside_memory() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.stop_queues();
    // The used ring's last entry lies beyond the end of memory.
    let host = region(&guest.memory).userspace_addr;
    let rings = vhost::VringConfigData {
        queue_max_size: 1024,
        queue_size: 1024,
        flags: 0,
        desc_table_addr: host,
        used_ring_addr: host + (4 << 20) - 0x100,
        avail_ring_addr: host + 0x8000,
        log_addr: None,
    };
    guest.frontend.set_vring_num(0, 1024).unwrap();
    guest.frontend.set_vring_base(0, 0).unwrap();
    guest.frontend.set_vring_addr(0, &rings).unwrap();
    guest.frontend.set_vring_call(0, &guest.queues[0].call).unwrap();
    guest.frontend.set_vring_kick(0, &guest.queues[0].kick).unwrap();
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.send(0, 0, &[ECHO; 16], 16);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(daemon.stub().seen.lock().unwrap().is_empty());
    drop(guest);
    next_guest_is_served(&daemon);
}

#[test]
fn rubbish_and_silence() {
    let daemon = Daemon::one();
    drop(UnixStream::connect(daemon.socket(0)).unwrap());
    for rubbish in [&[0xff; 12][..], &[0; 12], &[1], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = UnixStream::connect(daemon.socket(0)).unwrap();
        stream.write_all(rubbish).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    next_guest_is_served(&daemon);
}

#[test]
fn features_that_were_not_offered() {
    let daemon = Daemon::one();
    let guest = Guest::connect(&daemon.socket(0), VERSION_1 | PROTOCOL);
    assert!(guest.frontend.set_features(VERSION_1 | 1).is_err());
    next_guest_is_served(&daemon);
}
