//! Bad input through the real daemon: each gets its status, nothing outside an output is written, and the
//! next guest is served. Malformed chains and vhost-user messages have their tests in the daemon's crate.

use std::time::Duration;

use accel_guest::{Client, Context, EventStatus, FrontendTransport, Program, Queue, SlotBinding, Transport};
use accel_proto::{Access, Status, Usage};
use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};
use vhost_device_accel_workspace::{Daemon, Element, Result, Tensor, graphs, run};

type Guest = Client<FrontendTransport>;

/// The refusal of an artifact: status, class and sentence. Loading must not succeed.
fn refusal(client: &Guest, context: Context, artifact: &[u8]) -> Result<(Status, u32, String)> {
    match client.load_tosa(context, artifact, |_| ()) {
        Ok(_) => Err("it was loaded".into()),
        Err(error) => {
            let status = error.status().ok_or_else(|| format!("no status: {error}"))?;
            let failure = error.load_failure().ok_or_else(|| format!("no reason: {error}"))?;
            Ok((status, failure.class, failure.message.clone()))
        }
    }
}

/// The daemon still computes.
fn serves(client: &Guest) -> Result<()> {
    let zeros = Tensor::from_f64(Element::I32, &[3], [1.0, 2.0, 3.0]);
    let sums = run(client, &graphs::add_one(3), &[zeros])?;
    assert_eq!(sums[0].to_f64(), [2.0, 3.0, 4.0]);
    Ok(())
}

fn identity(dtype: DType, shape: &[i32]) -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", dtype, shape);
    w.op("IDENTITY", Attribute::None, &["x"], "y", dtype, shape);
    w.output("y");
    w.finish()
}

/// Copies of an intermediate tensor of 1 GiB that must all live at once.
fn greedy() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", DType::Fp32, &[1, 1]);
    let copies: Vec<String> = (0..6).map(|copy| format!("copy {copy}")).collect();
    w.shape("multiples", &[1 << 14, 1 << 14]);
    for copy in &copies {
        w.op("TILE", Attribute::None, &["x", "multiples"], copy, DType::Fp32, &[1 << 14, 1 << 14]);
    }
    let names: Vec<&str> = copies.iter().map(String::as_str).collect();
    w.op("CONCAT", Attribute::Axis { axis: 0, nan_mode: 0 }, &names, "all", DType::Fp32, &[6 << 14, 1 << 14]);
    w.op(
        "REDUCE_SUM",
        Attribute::Axis { axis: 1, nan_mode: 0 },
        &["all"],
        "sums",
        DType::Fp32,
        &[6 << 14, 1],
    );
    w.output("sums");
    w.finish()
}

#[test]
fn damaged_artifacts_are_refused_and_the_daemon_lives() -> Result<()> {
    let Some(mut daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let context = client.create_context()?;
    let good = graphs::matmul(DType::Int8, 8);
    // The last bytes are padding that nobody misses.
    for length in (1..good.len() - 8).step_by(3) {
        let (status, class, _) = refusal(&client, context, &good[..length])
            .map_err(|error| format!("cut to {length} of {} bytes: {error}", good.len()))?;
        assert_eq!((status, class), (Status::Incompatible, 1), "cut to {length} bytes");
    }
    let mut wrong_magic = good.clone();
    wrong_magic[4..8].copy_from_slice(b"TFL3");
    let (status, class, message) = refusal(&client, context, &wrong_magic)?;
    assert_eq!((status, class), (Status::Incompatible, 1), "{message}");

    // A flipped bit may leave a valid graph; whatever comes, the daemon answers and goes on.
    let mut refused = 0;
    for at in 0..good.len() {
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        match client.load_tosa(context, &flipped, |_| ()) {
            Ok(program) => client.unload_program(program)?,
            Err(error) => {
                assert!(error.status().is_some(), "byte {at}: {error}");
                refused += 1;
            }
        }
    }
    println!("{refused} of {} artifacts with a flipped bit were refused", good.len());
    assert!(refused > good.len() / 4);
    serves(&client)?;
    assert!(daemon.runs()?);
    Ok(())
}

#[test]
fn impossible_graphs_are_refused_by_rule() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let context = client.create_context()?;
    for (what, artifact, classes) in [
        ("a dimension of zero", identity(DType::Fp32, &[2, 0]), [2, 3].as_slice()),
        ("rank 7", identity(DType::Fp32, &[1; 7]), &[3]),
        ("a tensor of 4 GiB", identity(DType::Fp32, &[1 << 15, 1 << 15]), &[3, 4, 5]),
        ("a tensor of 2^62 bytes", identity(DType::Fp32, &[1 << 30, 1 << 30]), &[2, 3]),
    ] {
        let result = refusal(&client, context, &artifact);
        let (status, class, message) = match result {
            Ok(refused) => refused,
            // Large, but a device may take it: then binding it is what fails.
            Err(_) if what.contains("4 GiB") => continue,
            Err(error) => return Err(format!("{what}: {error}").into()),
        };
        println!("{what}: {status}, class {class}: {message}");
        assert!(classes.contains(&class), "{what}: class {class}: {message}");
    }
    // A small file whose intermediate tensor passes the guest's limit of 4 GiB.
    let (status, class, message) = refusal(&client, context, &greedy())?;
    assert_eq!((status, class), (Status::ResourceLimit, 5), "{message}");
    // Memory that no host has is refused when it is asked for.
    let usage = Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION;
    let error = client.allocate_buffer(context, 1 << 45, client.transfer_domain(), usage).err();
    let status = error.and_then(|e| e.status());
    assert_eq!(status, Some(Status::ResourceLimit));
    serves(&client)
}

