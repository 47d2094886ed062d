//! Front-ends that leave messages out.

use vhost::VhostBackend;
use vhost::vhost_user::{Frontend, VhostUserFrontend};

use crate::commands::*;
use crate::daemon::QUEUES;
use crate::front_end::*;
use crate::guest::*;

fn start_queues(guest: &mut Guest) {
    clear_rings(guest);
    for index in 0..guest.queues.len() {
        let (frontend, queue) = (&guest.frontend, &guest.queues[index]);
        frontend.set_vring_num(index, queue.size).unwrap();
        frontend.set_vring_base(index, 0).unwrap();
        frontend.set_vring_addr(index, &guest.rings(index)).unwrap();
        frontend.set_vring_kick(index, &queue.kick).unwrap();
        frontend.set_vring_call(index, &queue.call).unwrap();
    }
}

/// Rings are enabled from the start where there is no message to enable them.
#[test]
fn no_protocol_features() {
    let (daemon, _, device) = daemon();
    let frontend = Frontend::connect(daemon.socket(0), 16).unwrap();
    frontend.set_owner().unwrap();
    frontend.get_features().unwrap();
    frontend.set_features(VERSION_1).unwrap();
    let mut guest = Guest::new(frontend, QUEUES.into());
    guest.share_memory().unwrap();
    start_queues(&mut guest);
    let objects = works(&mut guest);
    guest.stop_queues();
    assert_eq!(device.memory_used(), 0);
    start_queues(&mut guest);
    stale(&mut guest, objects);
    works(&mut guest);
}

#[test]
fn rings_that_are_enabled_late() {
    let (daemon, _, _) = daemon();
    let frontend = negotiate(&daemon);
    frontend.set_features(VERSION_1 | PROTOCOL).unwrap();
    let mut guest = Guest::new(frontend, QUEUES.into());
    guest.share_memory().unwrap();
    start_queues(&mut guest);
    guest.send(0, 0, &execute(1, [1; 4]), 64);
    a_while();
    assert_eq!(guest.used_index(0), 0);
    guest.frontend.set_vring_enable(0, true).unwrap();
    assert_eq!(guest.wait_used(0), (0, 16));
}
