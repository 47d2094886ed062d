//! Bytes in and out: WRITE, READ, COPY, LOAD_PROGRAM_FROM_BUFFER, QUERY.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use accel_device::DeviceConfig;
use accel_device::null;
use accel_proto::*;
use support::*;

#[test]
fn fresh_buffers_are_zero_and_writes_land_where_they_should() {
    let bench = Bench::new();
    let guest = &bench.guest;
    assert_eq!(guest.read(bench.output, 0, 16), Ok(vec![0; 16]));
    guest.write(bench.output, 5, b"abc").unwrap();
    assert_eq!(guest.read(bench.output, 4, 5), Ok(b"\0abc\0".to_vec()));
}

#[test]
fn transfers_are_refused_in_order() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let mute = guest.buffer(bench.context, 16, Usage::PROGRAM_INPUT).unwrap();
    assert_eq!(guest.read(mute, 0, 17), Err(Status::OutOfBounds), "range before usage");
    assert_eq!(guest.read(mute, 0, 16), Err(Status::PermissionDenied));
    assert_eq!(guest.write(mute, 16, &[0]), Err(Status::OutOfBounds));
    assert_eq!(guest.write(mute, 15, &[0]), Err(Status::PermissionDenied));
    assert_eq!(guest.read(u64::MAX, 0, 1), Err(Status::StaleObject));
    guest.backend.hold();
    let mut work = bench.work();
    work.bindings[0] = binding(0, mute, 16, Access::Read);
    let execution = guest.execute(&work);
    assert_eq!(guest.read(mute, 0, 17), Err(Status::Busy), "BUSY before the range");
    guest.backend.release();
    execution.wait().unwrap();
}

#[test]
fn copies_go_between_buffers_and_within_one() {
    let guest = Guest::new();
    let context = guest.context().unwrap();
    let bytes = (2 << 20) + 5;
    let source = guest.buffer(context, bytes, Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION).unwrap();
    let target = guest.buffer(context, bytes, ANY).unwrap();
    let pattern: Vec<u8> = (0..bytes).map(|i| ((i * 31) >> 4) as u8).collect();
    guest.write(source, 0, &pattern).unwrap();
    guest.copy((source, 1), (target, 2), bytes - 2).unwrap();
    let tail = guest.read(target, bytes - 100, 100).unwrap();
    assert_eq!(tail, pattern[pattern.len() - 101..pattern.len() - 1], "beyond the first chunk");
    assert_eq!(guest.read(target, 0, 2), Ok(vec![0, 0]));
    guest.copy((source, 0), (source, 100), 100).unwrap();
    assert_eq!(guest.read(source, 100, 100).unwrap(), pattern[..100]);
    for (from, to, length, status) in [
        ((source, 0), (source, 99), 100, Status::InvalidArgument),
        ((source, 0), (target, 0), 0, Status::InvalidArgument),
        ((source, u64::MAX), (target, 0), 1, Status::InvalidArgument),
        ((source, bytes), (target, 0), 1, Status::OutOfBounds),
        ((source, 0), (target, bytes), 1, Status::OutOfBounds),
        ((source, 0), (context, 0), 1, Status::StaleObject),
        ((0, 0), (target, 0), 1, Status::InvalidArgument),
    ] {
        assert_eq!(guest.copy(from, to, length), Err(status), "{from:?} to {to:?}");
    }
    let sink = guest.buffer(context, 4, Usage::TRANSFER_DESTINATION).unwrap();
    assert_eq!(guest.copy((sink, 0), (target, 0), 4), Err(Status::PermissionDenied));
    guest.copy((source, 0), (sink, 0), 4).unwrap();
    for buffer in [source, target, sink] {
        guest.on(Opcode::FreeBuffer, buffer).expect("refused copies hold nothing");
    }
}

