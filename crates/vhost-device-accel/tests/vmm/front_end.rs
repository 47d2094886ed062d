//! What the front-ends of all monitors have in common.

use std::time::Duration;

use accel_proto::Status;
use vhost::VhostBackend;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};

use crate::commands::*;
use crate::daemon::{Daemon, QUEUES};
use crate::guest::*;

/// Connects, asks for the features first, and agrees on protocol features; the order of QEMU.
pub fn negotiate(daemon: &Daemon) -> Frontend {
    let mut frontend = Frontend::connect(daemon.socket(0), 16).unwrap();
    frontend.get_features().unwrap();
    let offered = frontend.get_protocol_features().unwrap();
    let known = VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::RESET_DEVICE
        | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS;
    frontend.set_protocol_features(offered & known).unwrap();
    frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    assert_eq!(frontend.get_queue_num().unwrap(), u64::from(QUEUES));
    frontend.set_owner().unwrap();
    frontend
}

/// Starts every queue at its base over rings as they are, in QEMU's order.
pub fn start_queues(guest: &Guest, bases: [u16; QUEUES as usize]) {
    for (index, base) in bases.into_iter().enumerate() {
        let (frontend, queue) = (&guest.frontend, &guest.queues[index]);
        frontend.set_vring_num(index, queue.size).unwrap();
        frontend.set_vring_base(index, base).unwrap();
        frontend.set_vring_addr(index, &guest.rings(index)).unwrap();
        frontend.set_vring_kick(index, &queue.kick).unwrap();
        frontend.set_vring_call(index, &queue.call).unwrap();
    }
    enable(guest, true);
}

/// Enables or disables every queue.
pub fn enable(guest: &Guest, enable: bool) {
    // The trait takes the front-end mutably; a copy is a handle to the same connection.
    let mut frontend = guest.frontend.clone();
    for index in 0..guest.queues.len() {
        frontend.set_vring_enable(index, enable).unwrap();
    }
}

/// Disables and stops every queue. Tells how far each was read.
pub fn stop_queues(guest: &Guest) -> [u16; QUEUES as usize] {
    enable(guest, false);
    std::array::from_fn(|index| guest.frontend.get_vring_base(index).unwrap() as u16)
}

/// What a guest does with its queues when it boots.
pub fn clear_rings(guest: &mut Guest) {
    for index in 0..guest.queues.len() {
        guest.clear_rings(index);
    }
}

/// Makes objects, runs a program over both queues, and gives the objects.
#[track_caller]
pub fn works(guest: &mut Guest) -> [u64; 4] {
    let objects = prepare(guest);
    for queue in 0..guest.queues.len() {
        runs(guest, queue, objects);
    }
    objects
}

#[track_caller]
pub fn runs(guest: &mut Guest, queue: usize, objects: [u64; 4]) {
    assert_eq!(payload(&guest.round_trip(queue, &execute(9, objects), 64), 9).len(), 8);
}

/// The objects are gone.
#[track_caller]
pub fn stale(guest: &mut Guest, objects: [u64; 4]) {
    let answer = guest.round_trip(0, &execute(10, objects), 64);
    assert_eq!(answer[..2], Status::StaleObject.code().to_le_bytes()[..2]);
}

/// Time in which what must not happen would have happened.
pub fn a_while() {
    std::thread::sleep(Duration::from_millis(30));
}
