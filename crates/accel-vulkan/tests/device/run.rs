//! What a plan computes, and what is refused.

use std::fs;
use std::sync::Arc;

use accel_kernels::{Next, PipelineSpec, Place, Plan, Region, Segment, State};
use accel_vulkan::{Engine, EngineOptions, Error, Finished, Outcome, Program};

use crate::kernels;
use crate::support::{Mailbox, affine_plan, buffer, dispatch, load, open, open_with, place, slot, words};

fn run(
    engine: &Engine,
    program: &Arc<Program>,
    inputs: &[accel_vulkan::Binding],
    outputs: &[accel_vulkan::Binding],
) -> Finished {
    let mailbox = Mailbox::new();
    let queue = engine.create_queue().unwrap();
    queue.submit(program, inputs, outputs, None, mailbox.callback(0)).unwrap();
    mailbox.next().1
}

/// `arena = in * 3 + 1`, then `out = arena + constants`.
fn two_step_plan(count: u32) -> Plan {
    let constants: Vec<u32> = (0..count).map(|i| i * 1000).collect();
    Plan {
        inputs: vec![slot("in", count)],
        outputs: vec![slot("out", count)],
        pipelines: vec![
            PipelineSpec { module: kernels::affine(), constants: vec![(3, 3)] },
            PipelineSpec { module: kernels::sum(), constants: vec![] },
        ],
        dispatches: vec![
            dispatch(
                0,
                vec![place(Region::Input(0)), Place { region: Region::Arena, offset: 512 }],
                vec![count, 1],
                count,
                false,
            ),
            dispatch(
                1,
                vec![
                    Place { region: Region::Arena, offset: 512 },
                    Place { region: Region::Constants, offset: 16 },
                    place(Region::Output(0)),
                ],
                vec![count],
                count,
                true,
            ),
        ],
        segments: Segment::whole(2),
        decisions: 0,
        constants: [[0; 16].to_vec(), constants.iter().flat_map(|w| w.to_le_bytes()).collect()].concat(),
        state: State::default(),
        arena_bytes: 512 + u64::from(count) * 4,
    }
}

#[test]
fn two_dispatches_meet_in_the_arena_and_leave_the_tail_alone() {
    let Some(engine) = open() else { return };
    for count in [1, 63, 1001, 70_000] {
        let program = load(&engine, two_step_plan(count));
        assert_eq!(program.resident_bytes(), u64::from(count) * 8 + 512 + 16);
        let input: Vec<u32> = (0..count).map(|i| i ^ 0x55).collect();
        let from = buffer(&engine, &input);
        let to = buffer(&engine, &vec![0xdead_beef; count as usize + 7]);
        let finished = run(&engine, &program, &[(from, 0)], &[(Arc::clone(&to), 8)]);
        assert_eq!(finished.outcome, Outcome::Complete);
        assert!(finished.gpu_ns > 0);
        let result = words(&to);
        let wanted: Vec<u32> = input.iter().enumerate().map(|(i, x)| x * 3 + 1 + i as u32 * 1000).collect();
        assert_eq!(result[..2], [0xdead_beef; 2]);
        assert_eq!(result[2..count as usize + 2], wanted);
        assert_eq!(result[count as usize + 2..], [0xdead_beef; 5]);
    }
}

#[test]
fn a_program_is_replayed_with_other_bindings() {
    let Some(engine) = open() else { return };
    let program = load(&engine, affine_plan(100, 2, 5));
    // More sets than recordings are kept, twice round, so that some are replayed and some recorded anew.
    let sets: Vec<_> =
        (0..12u32).map(|set| (buffer(&engine, &[set; 100]), buffer(&engine, &[0; 100]))).collect();
    for round in 0..2 {
        for (set, (from, to)) in sets.iter().enumerate() {
            let finished = run(&engine, &program, &[(Arc::clone(from), 0)], &[(Arc::clone(to), 0)]);
            assert_eq!(finished.outcome, Outcome::Complete);
            assert_eq!(words(to), [set as u32 * 2 + 5; 100], "round {round} set {set}");
            to.write(0, &[0; 400]).unwrap();
        }
    }
}