/// Odd sizes of every element width, with guard bytes before and behind the output.
#[test]
fn bytes_beside_an_output_stay_untouched() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let context = client.create_context()?;
    let queue = client.create_queue(context)?;
    const GUARD: u8 = 0xA5;
    for dtype in [DType::Bool, DType::Int8, DType::Int16, DType::Fp16, DType::Int32, DType::Fp32] {
        for count in [1, 2, 3, 5, 7, 63, 65, 257, 1001] {
            let program = client.load_tosa(context, &identity(dtype, &[count]), |_| ())?;
            let bytes = count as u64 * dtype.bytes().unwrap_or(1) as u64;
            let usage = Usage::PROGRAM_INPUT | Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE;
            let usage = usage | Usage::TRANSFER_DESTINATION;
            let allocate = |bytes| client.allocate_buffer(context, bytes, client.transfer_domain(), usage);
            let (input, output) = (allocate(bytes)?, allocate(bytes + 128)?);
            client.write_buffer(input, 0, &vec![1; bytes as usize])?;
            client.write_buffer(output, 0, &vec![GUARD; bytes as usize + 128])?;
            let bind = |slot, buffer, offset, access| SlotBinding { slot, buffer, offset, bytes, access };
            let bindings = [bind(0, input, 0, Access::Read), bind(1, output, 64, Access::Write)];
            client.execute(queue, program, &bindings)?;
            let mut seen = vec![0; bytes as usize + 128];
            client.read_buffer(output, 0, &mut seen)?;
            let (before, rest) = seen.split_at(64);
            let (data, behind) = rest.split_at(bytes as usize);
            assert!(data.iter().all(|b| *b == 1), "{dtype} x {count}: the output is wrong");
            assert!(
                before.iter().chain(behind).all(|b| *b == GUARD),
                "{dtype} x {count}: a guard byte changed"
            );
            client.unload_program(program)?;
            client.free_buffer(input)?;
            client.free_buffer(output)?;
        }
    }
    Ok(())
}

/// The guest's VMM dies while requests run; the next one finds a fresh device, and all memory is given back.
#[test]
fn a_guest_that_vanishes_leaves_nothing_behind() -> Result<()> {
    let Some(mut daemon) = Daemon::start()? else { return Ok(()) };
    let artifact = graphs::matmul(DType::Fp32, 512);
    for round in 0..6 {
        let client = daemon.connect()?;
        let context = client.create_context()?;
        let program = client.load_tosa(context, &artifact, |_| ())?;
        let queue = client.create_queue(context)?;
        let usage = Usage::PROGRAM_INPUT | Usage::PROGRAM_OUTPUT | Usage::TRANSFER_DESTINATION;
        // Six rounds of this would not fit the guest's limit of 4 GiB, had the rounds before not been released.
        let big = client.allocate_buffer(context, 1 << 30, client.transfer_domain(), usage)?;
        let bind = |slot, offset, access| SlotBinding { slot, buffer: big, offset, bytes: 1 << 20, access };
        let bindings =
            [bind(0, 0, Access::Read), bind(1, 1 << 20, Access::Read), bind(2, 2 << 20, Access::Write)];
        let pending: Vec<_> = (0..5)
            .map(|_| client.execute_async(queue, program, &bindings, None))
            .collect::<std::result::Result<_, _>>()?;
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(pending);
        drop(client.into_transport());
    }
    let client = daemon.connect()?;
    serves(&client)?;
    assert!(daemon.runs()?);
    Ok(())
}

