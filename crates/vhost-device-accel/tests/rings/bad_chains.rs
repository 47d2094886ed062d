//! What a hostile or broken guest puts into its rings.

use crate::daemon::Daemon;
use crate::guest::*;
use crate::stub::*;

/// Serves the chain that starts at descriptor 0 and expects it back empty, with nothing written and nothing
/// handed to the model, and the queue in good health.
#[track_caller]
fn refused(write_chain: impl FnOnce(&Guest, u64, u64)) {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    let (ask, answer) = guest.place(0, 0, &[ECHO; 64], 64);
    write_chain(&guest, ask, answer);
    guest.push(0, 0);
    assert_eq!(guest.wait_used(0), (0, 0));
    assert_eq!(guest.read(answer, 64), [UNTOUCHED; 64]);
    assert!(daemon.stub().seen.lock().unwrap().is_empty());
    eventually(|| guest.interrupts(0) == 1);
    assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

#[test]
fn cyclic() {
    refused(|guest, ask, _| {
        guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
        guest.write(0, 1, descriptor(ask, 16, NEXT, 0));
    });
}

#[test]
fn cyclic_in_itself() {
    refused(|guest, ask, _| guest.write(0, 0, descriptor(ask, 16, NEXT, 0)));
}

#[test]
fn cyclic_among_writable_descriptors() {
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
        guest.write(0, 1, descriptor(answer, 16, NEXT | WRITE, 1));
    });
}

#[test]
fn next_outside_the_table() {
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
        guest.write(0, 1, descriptor(answer, 16, NEXT | WRITE, RING));
    });
}

#[test]
fn too_long() {
    refused(|guest, ask, answer| {
        for index in 0..MAX_CHAIN {
            guest.write(0, index, descriptor(ask, 16, NEXT, index + 1));
        }
        guest.write(0, MAX_CHAIN, descriptor(answer, 64, WRITE, 0));
    });
}

#[test]
fn too_long_after_flattening() {
    refused(|guest, ask, answer| {
        let table = BASE + 0x8_0000;
        for index in 0..1000 {
            guest.write_at(table + 16 * index, descriptor(ask, 16, NEXT, index as u16 + 1));
        }
        guest.write_at(table + 16_000, descriptor(answer, 16, WRITE, 0));
        guest.write(0, 0, descriptor(table, 16_016, INDIRECT, 0));
    });
}

#[test]
fn nothing_readable() {
    refused(|guest, _, answer| guest.write(0, 0, descriptor(answer, 64, WRITE, 0)));
}

#[test]
fn nothing_writable() {
    refused(|guest, ask, _| guest.write(0, 0, descriptor(ask, 64, 0, 0)));
}

#[test]
fn readable_after_writable() {
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
        guest.write(0, 1, descriptor(answer, 16, NEXT | WRITE, 2));
        guest.write(0, 2, descriptor(ask + 16, 16, 0, 0));
    });
}

#[test]
fn zero_length() {
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, 0, NEXT, 1));
        guest.write(0, 1, descriptor(answer, 64, WRITE, 0));
    });
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
        guest.write(0, 1, descriptor(answer, 64, NEXT | WRITE, 2));
        guest.write(0, 2, descriptor(answer, 0, WRITE, 0));
    });
}

#[test]
fn outside_memory() {
    for address in [0, BASE - 1, BASE + (4 << 20) - 8, u64::MAX - 7] {
        refused(|guest, _, answer| {
            guest.write(0, 0, descriptor(address, 16, NEXT, 1));
            guest.write(0, 1, descriptor(answer, 64, WRITE, 0));
        });
        refused(|guest, ask, answer| {
            guest.write(0, 0, descriptor(ask, 16, NEXT, 1));
            guest.write(0, 1, descriptor(answer, 32, NEXT | WRITE, 2));
            guest.write(0, 2, descriptor(address, 16, WRITE, 0));
        });
    }
}

#[test]
fn longer_than_memory() {
    refused(|guest, ask, answer| {
        guest.write(0, 0, descriptor(ask, u32::MAX, NEXT, 1));
        guest.write(0, 1, descriptor(answer, u32::MAX, WRITE, 0));
    });
}

#[test]
fn indirect_tables() {
    let table = BASE + 0x8_0000;
    // Empty, odd, outside memory, and inside another indirect table.
    for (address, bytes) in [(table, 0), (table, 24), (0, 32), (table, 0x10_0001 * 16)] {
        refused(|guest, _, _| guest.write(0, 0, descriptor(address, bytes, INDIRECT, 0)));
    }
    refused(|guest, _, _| {
        guest.write_at(table, descriptor(table, 16, INDIRECT, 0));
        guest.write(0, 0, descriptor(table, 16, INDIRECT, 0));
    });
    refused(|guest, ask, _| {
        guest.write_at(table, descriptor(ask, 16, NEXT, 9));
        guest.write(0, 0, descriptor(table, 32, INDIRECT, 0));
    });
}

/// Breaks queue 0 and expects that it is left alone from then on, without anyone spinning or dying: the
/// other queue works, and so does this one after a reboot.
#[track_caller]
fn given_up(break_ring: impl FnOnce(&mut Guest, &Stub)) {
    let daemon = Daemon::one();
    let mut guest = Guest::boot(&daemon);
    guest.round_trip(0, &[ECHO; 16], 16);
    break_ring(&mut guest, daemon.stub());
    // The other queue's answer, twice, gives the first one time to go wrong.
    assert_eq!(guest.round_trip(1, &[ECHO; 16], 16), [ECHO; 16]);
    let before = (guest.used_index(0), cpu_milliseconds());
    std::thread::sleep(std::time::Duration::from_millis(200));
    guest.queues[0].kick.write(1).unwrap();
    assert_eq!(guest.round_trip(1, &[ECHO; 16], 16), [ECHO; 16]);
    assert_eq!(guest.used_index(0), before.0);
    assert!(cpu_milliseconds() - before.1 < 100, "something spins");
    guest.stop_queues();
    guest.start_queues();
    assert_eq!(guest.round_trip(0, &[ECHO; 16], 16), [ECHO; 16]);
}

/// Processor time of this process.
fn cpu_milliseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

#[test]
fn available_index_far_ahead() {
    given_up(|guest, _| guest.set_avail_index(0, RING + 2));
}

#[test]
fn available_index_behind() {
    given_up(|guest, _| guest.set_avail_index(0, 0));
}

#[test]
fn head_outside_the_table() {
    given_up(|guest, _| guest.push(0, RING));
}

#[test]
fn one_chain_made_available_again_and_again() {
    given_up(|guest, stub| {
        let held = || stub.seen.lock().unwrap().iter().filter(|seen| seen.bytes[0] == HOLD).count();
        for count in 1..=usize::from(RING) {
            guest.send(0, 0, &[HOLD; 16], 16);
            eventually(|| held() == count);
        }
        guest.send(0, 0, &[HOLD; 16], 16);
        guest.round_trip(1, &[ECHO; 16], 16);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(held(), usize::from(RING));
    });
}
