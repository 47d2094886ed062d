//! Several virtqueues at once, with resets in between.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use accel_device::{DeviceConfig, null};
use accel_proto::*;
use support::*;

/// One guest's round on objects of its own. A reset may take anything away at any point.
fn round(guest: &Guest) -> Result<(), Status> {
    let context = guest.try_make(Opcode::CreateContext, &[&[0; 8]])?;
    let input = guest.try_buffer(context)?;
    let output = guest.try_buffer(context)?;
    let queue = guest.try_make(Opcode::CreateQueue, &[&context.to_le_bytes(), &[0; 8]])?;
    let artifact = null::artifact(1, &[16, 16 | null::OUTPUT]);
    let program =
        guest.try_make(Opcode::LoadProgram, &[load_head(context, artifact.len()).as_bytes(), &artifact])?;
    guest.try_call(Opcode::WriteBuffer, &[transfer(input, 0, 16).as_bytes(), &INPUT])?;
    let head = Submit {
        queue_id: queue.into(),
        program_id: program.into(),
        binding_count: 2.into(),
        ..Submit::default()
    };
    let bindings = [binding(0, input, 16, Access::Read), binding(1, output, 16, Access::Write)];
    let payload: &[&[u8]] = &[head.as_bytes(), bindings.as_bytes()];
    let event = guest.try_make(Opcode::Submit, payload)?;
    guest.try_call(Opcode::Execute, payload)?;
    guest.try_call(Opcode::WaitEvent, &[&event.to_le_bytes(), &0_u64.to_le_bytes()])?;
    guest.try_call(Opcode::DestroyEvent, &[&event.to_le_bytes()])?;
    let bytes = guest.try_call(Opcode::ReadBuffer, &[transfer(output, 0, 16).as_bytes()])?;
    assert!(bytes.iter().zip(INPUT).all(|(out, byte)| *out == byte ^ 1), "the right bytes or none");
    for (opcode, id) in [
        (Opcode::UnloadProgram, program),
        (Opcode::DestroyQueue, queue),
        (Opcode::FreeBuffer, input),
        (Opcode::FreeBuffer, output),
        (Opcode::DestroyContext, context),
    ] {
        guest.try_call(opcode, &[&id.to_le_bytes()])?;
    }
    Ok(())
}

#[test]
fn queues_work_side_by_side() {
    let guest = Guest::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| round(&guest).unwrap()));
        }
    });
    assert_eq!(guest.device.memory_used(), 0);
}

#[test]
fn resets_at_any_moment_leave_a_sound_device() {
    let guest = Guest::with_config(DeviceConfig { max_contexts: 1000, ..DeviceConfig::default() });
    let (stop, lost) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match round(&guest) {
                        Ok(()) => {}
                        // What a reset takes away is stale, or never answered.
                        Err(Status::StaleObject | Status::InternalError) => {
                            lost.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(status) => panic!("{status}"),
                    }
                }
            });
        }
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            thread::sleep(Duration::from_micros(700));
            guest.device.reset();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(lost.load(Ordering::Relaxed) > 0, "resets came in between");
    guest.device.reset();
    let patience = Instant::now() + PATIENCE;
    while guest.device.memory_used() > 0 {
        assert!(Instant::now() < patience, "memory stays held");
        thread::yield_now();
    }
    round(&guest).unwrap();
}