#[test]
fn artifacts_load_from_ranges_of_buffers() {
    let guest = Guest::with_config(DeviceConfig { max_request_bytes: 200, ..DeviceConfig::default() });
    let context = guest.context().unwrap();
    let artifact = null::artifact(7, &[1; 100]);
    assert!(artifact.len() > 200, "larger than any frame");
    let buffer = guest.buffer(context, 512, ANY).unwrap();
    for (index, piece) in artifact.chunks(100).enumerate() {
        guest.write(buffer, 8 + 100 * index as u64, piece).unwrap();
    }
    let program = guest.program_from(context, artifact.len(), buffer, 8).unwrap();
    let (_, slots) = guest.query(QueryTopic::ProgramSlots, program, 0, 1 << 16).unwrap();
    assert_eq!(slots.iter().filter(|&&byte| byte == b'{').count(), 100);
    guest.on(Opcode::FreeBuffer, buffer).expect("the program keeps no buffer");

    let buffer = guest.buffer(context, 512, ANY).unwrap();
    let mute = guest.buffer(context, 512, Usage::TRANSFER_DESTINATION).unwrap();
    for (bytes, buffer, offset, status) in [
        (0, buffer, 0, Status::InvalidArgument),
        (8, 0, 0, Status::InvalidArgument),
        (8, buffer, u64::MAX, Status::InvalidArgument),
        (8, context, 0, Status::StaleObject),
        (513, buffer, 0, Status::OutOfBounds),
        (8, buffer, 505, Status::OutOfBounds),
        (8, mute, 0, Status::PermissionDenied),
        (9, buffer, 0, Status::Incompatible),
    ] {
        assert_eq!(guest.program_from(context, bytes, buffer, offset), Err(status), "{bytes} at {offset}");
    }
    assert_eq!(guest.program_from(buffer, 8, buffer, 0), Err(Status::StaleObject), "no such context");
    guest.on(Opcode::FreeBuffer, buffer).expect("refused loads hold nothing");
}

#[test]
fn queries_come_in_pieces() {
    let bench = Bench::new();
    let guest = &bench.guest;
    let name = b"Null accelerator";
    assert_eq!(guest.query(QueryTopic::DeviceName, 0, 0, 1000), Ok((16, name.to_vec())));
    let mut whole = Vec::new();
    while whole.len() < 16 {
        let (total, piece) = guest.query(QueryTopic::DeviceName, 0, whole.len() as u64, 5).unwrap();
        assert_eq!((total, piece.len()), (16, (16 - whole.len()).min(5)));
        whole.extend(piece);
    }
    assert_eq!(whole, name);
    for offset in [16, 17, u64::MAX] {
        assert_eq!(guest.query(QueryTopic::DeviceName, 0, offset, 5), Ok((16, vec![])));
    }
    assert_eq!(guest.query(QueryTopic::DeviceName, 0, 0, 0), Ok((16, vec![])));
    assert_eq!(guest.query(QueryTopic::Operators, 0, 0, 9), Ok((2, b"[]".to_vec())));
    let (_, slots) = guest.query(QueryTopic::ProgramSlots, bench.program, 0, 1000).unwrap();
    let slots: serde_json::Value = serde_json::from_slice(&slots).unwrap();
    assert_eq!(
        slots[1],
        serde_json::json!({"name": "out1", "dtype": "UINT8", "shape": [16], "bytes": 16, "output": true})
    );
    let (_, limits) = guest.query(QueryTopic::Limits, 0, 0, 1000).unwrap();
    let limits: serde_json::Value = serde_json::from_slice(&limits).unwrap();
    assert_eq!(limits["memory_used_bytes"], 32 + 12);
}

#[test]
fn a_piece_respects_the_largest_response() {
    let guest = Guest::with_config(DeviceConfig { max_response_bytes: 92, ..DeviceConfig::default() });
    let (total, piece) = guest.query(QueryTopic::Limits, 0, 0, 1 << 30).unwrap();
    assert!(total > 68);
    assert_eq!(piece.len(), 92 - 24);
}

#[test]
fn the_last_load_error_is_kept_by_context() {
    let guest = Guest::new();
    let [context, other] = [guest.context().unwrap(), guest.context().unwrap()];
    let error = |context| -> serde_json::Value {
        serde_json::from_slice(&guest.query(QueryTopic::LastLoadError, context, 0, 1000).unwrap().1).unwrap()
    };
    let load = LoadProgram { format: 1.into(), ..load_head(context, 8) };
    assert_eq!(guest.call(Opcode::LoadProgram, &[load.as_bytes(), &[0; 8]]), Err(Status::Unsupported));
    assert_eq!(error(context)["status"], 1);
    assert_eq!(error(context)["class"], 4);
    assert!(error(context)["message"].as_str().unwrap().contains("0x00000001"));
    assert_eq!(error(other), serde_json::json!({"status": 0, "class": 0, "message": ""}));
    assert_eq!(guest.query(QueryTopic::LastLoadError, 99, 0, 9), Err(Status::StaleObject));
    assert_eq!(guest.query(QueryTopic::ProgramSlots, context, 0, 9), Err(Status::StaleObject));
}
