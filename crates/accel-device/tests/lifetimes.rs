//! Objects: their making, their end, who keeps them, and quotas.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::thread;
use std::time::Duration;

use accel_device::null::{self, NullBackend};
use accel_device::{Device, DeviceConfig};
use accel_proto::*;
use support::*;

#[test]
fn a_program_runs_from_frames_alone() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let event = guest.submit(&bench.work()).unwrap();
    assert_eq!(guest.finish(event), (EventPhase::Complete, Status::Ok));
    assert_eq!(guest.poll(event), Ok((EventPhase::Complete, Status::Ok)));
    assert_eq!(guest.read(bench.output, 0, 16), Err(Status::Busy), "its event lives");
    guest.on(Opcode::DestroyEvent, event).unwrap();
    assert_eq!(guest.read(bench.output, 0, 16), Ok(inverted()));
    assert_eq!(guest.read(bench.output, 15, 1), Ok(vec![!b'n']));
}

#[test]
fn device_info_and_config_space_tell_the_limits() {
    let guest = Guest::with(NullBackend::with_domains(&[MemoryDomain::Host]), DeviceConfig::default());
    let info = DeviceInfo::read_from_bytes(&guest.call(Opcode::GetDeviceInfo, &[]).unwrap()).unwrap();
    let capabilities = Capabilities::HOST_VISIBLE_MEMORY | Capabilities::EVENT_CANCELLATION;
    assert_eq!(info.capabilities.get(), capabilities.bits());
    assert_eq!(info.max_buffer_bytes.get(), 64 << 20);
    assert_eq!(info.max_artifact_bytes.get(), u64::from(MAX_FRAME_BYTES) - 96);
    let config = ConfigSpace::read_from_bytes(guest.device.config_space()).unwrap();
    assert!(config.prefix.is_usable());
    assert!(config.extension.announced().contains(Extensions::EXECUTE | Extensions::COPY_BUFFER));
    assert!(!config.extension.announced().contains(Extensions::IMPORT_BUFFER));
    let context = guest.context().unwrap();
    assert_eq!(guest.buffer(context, 16, ANY), Err(Status::Unsupported), "no device memory");
}

#[test]
fn parents_outlive_their_children() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let event = guest.submit(&bench.work()).unwrap();
    guest.finish(event);
    let parents = [
        (Opcode::DestroyQueue, bench.queue),
        (Opcode::UnloadProgram, bench.program),
        (Opcode::FreeBuffer, bench.input),
        (Opcode::FreeBuffer, bench.output),
        (Opcode::DestroyContext, bench.context),
    ];
    for (opcode, id) in parents {
        assert_eq!(guest.on(opcode, id), Err(Status::Busy), "{opcode} with an event");
    }
    guest.on(Opcode::DestroyEvent, event).unwrap();
    for (opcode, id) in parents {
        assert_eq!(
            guest.on(Opcode::DestroyContext, bench.context).err(),
            (opcode != Opcode::DestroyContext).then_some(Status::Busy)
        );
        if opcode != Opcode::DestroyContext {
            guest.on(opcode, id).unwrap();
        }
        assert_eq!(guest.on(opcode, id), Err(Status::StaleObject), "{opcode} twice");
    }
    assert_eq!(guest.device.memory_used(), 0);
}

#[test]
fn an_id_of_another_kind_is_stale() {
    let bench = Bench::new();
    let guest = &bench.guest;
    guest.backend.hold();
    let event = guest.submit(&bench.work()).unwrap();
    let kinds = [
        (Opcode::DestroyContext, bench.context),
        (Opcode::FreeBuffer, bench.input),
        (Opcode::UnloadProgram, bench.program),
        (Opcode::DestroyQueue, bench.queue),
        (Opcode::DestroyEvent, event),
    ];
    for (opcode, own) in kinds {
        for (_, id) in kinds {
            let wanted = if id == own { Status::Busy } else { Status::StaleObject };
            assert_eq!(guest.on(opcode, id), Err(wanted), "{opcode} of {id}");
        }
    }
}

#[test]
fn objects_of_another_context_are_stale_in_a_submission() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let other = guest.context().unwrap();
    let foreign_buffer = guest.buffer(other, 16, ANY).unwrap();
    let foreign_program = guest.program(other, 0, &[16, 16 | null::OUTPUT]).unwrap();
    let mut work = bench.work();
    work.bindings[1].buffer_id = foreign_buffer.into();
    assert_eq!(guest.submit(&work), Err(Status::StaleObject));
    assert_eq!(guest.submit(&Work { program: foreign_program, ..bench.work() }), Err(Status::StaleObject));
    assert_eq!(guest.submit(&Work { queue: bench.program, ..bench.work() }), Err(Status::StaleObject));
    assert_eq!(guest.copy((bench.input, 0), (foreign_buffer, 0), 4), Err(Status::StaleObject));
    assert_eq!(guest.program_from(other, 16, bench.input, 0), Err(Status::StaleObject));
}

