//! crosvm: the number of queues comes from the device, and event descriptors block.

use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vmm_sys_util::eventfd::EventFd;

use crate::commands::*;
use crate::daemon::Daemon;
use crate::front_end::*;
use crate::guest::*;

fn create(daemon: &Daemon) -> Guest {
    let mut frontend = negotiate(daemon);
    frontend.set_features(VERSION_1 | PROTOCOL).unwrap();
    let queues = frontend.get_queue_num().unwrap();
    let mut guest = Guest::new(frontend, queues);
    for queue in &mut guest.queues {
        queue.kick = EventFd::new(0).unwrap();
    }
    guest.share_memory().unwrap();
    guest
}

#[test]
fn its_default_queue_size_is_refused_and_the_next_front_end_served() {
    let (daemon, _, _) = daemon();
    let guest = create(&daemon);
    assert!(guest.frontend.set_vring_num(0, 32768).is_err());
    drop(guest);
    let mut guest = create(&daemon);
    clear_rings(&mut guest);
    start_queues(&guest, [0, 0]);
    works(&mut guest);
}

#[test]
fn queues_restart_under_kicks_that_block() {
    let (daemon, _, device) = daemon();
    let mut guest = create(&daemon);
    clear_rings(&mut guest);
    start_queues(&guest, [0, 0]);
    for _ in 0..100 {
        for queue in 0..2 {
            guest.send(queue, 0, &execute(1, [1; 4]), 64);
        }
        stop_queues(&guest);
        clear_rings(&mut guest);
        for queue in &mut guest.queues {
            queue.kick = EventFd::new(0).unwrap();
        }
        start_queues(&guest, [0, 0]);
    }
    works(&mut guest);
    stop_queues(&guest);
    assert_eq!(device.memory_used(), 0);
}
