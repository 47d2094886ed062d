//! What a correct guest does.

use crate::daemon::Daemon;
use crate::guest::*;
use crate::stub::*;

#[test]
fn answers_a_request_and_leaves_the_surplus_alone() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let request: Vec<u8> = (0..40).map(|byte| byte * 3).collect();
    let answer = guest.send(0, 0, &request, 100);
    assert_eq!(guest.wait_used(0), (0, 40));
    assert_eq!(guest.read(answer, 40), request);
    assert_eq!(guest.read(answer + 40, 60), [UNTOUCHED; 60]);
    eventually(|| guest.interrupts(0) == 1);
    assert_eq!(
        daemon.stub().seen.lock().unwrap()[0],
        Seen { queue: 0, bytes: request, readable: 40, writable: 100 }
    );
}

#[test]
fn goes_round_the_ring_many_times() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    for round in 0..1000_u16 {
        let request = [&[ECHO, 0], round.to_le_bytes().as_slice()].concat();
        assert_eq!(guest.round_trip(usize::from(round % 2), &request, 16), request);
    }
}

#[test]
fn gathers_and_scatters_over_descriptors_of_any_length() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let request: Vec<u8> = (0..=20).collect();
    let (ask, answer) = guest.place(0, 0, &request, 64);
    guest.write(0, 5, descriptor(ask, 1, NEXT, 2));
    guest.write(0, 2, descriptor(ask + 1, 17, NEXT, 7));
    guest.write(0, 7, descriptor(ask + 18, 3, NEXT, 0));
    guest.write(0, 0, descriptor(answer, 2, NEXT | WRITE, 1));
    guest.write(0, 1, descriptor(answer + 10, 7, NEXT | WRITE, 3));
    guest.write(0, 3, descriptor(answer + 30, 20, WRITE, 0));
    guest.push(0, 5);
    assert_eq!(guest.wait_used(0), (5, 21));
    assert_eq!(guest.read(answer, 2), request[..2]);
    assert_eq!(guest.read(answer + 2, 8), [UNTOUCHED; 8]);
    assert_eq!(guest.read(answer + 10, 7), request[2..9]);
    assert_eq!(guest.read(answer + 30, 12), request[9..]);
    assert_eq!(guest.read(answer + 42, 1), [UNTOUCHED]);
}

#[test]
fn follows_an_indirect_table() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot_with(&daemon.socket(0), VERSION_1 | PROTOCOL | 1 << 28);
    let request = [ECHO, 7, 8, 9];
    let (ask, answer) = guest.place(0, 0, &request, 64);
    let table = BASE + 0x8_0000;
    guest.write_at(table, descriptor(ask, 2, NEXT, 2));
    guest.write_at(table + 32, descriptor(ask + 2, 2, NEXT, 1));
    guest.write_at(table + 16, descriptor(answer, 64, WRITE, 0));
    guest.write(0, 4, descriptor(table, 48, INDIRECT, 0));
    guest.push(0, 4);
    assert_eq!(guest.wait_used(0), (4, 4));
    assert_eq!(guest.read(answer, 4), request);
}

#[test]
fn completes_in_any_order() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    for slot in 0..4 {
        guest.send(0, slot, &[HOLD, slot as u8], 16);
    }
    let mut held = daemon.stub().take_held(4);
    assert_eq!(guest.used_index(0), 0);
    for slot in [2_u16, 0, 1, 0] {
        held.remove(slot.into())(&[1; 3]);
    }
    let order: Vec<_> = (0..4).map(|_| guest.wait_used(0)).collect();
    assert_eq!(order, [(4, 3), (0, 3), (6, 3), (2, 3)]);
}

#[test]
fn a_slow_command_holds_up_only_its_own_queue() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.send(0, 0, &[BLOCK, 0], 16);
    eventually(|| !daemon.stub().seen.lock().unwrap().is_empty());
    assert_eq!(guest.round_trip(1, &[ECHO, 5], 16), [ECHO, 5]);
    assert_eq!(guest.used_index(0), 0);
    daemon.stub().open_gate();
    assert_eq!(guest.wait_used(0), (0, 0));
}

