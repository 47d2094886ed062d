//! Programs that decide: their order among others, and how those that never end are ended.

use std::sync::Arc;
use std::time::Duration;

use accel_kernels::{Next, PipelineSpec, Plan, Region, Segment, State};
use accel_vulkan::{EngineOptions, Failure, Outcome};

use crate::kernels;
use crate::support::{
    Mailbox, affine_plan, buffer, dispatch, load, open, open_with, place, slot, slow, words,
};

const EXPIRED: Outcome = Outcome::Failed(Failure::DeadlineExpired);

/// `do out = in + add while (out != 0)`: bound to one buffer it counts; with `add` 0 it goes on for ever.
fn counting_plan(add: i32) -> Plan {
    let affine = |to, from, add, barrier| dispatch(0, vec![place(from), place(to)], vec![1, add], 1, barrier);
    Plan {
        inputs: vec![slot("in", 1)],
        outputs: vec![slot("out", 1)],
        pipelines: vec![PipelineSpec { module: kernels::affine(), constants: vec![(3, 1)] }],
        dispatches: vec![
            affine(Region::Output(0), Region::Input(0), add as u32, false),
            affine(Region::Decisions, Region::Output(0), 0, true),
        ],
        segments: vec![
            Segment { dispatches: 0..2, next: Next::Decide { decision: 0, on_true: 0, on_false: 1 } },
            Segment { dispatches: 2..2, next: Next::End },
        ],
        decisions: 1,
        constants: Vec::new(),
        state: State::default(),
        arena_bytes: 0,
    }
}

#[test]
fn later_submissions_of_a_queue_come_after_the_whole_loop() {
    let Some(engine) = open() else { return };
    let (down, add) = (load(&engine, counting_plan(-1)), load(&engine, affine_plan(1, 1, 5)));
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let to = buffer(&engine, &[3]);
    let binding = [(Arc::clone(&to), 0)];
    // 3 counts down to 0, plus 5; 5 counts down to 0, plus 5; and so on.
    for tag in 0..20 {
        let program = if tag % 2 == 0 { &down } else { &add };
        queue.submit(program, &binding, &binding, None, mailbox.callback(tag)).unwrap();
    }
    for tag in 0..20 {
        let (found, finished) = mailbox.next();
        assert_eq!((found, finished.outcome), (tag, Outcome::Complete));
    }
    assert_eq!(words(&to), [5]);
}

/// Both leave their decisions in the same place, so they must not be on the device at once.
#[test]
fn submissions_of_one_program_on_several_queues_keep_apart() {
    let Some(engine) = open() else { return };
    let down = load(&engine, counting_plan(-1));
    let mailbox = Mailbox::new();
    let counts: Vec<_> = (1..9).map(|count| buffer(&engine, &[count * 3])).collect();
    for (tag, count) in (0..).zip(&counts) {
        let binding = [(Arc::clone(count), 0)];
        let queue = engine.create_queue().unwrap();
        queue.submit(&down, &binding, &binding, None, mailbox.callback(tag)).unwrap();
    }
    for _ in &counts {
        assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
    }
    assert!(counts.iter().all(|count| words(count) == [0]));
}

