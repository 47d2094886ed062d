//! Work in flight: order, BUSY, events, waits, cancellation, deadlines, reset.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use accel_device::DeviceConfig;
use accel_device::null;
use accel_proto::*;
use support::*;

#[test]
fn execute_answers_when_the_work_ends() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let execution = guest.execute(&bench.work());
    assert!(execution.is_open());
    for (opcode, id) in [
        (Opcode::FreeBuffer, bench.output),
        (Opcode::UnloadProgram, bench.program),
        (Opcode::DestroyQueue, bench.queue),
        (Opcode::DestroyContext, bench.context),
    ] {
        assert_eq!(guest.on(opcode, id), Err(Status::Busy), "{opcode}");
    }
    assert_eq!(guest.write(bench.input, 0, &[1]), Err(Status::Busy));
    guest.backend.release();
    let result = ExecuteResult::read_from_bytes(&execution.wait().unwrap()).unwrap();
    assert_eq!(result.gpu_ns.get(), 1000);
    assert_eq!(guest.read(bench.output, 0, 16), Ok(inverted()), "released with the answer");
    for id in 1..100 {
        assert_eq!(guest.poll(id), Err(Status::StaleObject), "EXECUTE leaves no event");
    }
}

#[test]
fn the_hidden_job_of_an_execute_is_no_event() {
    let bench = Bench::new();
    bench.guest.backend.hold();
    let execution = bench.guest.execute(&bench.work());
    for id in 1..100 {
        for opcode in [Opcode::PollEvent, Opcode::CancelEvent, Opcode::DestroyEvent] {
            assert_eq!(bench.guest.on(opcode, id), Err(Status::StaleObject));
        }
    }
    bench.guest.backend.release();
    execution.wait().unwrap();
}

#[test]
fn work_of_one_queue_may_build_on_work_in_flight() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let last = guest.buffer(bench.context, 16, ANY).unwrap();
    let first = guest.execute(&bench.work());
    let mut work = bench.work();
    work.bindings[0].buffer_id = bench.output.into();
    work.bindings[1].buffer_id = last.into();
    let second = guest.execute(&work);

    let other_queue = guest.queue(bench.context).unwrap();
    let elsewhere = Work { queue: other_queue, ..work };
    assert_eq!(guest.execute(&elsewhere).wait(), Err(Status::Busy), "no order between queues");
    let mut spoiled = Work { queue: other_queue, ..bench.work() };
    spoiled.bindings[0].buffer_id = bench.output.into();
    spoiled.bindings[1].buffer_id = guest.buffer(bench.context, 16, ANY).unwrap().into();
    assert_eq!(guest.execute(&spoiled).wait(), Err(Status::Busy), "it reads what another queue writes");
    let mut reader = Work { queue: other_queue, ..bench.work() };
    reader.bindings[1].buffer_id = guest.buffer(bench.context, 16, ANY).unwrap().into();
    let third = guest.execute(&reader);
    assert!(first.is_open() && second.is_open() && third.is_open(), "two queues may read one buffer");
    guest.backend.release();
    for execution in [first, second, third] {
        execution.wait().unwrap();
    }
    assert_eq!(guest.read(last, 0, 16), Ok(INPUT.to_vec()), "inverted twice");
}

#[test]
fn an_ended_event_frees_the_buffer_for_other_queues_only() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let event = guest.submit(&bench.work()).unwrap();
    guest.finish(event);
    let other_queue = guest.queue(bench.context).unwrap();
    guest.execute(&Work { queue: other_queue, ..bench.work() }).wait().unwrap();
    assert_eq!(guest.write(bench.input, 0, &[1]), Err(Status::Busy));
    assert_eq!(guest.copy((bench.input, 0), (bench.output, 0), 1), Err(Status::Busy));
}

#[test]
fn executions_of_a_queue_end_in_order_once_each() {
    let bench = Bench::new();
    bench.guest.backend.hold();
    let executions: Vec<_> = (0..50).map(|_| bench.guest.execute(&bench.work())).collect();
    bench.guest.backend.release();
    executions.last().unwrap().wait().unwrap();
    for execution in &executions[..49] {
        let answer = execution.bytes.try_recv().expect("earlier work was answered before");
        assert_eq!(answer.len(), 24);
        assert!(execution.is_dropped(), "no second answer");
    }
}

#[test]
fn failures_reach_events_and_executions() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let work = bench.work_with_key(null::KEY_FAILS);
    assert_eq!(guest.execute(&work).wait(), Err(Status::InternalError));
    let event = guest.submit(&work).unwrap();
    assert_eq!(guest.finish(event), (EventPhase::Failed, Status::InternalError));
    guest.on(Opcode::DestroyEvent, event).unwrap();
    guest.execute(&bench.work()).wait().unwrap();
}