#[test]
fn hands_over_only_the_header_of_a_request_beyond_the_limit() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let request = vec![7; MAX_REQUEST as usize + 1];
    assert_eq!(guest.round_trip(0, &request[..4096], 8192).len(), 4096);
    assert_eq!(guest.round_trip(0, &request, 64).len(), 16);
    let seen = daemon.stub().seen.lock().unwrap();
    assert_eq!((seen[1].bytes.len(), seen[1].readable), (16, 4097));
}

#[test]
fn an_answer_of_nothing_or_too_much_writes_nothing() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    for kind in [NOTHING, TOO_MUCH] {
        let answer = guest.send(0, 0, &[kind, 0], 64);
        assert_eq!(guest.wait_used(0), (0, 0));
        assert_eq!(guest.read(answer, 64), [UNTOUCHED; 64]);
    }
}

#[test]
fn honours_no_interrupt() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.set_avail_flags(0, 1);
    guest.round_trip(0, &[ECHO; 16], 16);
    guest.set_avail_flags(0, 0);
    guest.round_trip(0, &[ECHO; 16], 16);
    eventually(|| guest.used_flags(0) == 0);
    assert_eq!(guest.interrupts(0), 1);
}

#[test]
fn honours_the_event_index_of_both_sides() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot_with(&daemon.socket(0), VERSION_1 | PROTOCOL | EVENT_IDX);
    guest.set_used_event(0, 2);
    for round in 0..3 {
        assert_eq!(guest.interrupts(0), 0, "before request {round}");
        guest.round_trip(0, &[ECHO; 16], 16);
    }
    eventually(|| guest.interrupts(0) == 1);
    // The device asks for a kick with the next chain; it has flags of its own only without event index.
    eventually(|| guest.avail_event(0) == 3);
    assert_eq!(guest.used_flags(0), 0);
}

#[test]
fn one_kick_serves_everything_available() {
    for features in [0, EVENT_IDX] {
        let daemon = Daemon::one();
        let mut guest = Guest::boot_with(&daemon.socket(0), VERSION_1 | PROTOCOL | features);
        for slot in 0..3 {
            let (ask, answer) = guest.place(0, slot, &[ECHO; 16], 16);
            guest.write(0, slot * 2, descriptor(ask, 16, NEXT, slot * 2 + 1));
            guest.write(0, slot * 2 + 1, descriptor(answer, 16, WRITE, 0));
            guest.push_quietly(0, slot * 2);
        }
        guest.queues[0].kick.write(1).unwrap();
        for slot in 0..3 {
            assert_eq!(guest.wait_used(0), (slot * 2, 16));
        }
    }
}

#[test]
fn configuration_is_answered_with_exactly_what_was_asked() {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let whole = guest.config(0, 64);
    assert_eq!(whole[..8], [1, 0, 0, 0, 1, 0, MAX_CHAIN as u8, 0]);
    assert_eq!(&whole[16..20], b"AXT1");
    for (offset, bytes) in [(0, 1), (3, 5), (7, 57), (63, 1), (17, 2)] {
        assert_eq!(guest.config(offset, bytes), whole[offset as usize..][..bytes as usize]);
    }
    assert_eq!(guest.config(60, 10), [&whole[60..], &[0; 6]].concat());
    assert_eq!(guest.config(64, 8), [0; 8]);
    assert_eq!(guest.config(0, 256), [whole.as_slice(), &[0; 192]].concat());
}

#[test]
fn writes_to_the_configuration_change_nothing() {
    use vhost::vhost_user::VhostUserFrontend;
    use vhost::vhost_user::message::VhostUserConfigFlags;
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let whole = guest.config(0, 64);
    guest.frontend.set_config(0, VhostUserConfigFlags::WRITABLE, &[0xff; 8]).unwrap();
    assert_eq!(guest.config(0, 64), whole);
}