/// A run that never ends by itself.
struct Endless {
    program: Program,
    queue: Queue,
    bindings: [SlotBinding; 3],
}

fn endless(client: &Guest) -> Result<Endless> {
    let context = client.create_context()?;
    let usage = Usage::PROGRAM_INPUT | Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE;
    let buffer = client.allocate_buffer(context, 1 << 12, client.transfer_domain(), usage)?;
    let bind = |slot, offset, access| SlotBinding { slot, buffer, offset, bytes: 12, access };
    Ok(Endless {
        program: client.load_tosa(context, &graphs::countdown(1, 0), |_| ())?,
        queue: client.create_queue(context)?,
        bindings: [bind(0, 0, Access::Read), bind(1, 256, Access::Read), bind(2, 512, Access::Write)],
    })
}

/// Endless loops end by deadline, by cancellation and with their guest; meanwhile other guests are served.
#[test]
fn an_endless_loop_holds_up_nobody() -> Result<()> {
    let Some(mut daemon) = Daemon::start_with_sockets(2)? else { return Ok(()) };
    let neighbour: Guest = daemon.connect_to(1)?;
    let client: Guest = daemon.connect_to(0)?;
    let Endless { program, queue, bindings } = endless(&client)?;
    let timeout = Some(Duration::from_millis(200));
    let error = client.execute_async(queue, program, &bindings, timeout)?.wait().err();
    assert_eq!(error.and_then(|error| error.status()), Some(Status::DeadlineExpired));

    let event = client.submit(queue, program, &bindings, None)?;
    let behind = client.submit(queue, program, &bindings, timeout)?;
    serves(&neighbour)?;
    assert_eq!(client.poll_event(event)?, EventStatus::Pending);
    client.cancel_event(event)?;
    assert_eq!(client.wait_event(event, None)?.0, EventStatus::Cancelled);
    assert_eq!(client.wait_event(behind, None)?.0, EventStatus::Failed(Status::DeadlineExpired));
    client.destroy_event(event)?;
    client.destroy_event(behind)?;
    serves(&client)?;

    // It vanishes with loops at work: those of the guests after it would wait for ever behind them, were they kept.
    drop(client.into_transport());
    for _ in 0..3 {
        let client: Guest = daemon.connect_to(0)?;
        let Endless { program, queue, bindings } = endless(&client)?;
        let pending: Vec<_> = (0..4)
            .map(|_| client.execute_async(queue, program, &bindings, None))
            .collect::<std::result::Result<_, _>>()?;
        serves(&client)?;
        serves(&neighbour)?;
        drop(pending);
        drop(client.into_transport());
    }
    serves(&daemon.connect_to(0)?)?;
    serves(&neighbour)?;
    assert!(daemon.runs()?);
    Ok(())
}

#[test]
fn a_guest_that_breaks_its_frames_is_answered() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let transport = client.transport();
    for (what, frame, status) in [
        ("an unknown opcode", [0x77, 0x77, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], Status::Unsupported),
        (
            "a payload that is not there",
            [1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            Status::InvalidArgument,
        ),
        ("request id 0", [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Status::InvalidArgument),
        ("header flags", [1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], Status::Unsupported),
    ] {
        let token = transport.submit(0, &[&frame], 92)?;
        let response = transport.wait(token, Some(Duration::from_secs(10)))?;
        assert_eq!(response.len(), 16, "{what}");
        assert_eq!(u16::from_le_bytes([response[0], response[1]]), status.code(), "{what}");
    }
    // Room for no header at all: the chain comes back with nothing written.
    let token = transport.submit(0, &[&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]], 15)?;
    assert!(transport.wait(token, Some(Duration::from_secs(10)))?.is_empty());
    serves(&client)
}
