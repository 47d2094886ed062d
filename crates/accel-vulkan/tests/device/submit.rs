//! Order, fairness, cancellation, deadlines, loss, and threads that sleep.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accel_vulkan::{EngineOptions, Error, Failure, MemoryKind, Outcome};

use crate::support::{Mailbox, PATIENCE, affine_plan, buffer, load, open, open_with, slow, slow_plan, words};

const EXPIRED: Outcome = Outcome::Failed(Failure::DeadlineExpired);

#[test]
fn two_hundred_submissions_end_once_each_and_in_order() {
    let Some(engine) = open() else { return };
    let add_one = load(&engine, affine_plan(1000, 1, 1));
    let mailbox = Mailbox::new();
    let queues = [engine.create_queue().unwrap(), engine.create_queue().unwrap()];
    // Each queue increments its own buffer in place: right only if every submission sees the one before.
    let buffers = [buffer(&engine, &[0; 1000]), buffer(&engine, &[7; 1000])];
    for step in 0..100 {
        for (which, (queue, buffer)) in queues.iter().zip(&buffers).enumerate() {
            let binding = [(Arc::clone(buffer), 0)];
            let tag = which as u32 * 1000 + step;
            queue.submit(&add_one, &binding, &binding, None, mailbox.callback(tag)).unwrap();
        }
    }
    let mut seen = [0, 0];
    for _ in 0..200 {
        let (tag, finished) = mailbox.next();
        let which = (tag / 1000) as usize;
        assert_eq!(finished.outcome, Outcome::Complete);
        assert_eq!(tag % 1000, seen[which], "in order on queue {which}");
        seen[which] += 1;
    }
    assert_eq!(words(&buffers[0]), [100; 1000]);
    assert_eq!(words(&buffers[1]), [107; 1000]);
    assert!(mailbox.is_empty());
}

#[test]
fn a_busy_queue_does_not_starve_another() {
    let Some(engine) = open() else { return };
    let program = slow(&engine, 5);
    let mailbox = Mailbox::new();
    let (busy, other) = (engine.create_queue().unwrap(), engine.create_queue().unwrap());
    let binding = [(buffer(&engine, &[0; 64]), 0)];
    for tag in 0..40 {
        busy.submit(&program, &binding, &binding, None, mailbox.callback(tag)).unwrap();
    }
    other.submit(&program, &binding, &binding, None, mailbox.callback(100)).unwrap();
    let order: Vec<u32> = (0..41).map(|_| mailbox.next().0).collect();
    let position = order.iter().position(|tag| *tag == 100).unwrap();
    assert!(position < 30, "served at {position} of 41");
}

#[test]
fn cancelling_wins_until_a_submission_has_ended() {
    let options = EngineOptions { window: 1, ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let slow = slow(&engine, 400);
    let quick = load(&engine, affine_plan(64, 1, 1));
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let (to, untouched) = (buffer(&engine, &[0; 64]), buffer(&engine, &[3; 64]));
    let binding = [(Arc::clone(&to), 0)];
    let running = queue.submit(&slow, &binding, &binding, None, mailbox.callback(0)).unwrap();
    let waiting = [(Arc::clone(&untouched), 0)];
    let waits = queue.submit(&quick, &waiting, &waiting, None, mailbox.callback(1)).unwrap();
    let last = queue.submit(&quick, &binding, &binding, None, mailbox.callback(2)).unwrap();
    let cancelled = |tag| (tag, accel_vulkan::Finished { outcome: Outcome::Cancelled, gpu_ns: 0 });
    assert!(waits.cancel());
    assert_eq!(mailbox.next(), cancelled(1));
    assert!(!waits.cancel(), "only once");
    assert!(running.cancel(), "though the device has it");
    assert_eq!(mailbox.next(), cancelled(0), "before the device is done with it");
    assert!(!running.cancel(), "only once");
    assert_eq!(mailbox.next().0, 2);
    assert!(!last.cancel());
    assert_eq!(words(&to), [2; 64], "what the device had ran to its end, and the later one after it");
    assert_eq!(words(&untouched), [3; 64]);
    assert!(mailbox.is_empty());
}

#[test]
fn the_host_keeps_off_a_buffer_until_cancelled_work_is_done_with_it() {
    let Some(engine) = open() else { return };
    let slow = slow(&engine, 400);
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let to = buffer(&engine, &[0; 64]);
    let binding = [(Arc::clone(&to), 0)];
    let ticket = queue.submit(&slow, &binding, &binding, None, mailbox.callback(0)).unwrap();
    assert!(ticket.cancel());
    to.write(0, &[9; 256]).unwrap();
    // Whatever the cancelled submission stored came before.
    drop(queue);
    drop(engine);
    let mut bytes = [0; 256];
    to.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 256]);
}