#[test]
fn bindings_are_checked_in_slot_order() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let plain = guest.buffer(bench.context, 16, Usage::PROGRAM_INPUT).unwrap();
    let work = |first: Binding, second: Binding| Work { bindings: vec![first, second], ..bench.work() };
    let denied = binding(0, plain, 16, Access::Write);
    let outside = Binding { offset: 1.into(), ..binding(1, bench.output, 16, Access::Write) };
    for bindings in [[denied, outside], [outside, denied]] {
        let work = work(bindings[0], bindings[1]);
        assert_eq!(guest.submit(&work), Err(Status::PermissionDenied), "slot 0 first");
    }
    guest.backend.hold();
    let earlier = guest.execute(&bench.work());
    let elsewhere = Work { queue: guest.queue(bench.context).unwrap(), ..work(denied, outside) };
    assert_eq!(guest.submit(&elsewhere), Err(Status::PermissionDenied), "BUSY comes last");
    guest.backend.release();
    earlier.wait().unwrap();
    let both = Binding { offset: 1.into(), ..denied };
    assert_eq!(guest.submit(&work(both, outside)), Err(Status::OutOfBounds), "range before usage");
    let short = binding(1, bench.output, 15, Access::Write);
    let fine = binding(0, plain, 16, Access::Read);
    assert_eq!(guest.submit(&work(fine, short)), Err(Status::InvalidArgument), "the backend's check");
    guest.on(Opcode::FreeBuffer, plain).expect("nothing was retained");
    let wrong_slot = Work { bindings: vec![outside_slot(bench.output)], ..bench.work() };
    assert_eq!(guest.submit(&wrong_slot), Err(Status::InvalidArgument));
    let elsewhere = Work { queue: guest.queue(bench.context).unwrap(), ..bench.work() };
    guest.execute(&elsewhere).wait().expect("refused work is not in anybody's way");
}

/// A binding that fits its buffer and no slot of the bench's program.
fn outside_slot(buffer: u64) -> Binding {
    binding(7, buffer, 16, Access::Write)
}

#[test]
fn a_transfer_going_on_keeps_its_buffer() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold_reads(true);
    thread::scope(|scope| {
        let reading = scope.spawn(|| guest.read(bench.input, 0, 16));
        let patience = Instant::now() + PATIENCE;
        while guest.backend.reads_waiting() == 0 {
            assert!(Instant::now() < patience, "the read does not begin");
            thread::sleep(Duration::from_millis(1));
        }
        let (submitted, freed) = (guest.submit(&bench.work()), guest.on(Opcode::FreeBuffer, bench.input));
        guest.backend.hold_reads(false);
        assert_eq!((submitted, freed), (Err(Status::Busy), Err(Status::Busy)));
        assert_eq!(reading.join().unwrap(), Ok(INPUT.to_vec()));
    });
    guest.execute(&bench.work()).wait().unwrap();
}

#[test]
fn a_wait_ends_with_the_event_or_its_deadline() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let event = guest.submit(&bench.work()).unwrap();
    assert_eq!(guest.on(Opcode::DestroyEvent, event), Err(Status::Busy));
    assert_eq!(guest.poll(event), Ok((EventPhase::Pending, Status::Ok)));
    let forever = guest.wait_event(event, Duration::ZERO);
    let endless = guest.wait_event(event, Duration::from_nanos(u64::MAX));
    let begin = Instant::now();
    let long = guest.wait_event(event, Duration::from_millis(60));
    let short = guest.wait_event(event, Duration::from_millis(20));
    assert_eq!(short.wait(), Err(Status::DeadlineExpired));
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert_eq!(long.wait(), Err(Status::DeadlineExpired));
    assert!(begin.elapsed() >= Duration::from_millis(60));
    assert!(forever.is_open() && endless.is_open());
    guest.backend.release();
    for wait in [forever, endless] {
        let result = WaitResult::read_from_bytes(&wait.wait().unwrap()).unwrap();
        assert_eq!(result.event.state.get(), EventPhase::Complete.code());
        assert_eq!(result.gpu_ns.get(), 1000);
    }
    guest.wait_event(event, Duration::from_nanos(1)).wait().expect("an ended event has no deadline");
    guest.on(Opcode::DestroyEvent, event).unwrap();
    assert_eq!(guest.wait_event(event, Duration::ZERO).wait(), Err(Status::StaleObject));
}

#[test]
fn cancellation_wins_and_loses() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let won = guest.submit(&bench.work()).unwrap();
    let kept = guest.submit(&bench.work()).unwrap();
    let wait = guest.wait_event(won, Duration::from_secs(100));
    guest.on(Opcode::CancelEvent, won).unwrap();
    assert_eq!(guest.poll(won), Ok((EventPhase::Cancelled, Status::Ok)), "it is over with the answer");
    assert_eq!(event_state(&wait.wait().unwrap()[..8]), (EventPhase::Cancelled, Status::Ok));
    assert_eq!(guest.on(Opcode::CancelEvent, won), Err(Status::Busy), "it has ended already");
    guest.on(Opcode::DestroyEvent, won).unwrap();

    guest.backend.refuse_cancel(true);
    assert_eq!(guest.on(Opcode::CancelEvent, kept), Err(Status::Busy));
    assert_eq!(guest.poll(kept), Ok((EventPhase::Pending, Status::Ok)));
    guest.backend.refuse_cancel(false);
    guest.backend.release();
    assert_eq!(guest.finish(kept), (EventPhase::Complete, Status::Ok));
    assert_eq!(guest.on(Opcode::CancelEvent, kept), Err(Status::Busy), "completion won");
    assert_eq!(guest.poll(kept), Ok((EventPhase::Complete, Status::Ok)), "terminal states are stable");
}