#[test]
fn specializations_of_a_module_are_pipelines_of_their_own() {
    let Some(engine) = open() else { return };
    let from = buffer(&engine, &[7; 10]);
    let programs: Vec<_> =
        (1..20).map(|factor| (factor, load(&engine, affine_plan(10, factor, 0)))).collect();
    for (factor, program) in &programs {
        let to = buffer(&engine, &[0; 10]);
        run(&engine, program, &[(Arc::clone(&from), 0)], &[(Arc::clone(&to), 0)]);
        assert_eq!(words(&to), [7 * factor; 10]);
    }
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let Some(engine) = open() else { return };
    let refuse = |change: fn(&mut Plan), part: &str| {
        let mut plan = two_step_plan(64);
        change(&mut plan);
        let error = engine.load(plan).unwrap_err();
        assert!(matches!(&error, Error::Plan(text) if text.contains(part)), "{error}");
    };
    refuse(|p| p.dispatches[1].pipeline = 2, "no pipeline 2");
    refuse(|p| p.dispatches[1].params = vec![0; 100_000], "push constants");
    refuse(|p| p.dispatches[0].groups = [1, 0, 1], "groups");
    refuse(|p| p.dispatches[0].groups = [1, u32::MAX, 1], "groups");
    refuse(|p| p.dispatches[0].operands[0].region = Region::Input(1), "Input(1)");
    refuse(|p| p.dispatches[1].operands[2].region = Region::Output(1), "Output(1)");
    refuse(|p| p.arena_bytes = 512, "Arena");
    refuse(|p| p.constants.truncate(16), "Constants");
    refuse(|p| p.segments.clear(), "segments");
    refuse(|p| p.segments[0].dispatches = 0..1, "segments");
    refuse(|p| p.segments[0].dispatches = 1..2, "segment 0: its dispatches do not follow");
    refuse(|p| p.segments[0].next = Next::Segment(1), "does not exist");
    refuse(|p| p.segments[0].next = Next::Segment(0), "followed by itself");
    refuse(|p| p.segments[0].next = Next::Decide { decision: 0, on_true: 0, on_false: 0 }, "does not exist");
    refuse(
        |p| {
            p.decisions = 1;
            p.segments[0].next = Next::Decide { decision: 0, on_true: 0, on_false: 1 };
        },
        "does not exist",
    );
    refuse(|p| p.dispatches[0].operands[0].region = Region::Decisions, "Decisions");
    assert_eq!(engine.memory_used(), 0, "a refused plan leaves nothing behind");
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    let (Some(engine), Some(other)) = (open(), open()) else { return };
    let program = load(&engine, affine_plan(8, 1, 0));
    let queue = engine.create_queue().unwrap();
    let (from, to) = (buffer(&engine, &[0; 9]), buffer(&engine, &[0; 8]));
    let foreign = buffer(&other, &[0; 8]);
    let refuse = |inputs: &[_], outputs: &[_]| {
        let called = Box::new(|_| panic!("a refused submission calls nobody"));
        queue.submit(&program, inputs, outputs, None, called).err().unwrap()
    };
    let (a, b) = (|offset| (Arc::clone(&from), offset), |offset| (Arc::clone(&to), offset));
    assert!(matches!(refuse(&[], &[b(0)]), Error::Binding(_)));
    assert!(matches!(refuse(&[a(0)], &[b(0), b(0)]), Error::Binding(_)));
    assert!(matches!(refuse(&[a(2)], &[b(0)]), Error::Binding(_)));
    assert!(matches!(refuse(&[a(8)], &[b(0)]), Error::OutOfRange { .. }));
    assert!(matches!(refuse(&[a(u64::MAX - 3)], &[b(0)]), Error::OutOfRange { .. }));
    assert!(matches!(refuse(&[a(4)], &[b(4)]), Error::OutOfRange { .. }));
    assert!(matches!(refuse(&[a(0)], &[(foreign, 0)]), Error::Binding(_)));
    let strange = load(&other, affine_plan(8, 1, 0));
    let error = queue.submit(&strange, &[a(0)], &[b(0)], None, Box::new(|_| ())).err().unwrap();
    assert!(matches!(error, Error::Binding(_)));
}

#[test]
fn the_pipeline_cache_is_kept_and_a_damaged_one_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        || EngineOptions { pipeline_cache_dir: Some(directory.path().into()), ..Default::default() };
    let file = || {
        let entries: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries[0].clone()
    };
    let works = |engine: &Engine| {
        let program = load(engine, affine_plan(10, 9, 1));
        let (from, to) = (buffer(engine, &[1; 10]), buffer(engine, &[0; 10]));
        run(engine, &program, &[(from, 0)], &[(Arc::clone(&to), 0)]);
        assert_eq!(words(&to), [10; 10]);
    };
    let Some(engine) = open_with(options()) else { return };
    works(&engine);
    drop(engine);
    let first = fs::read(file()).unwrap();
    assert!(first.len() >= 16 + 32, "the driver's own header at least");

    works(&open_with(options()).unwrap());
    let again = fs::read(file()).unwrap();
    assert_eq!(again.len(), first.len(), "what was read is written back");

    let mut damaged = first.clone();
    damaged[40] ^= 0xff;
    for bad in [&damaged[..], &first[..20], b"", b"something else altogether that is longer than a header"] {
        fs::write(file(), bad).unwrap();
        works(&open_with(options()).unwrap());
        assert_eq!(fs::read(file()).unwrap().len(), first.len(), "the damaged file is replaced");
    }
}

#[test]
fn an_unknown_device_is_refused_with_those_that_exist() {
    let Some(engine) = open() else { return };
    let selector = "a device that nobody makes".parse().unwrap();
    let error = Engine::open(&selector, &EngineOptions::default()).unwrap_err();
    assert!(error.to_string().contains(&engine.caps().name), "{error}");
}