#[test]
fn deadlines_expire_on_the_host_and_on_the_device() {
    let options = EngineOptions { window: 1, ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let slow = slow(&engine, 1000);
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let (running, waiting) = (buffer(&engine, &[0; 64]), buffer(&engine, &[0; 64]));
    let start = Instant::now();
    let submit = |buffer: &Arc<_>, millis, tag| {
        let binding = [(Arc::clone(buffer), 0)];
        let timeout = Some(Duration::from_millis(millis));
        queue.submit(&slow, &binding, &binding, timeout, mailbox.callback(tag)).unwrap()
    };
    submit(&running, 100, 0);
    submit(&waiting, 30, 1);
    submit(&running, 3_600_000, 2);
    let (first, second) = (mailbox.next(), mailbox.next());
    assert_eq!((first.0, first.1.outcome), (1, EXPIRED));
    assert_eq!((second.0, second.1.outcome), (0, EXPIRED));
    assert!(start.elapsed() >= Duration::from_millis(100));
    let third = mailbox.next();
    assert_eq!((third.0, third.1.outcome), (2, Outcome::Complete));
    assert_eq!(words(&running), [1; 64], "what was on the device ran to its end");
    assert_eq!(words(&waiting), [0; 64], "what was not never ran");
    assert!(mailbox.is_empty());
}

#[test]
fn a_timeout_beyond_the_clock_never_comes() {
    let Some(engine) = open() else { return };
    let program = load(&engine, affine_plan(64, 1, 1));
    let mailbox = Mailbox::new();
    let binding = [(buffer(&engine, &[0; 64]), 0)];
    let queue = engine.create_queue().unwrap();
    queue.submit(&program, &binding, &binding, Some(Duration::MAX), mailbox.callback(0)).unwrap();
    assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
}

#[test]
fn everything_may_be_dropped_while_the_device_works() {
    let Some(engine) = open() else { return };
    let mailbox = Mailbox::new();
    {
        let slow = slow(&engine, 100);
        let binding = [(buffer(&engine, &[0; 64]), 0)];
        let queue = engine.create_queue().unwrap();
        for tag in 0..6 {
            queue.submit(&slow, &binding, &binding, None, mailbox.callback(tag)).unwrap();
        }
    }
    assert!(engine.memory_used() > 0, "work in flight holds its buffers");
    drop(engine);
    // The engine waited for its window of four; the two behind it were cancelled.
    let mut outcomes: Vec<_> = (0..6).map(|_| mailbox.next()).map(|(tag, f)| (tag, f.outcome)).collect();
    outcomes.sort_by_key(|(tag, _)| *tag);
    let wanted = |tag| if tag < 4 { Outcome::Complete } else { Outcome::Cancelled };
    assert_eq!(outcomes, (0..6).map(|tag| (tag, wanted(tag))).collect::<Vec<_>>());
}

#[test]
fn a_callback_may_use_the_engine_and_panic() {
    let Some(engine) = open() else { return };
    let program = load(&engine, affine_plan(64, 1, 1));
    let mailbox = Mailbox::new();
    let binding = [(buffer(&engine, &[0; 64]), 0)];
    let queue = Arc::new(engine.create_queue().unwrap());
    let again = (Arc::clone(&queue), Arc::clone(&program), binding.clone(), mailbox.callback(1));
    let chained = Box::new(move |_| {
        let (queue, program, binding, callback) = again;
        queue.submit(&program, &binding, &binding, None, callback).unwrap();
        panic!("a panic in a callback is contained");
    });
    queue.submit(&program, &binding, &binding, None, chained).unwrap();
    assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
    assert_eq!(words(&binding[0].0), [2; 64]);
}

#[test]
fn a_hung_device_is_given_up_and_a_new_engine_works() {
    let options = EngineOptions { watchdog: Some(Duration::from_millis(400)), ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let slow = slow(&engine, 1600);
    let mailbox = Mailbox::new();
    let binding = [(buffer(&engine, &[0; 64]), 0)];
    let queue = engine.create_queue().unwrap();
    for tag in 0..6 {
        queue.submit(&slow, &binding, &binding, None, mailbox.callback(tag)).unwrap();
    }
    let lost = Outcome::Failed(Failure::DeviceLost);
    let ends: Vec<_> = (0..6).map(|_| mailbox.next()).map(|(tag, f)| (tag, f.outcome)).collect();
    assert_eq!(ends, (0..6).map(|tag| (tag, lost)).collect::<Vec<_>>());
    assert!(engine.lost());
    let refused = queue.submit(&slow, &binding, &binding, None, Box::new(|_| ()));
    assert!(matches!(refused.err(), Some(Error::DeviceLost)));
    assert!(matches!(engine.allocate(1, MemoryKind::Host), Err(Error::DeviceLost)));
    assert!(matches!(binding[0].0.read(0, &mut [0]), Err(Error::DeviceLost)));
    assert!(matches!(engine.load(slow_plan(1)), Err(Error::DeviceLost)));
    drop((slow, binding, queue, engine));

    let anew = open().unwrap();
    let program = load(&anew, affine_plan(64, 1, 1));
    let binding = [(buffer(&anew, &[0; 64]), 0)];
    let queue = anew.create_queue().unwrap();
    queue.submit(&program, &binding, &binding, None, mailbox.callback(9)).unwrap();
    assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
    assert_eq!(words(&binding[0].0), [1; 64]);
}

/// User and system time of this process's threads of a name.
fn cpu_ticks(name: &str) -> u64 {
    let mut ticks = 0;
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim() != name {
            continue;
        }
        // Fields after the parenthesised name: state is the first, utime the 12th, stime the 13th.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap();
        let after: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        ticks += after[11].parse::<u64>().unwrap() + after[12].parse::<u64>().unwrap();
    }
    ticks
}

#[test]
fn the_threads_sleep_while_the_device_works() {
    let Some(engine) = open() else { return };
    let slow = slow(&engine, 800);
    let mailbox = Mailbox::new();
    let binding = [(buffer(&engine, &[0; 64]), 0)];
    let queue = engine.create_queue().unwrap();
    let start = Instant::now();
    queue.submit(&slow, &binding, &binding, Some(PATIENCE), mailbox.callback(0)).unwrap();
    assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
    let waited = start.elapsed();
    assert!(waited > Duration::from_millis(300), "the kernel was too quick to tell: {waited:?}");
    // A tick is 10 ms; a thread that spins would have 30 and more.
    let ticks = cpu_ticks("accel-complete") + cpu_ticks("accel-deadline");
    assert!(ticks <= 1, "{ticks} ticks in {waited:?}");
}