#[test]
fn a_submission_has_a_deadline() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let work = Work { timeout: Duration::from_millis(10), ..bench.work() };
    assert_eq!(guest.execute(&work).wait(), Err(Status::DeadlineExpired));
    let event = guest.submit(&work).unwrap();
    assert_eq!(guest.finish(event), (EventPhase::Failed, Status::DeadlineExpired));
}

#[test]
fn reset_in_flight_leaves_nothing_behind() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let event = guest.submit(&bench.work()).unwrap();
    let wait = guest.wait_event(event, Duration::from_millis(20));
    let execution = guest.execute(&bench.work());
    guest.device.reset();
    assert!(wait.is_dropped() && execution.is_dropped(), "owed answers die");
    assert_eq!(guest.device.memory_used(), 0, "cancelled work holds nothing");
    for (opcode, id) in [
        (Opcode::DestroyContext, bench.context),
        (Opcode::FreeBuffer, bench.input),
        (Opcode::UnloadProgram, bench.program),
        (Opcode::DestroyQueue, bench.queue),
        (Opcode::DestroyEvent, event),
    ] {
        assert_eq!(guest.on(opcode, id), Err(Status::StaleObject), "{opcode}");
    }
    let old = bench.context;
    let context = guest.context().unwrap();
    assert_ne!(context, old);
    guest.backend.release();
    thread::sleep(Duration::from_millis(40));
    let again = Bench::of(Guest::with(guest.backend.clone(), DeviceConfig::default()));
    again.guest.execute(&again.work()).wait().unwrap();
}

#[test]
fn work_that_cannot_be_cancelled_ends_unheard() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    guest.backend.refuse_cancel(true);
    let execution = guest.execute(&bench.work());
    guest.device.reset();
    assert!(execution.is_dropped());
    assert_eq!(guest.device.memory_used(), 32 + 12, "running work keeps what it uses");
    guest.backend.release();
    let context = guest.context().unwrap();
    let queue = guest.queue(context).unwrap();
    let program = guest.program(context, 0, &[1]).unwrap();
    let buffer = guest.buffer(context, 1, ANY).unwrap();
    let bindings = vec![binding(0, buffer, 1, Access::Read)];
    guest.execute(&Work { queue, program, bindings, timeout: Duration::ZERO }).wait().unwrap();
    assert_eq!(guest.device.memory_used(), 9, "and gives it back at its end");
}

#[test]
fn a_load_across_a_reset_is_forgotten() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold_loads(true);
    thread::scope(|scope| {
        let artifact = null::artifact(0, &[4]);
        let context = bench.context;
        let loading = scope.spawn(move || {
            guest.start(Opcode::LoadProgram, &[load_head(context, artifact.len()).as_bytes(), &artifact])
        });
        while guest.device.memory_used() == 32 + 12 {
            thread::sleep(Duration::from_millis(1));
        }
        guest.device.reset();
        guest.backend.hold_loads(false);
        assert!(loading.join().unwrap().is_dropped());
    });
    assert_eq!(guest.device.memory_used(), 0);
}

#[test]
fn a_lost_device_refuses_everything_until_reset() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let work = bench.work_with_key(null::KEY_LOSES_DEVICE);
    guest.backend.hold();
    let first = guest.execute(&work);
    let second = guest.execute(&bench.work());
    guest.backend.release();
    assert_eq!(first.wait(), Err(Status::DeviceLost));
    assert_eq!(second.wait(), Err(Status::DeviceLost));
    assert!(guest.device.needs_reset());
    assert_eq!(guest.call(Opcode::GetDeviceInfo, &[]), Err(Status::DeviceLost));
    assert_eq!(guest.call(Opcode::GetDeviceInfo, &[&[0]]), Err(Status::InvalidArgument), "checks come first");
    guest.device.reset();
    assert!(!guest.device.needs_reset());
    let again = Bench::of(Guest::with(guest.backend.clone(), DeviceConfig::default()));
    again.guest.execute(&again.work()).wait().unwrap();
    guest.context().unwrap();
}

#[test]
fn a_transfer_that_loses_the_device_says_so() {
    let bench = Bench::new();
    bench.guest.backend.fail_next(Status::DeviceLost);
    assert_eq!(bench.guest.read(bench.input, 0, 1), Err(Status::DeviceLost));
    assert!(bench.guest.device.needs_reset());
}

#[test]
fn a_dropped_device_cancels_its_work() {
    let bench = Bench::new();
    bench.guest.backend.hold();
    let execution = bench.guest.execute(&bench.work());
    let Guest { device, backend, .. } = bench.guest;
    drop(device);
    assert!(execution.is_dropped());
    drop(backend);
}