#[test]
fn quotas_hold_and_places_come_back() {
    let guest = Guest::with_config(DeviceConfig {
        max_contexts: 2,
        max_buffers_per_context: 2,
        max_programs_per_context: 2,
        max_queues_per_context: 1,
        ..DeviceConfig::default()
    });
    let context = guest.context().unwrap();
    let other = guest.context().unwrap();
    assert_eq!(guest.context(), Err(Status::ResourceLimit));
    guest.on(Opcode::DestroyContext, other).unwrap();
    guest.context().unwrap();

    guest.backend.fail_next(Status::OutOfMemory);
    assert_eq!(guest.buffer(context, 16, ANY), Err(Status::OutOfMemory));
    assert_eq!(guest.device.memory_used(), 0);
    let buffer = guest.buffer(context, 16, ANY).unwrap();
    guest.buffer(context, 16, ANY).unwrap();
    assert_eq!(guest.buffer(context, 16, ANY), Err(Status::ResourceLimit));
    guest.on(Opcode::FreeBuffer, buffer).unwrap();
    guest.buffer(context, 16, ANY).unwrap();

    assert_eq!(guest.program(context, 0, &[]), Err(Status::Incompatible));
    let program = guest.program(context, 0, &[4]).unwrap();
    guest.program(context, 0, &[4]).unwrap();
    assert_eq!(guest.program(context, 0, &[4]), Err(Status::ResourceLimit));
    guest.on(Opcode::UnloadProgram, program).unwrap();
    guest.program(context, 0, &[4]).unwrap();

    guest.backend.fail_next(Status::ResourceLimit);
    assert_eq!(guest.queue(context), Err(Status::ResourceLimit));
    let queue = guest.queue(context).unwrap();
    assert_eq!(guest.queue(context), Err(Status::ResourceLimit));
    guest.on(Opcode::DestroyQueue, queue).unwrap();
    guest.queue(context).unwrap();
}

#[test]
fn event_places_are_shared_by_submit_and_execute() {
    let bench =
        Bench::of(Guest::with_config(DeviceConfig { max_events_per_context: 2, ..DeviceConfig::default() }));
    let guest = &bench.guest;
    guest.backend.hold();
    let event = guest.submit(&bench.work()).unwrap();
    let execution = guest.execute(&bench.work());
    assert_eq!(guest.submit(&bench.work()), Err(Status::ResourceLimit));
    assert_eq!(guest.execute(&bench.work()).wait(), Err(Status::ResourceLimit));
    guest.backend.release();
    execution.wait().unwrap();
    guest.finish(event);
    guest.backend.fail_next(Status::ResourceLimit);
    assert_eq!(guest.submit(&bench.work()), Err(Status::ResourceLimit), "the backend's");
    let second = guest.submit(&bench.work()).unwrap();
    assert_eq!(guest.submit(&bench.work()), Err(Status::ResourceLimit));
    guest.finish(second);
    guest.on(Opcode::DestroyEvent, event).unwrap();
    guest.submit(&bench.work()).unwrap();
}

#[test]
fn the_memory_limit_counts_buffers_and_programs() {
    let guest = Guest::with_config(DeviceConfig { memory_limit_bytes: 1000, ..DeviceConfig::default() });
    let context = guest.context().unwrap();
    assert_eq!(guest.buffer(context, 1001, ANY), Err(Status::ResourceLimit));
    let buffer = guest.buffer(context, 900, ANY).unwrap();
    assert_eq!(guest.buffer(context, 101, ANY), Err(Status::ResourceLimit));
    let other = guest.context().unwrap();
    assert_eq!(guest.buffer(other, 101, ANY), Err(Status::ResourceLimit), "contexts share it");
    let small = guest.program(context, 0, &[4]).unwrap();
    assert_eq!(guest.device.memory_used(), 908, "an unknown size counts its artifact");
    let artifact = null::artifact(0, &[4]);
    let declared = LoadProgram { resident_bytes: 93.into(), ..load_head(context, artifact.len()) };
    assert_eq!(
        guest.call(Opcode::LoadProgram, &[declared.as_bytes(), &artifact]),
        Err(Status::ResourceLimit)
    );
    let (_, message) = guest.query(QueryTopic::LastLoadError, context, 0, 4096).unwrap();
    assert!(String::from_utf8(message).unwrap().contains("93 bytes"));
    let declared = LoadProgram { resident_bytes: 92.into(), ..declared };
    guest.call(Opcode::LoadProgram, &[declared.as_bytes(), &artifact]).unwrap();
    assert_eq!(guest.device.memory_used(), 1000);
    guest.on(Opcode::UnloadProgram, small).unwrap();
    guest.on(Opcode::FreeBuffer, buffer).unwrap();
    assert_eq!(guest.device.memory_used(), 92);
}

#[test]
fn a_compiling_program_stops_nothing_but_keeps_its_place() {
    let bench = Bench::of(Guest::with_config(DeviceConfig {
        max_programs_per_context: 2,
        ..DeviceConfig::default()
    }));
    let guest = &bench.guest;
    guest.backend.hold_loads(true);
    thread::scope(|scope| {
        let loading = scope.spawn(|| guest.program(bench.context, 0, &[4]));
        while guest.device.memory_used() == 32 + 12 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(guest.program(bench.context, 0, &[4]), Err(Status::ResourceLimit), "its place is taken");
        guest.execute(&bench.work()).wait().unwrap();
        assert_eq!(guest.read(bench.output, 0, 16), Ok(inverted()));
        assert_eq!(guest.on(Opcode::DestroyContext, bench.context), Err(Status::Busy));
        guest.backend.hold_loads(false);
        assert!(loading.join().unwrap().is_ok());
    });
}

#[test]
fn two_devices_share_a_backend_and_nothing_else() {
    let one = Bench::new();
    let backend = one.guest.backend.clone();
    let other = Guest::with(backend.clone(), DeviceConfig::default());
    assert_eq!(other.read(one.input, 0, 1), Err(Status::StaleObject));
    one.guest.device.reset();
    other.context().unwrap();
    drop(Device::new(backend, DeviceConfig::default()));
}