/// Cancelled, an endless loop makes way for its queue; meanwhile other queues went on.
#[test]
fn an_endless_loop_ends_when_cancelled_and_starves_nobody() {
    let options = EngineOptions { window: 1, ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let (endless, add) = (load(&engine, counting_plan(0)), load(&engine, affine_plan(1, 1, 1)));
    let mailbox = Mailbox::new();
    let (stuck, other) = (engine.create_queue().unwrap(), engine.create_queue().unwrap());
    let (one, sum) = (buffer(&engine, &[1]), buffer(&engine, &[0]));
    let (looping, adding) = ([(Arc::clone(&one), 0)], [(Arc::clone(&sum), 0)]);
    let ticket = stuck.submit(&endless, &looping, &looping, None, mailbox.callback(1000)).unwrap();
    // Another of the program waits its turn, and can be cancelled there.
    let same = engine.create_queue().unwrap();
    let waiting = same.submit(&endless, &looping, &looping, None, mailbox.callback(1001)).unwrap();
    stuck.submit(&add, &looping, &looping, None, mailbox.callback(1002)).unwrap();
    for tag in 0..50 {
        other.submit(&add, &adding, &adding, None, mailbox.callback(tag)).unwrap();
    }
    for tag in 0..50 {
        assert_eq!((mailbox.next().0), tag, "the loop and what waits behind it do not end");
    }
    assert_eq!(words(&sum), [50]);
    assert!(waiting.cancel());
    assert_eq!((mailbox.next().0), 1001);
    assert!(ticket.cancel());
    assert!(!ticket.cancel(), "only once");
    let (tag, finished) = mailbox.next();
    assert_eq!((tag, finished.outcome), (1000, Outcome::Cancelled));
    let (tag, finished) = mailbox.next();
    assert_eq!((tag, finished.outcome), (1002, Outcome::Complete));
    assert_eq!(words(&one), [2], "what came behind it ran once it was over");
    assert!(mailbox.is_empty());
}

#[test]
fn an_endless_loop_ends_at_its_deadline() {
    let Some(engine) = open() else { return };
    let endless = load(&engine, counting_plan(0));
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let binding = [(buffer(&engine, &[1]), 0)];
    for (tag, millis) in [(0, 30), (1, 60)] {
        let timeout = Some(Duration::from_millis(millis));
        queue.submit(&endless, &binding, &binding, timeout, mailbox.callback(tag)).unwrap();
    }
    for tag in 0..2 {
        let (found, finished) = mailbox.next();
        assert_eq!((found, finished.outcome), (tag, EXPIRED));
    }
    assert!(!engine.lost());
}

/// Without a deadline the watchdog's time is the bound, for each submission anew; the device is not lost.
#[test]
fn an_endless_loop_ends_with_the_watchdogs_time() {
    let options = EngineOptions { watchdog: Some(Duration::from_millis(3000)), ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let (endless, add) = (load(&engine, counting_plan(0)), load(&engine, affine_plan(1, 1, 1)));
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    let binding = [(buffer(&engine, &[1]), 0)];
    for (tag, timeout) in [(0, None), (1, Some(Duration::from_secs(3600)))] {
        queue.submit(&endless, &binding, &binding, timeout, mailbox.callback(tag)).unwrap();
    }
    queue.submit(&add, &binding, &binding, None, mailbox.callback(2)).unwrap();
    for tag in 0..2 {
        let (found, finished) = mailbox.next();
        assert_eq!((found, finished.outcome), (tag, EXPIRED));
    }
    assert_eq!(mailbox.next().1.outcome, Outcome::Complete);
    assert!(!engine.lost());
    assert_eq!(words(&binding[0].0), [2]);
}

#[test]
fn an_endless_loop_ends_with_its_engine() {
    let Some(engine) = open() else { return };
    let mailbox = Mailbox::new();
    {
        let endless = load(&engine, counting_plan(0));
        let binding = [(buffer(&engine, &[1]), 0)];
        let queue = engine.create_queue().unwrap();
        queue.submit(&endless, &binding, &binding, None, mailbox.callback(0)).unwrap();
        queue.submit(&endless, &binding, &binding, None, mailbox.callback(1)).unwrap();
    }
    drop(engine);
    let mut ends = [mailbox.next(), mailbox.next()].map(|(tag, finished)| (tag, finished.outcome));
    ends.sort_by_key(|(tag, _)| *tag);
    assert_eq!(ends, [(0, Outcome::Cancelled), (1, Outcome::Cancelled)]);
}

#[test]
fn an_endless_loop_ends_with_a_lost_device() {
    let options = EngineOptions { watchdog: Some(Duration::from_millis(400)), ..Default::default() };
    let Some(engine) = open_with(options) else { return };
    let (slow, endless) = (slow(&engine, 1600), load(&engine, counting_plan(0)));
    let mailbox = Mailbox::new();
    let (first, second) = (engine.create_queue().unwrap(), engine.create_queue().unwrap());
    let (block, one) = ([(buffer(&engine, &[0; 64]), 0)], [(buffer(&engine, &[1]), 0)]);
    first.submit(&slow, &block, &block, None, mailbox.callback(0)).unwrap();
    second.submit(&endless, &one, &one, None, mailbox.callback(1)).unwrap();
    second.submit(&endless, &one, &one, None, mailbox.callback(2)).unwrap();
    // Its own time runs out at about the moment at which the device is given up.
    for _ in 0..3 {
        assert!(matches!(mailbox.next().1.outcome, Outcome::Failed(_)));
    }
    assert!(engine.lost());
}
