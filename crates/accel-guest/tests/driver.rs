//! The driver over a real socket and real rings, against a toy device.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod toy;

use std::time::{Duration, Instant};

use accel_guest::{Client, Error, FrontendTransport, Options, SlotBinding, Transport};
use accel_proto::{Access, ConfigSpace, Extensions, MemoryDomain, Opcode, Status, Usage};
use toy::{ALL, Toy};

const TRANSFER: Usage = Usage::TRANSFER_SOURCE.union(Usage::TRANSFER_DESTINATION);

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

/// Writes and reads 9 MiB through frames of at most 1 MiB.
fn round_trip(client: &Client<FrontendTransport>) {
    let context = client.create_context().unwrap();
    let data = pattern(9 << 20);
    let buffer = client.allocate_buffer(context, data.len() as u64, MemoryDomain::Host, TRANSFER).unwrap();
    let mut told = Vec::new();
    client.write_buffer_with(buffer, 0, &data, |arrived| told.push(arrived)).unwrap();
    assert!(told.len() > 8 && told.is_sorted() && told.last() == Some(&(9 << 20)));
    let mut back = vec![0; data.len()];
    client.read_buffer(buffer, 0, &mut back).unwrap();
    assert!(back == data, "the bytes differ");
}

#[test]
fn bytes_survive_with_every_set_of_ring_features() {
    for (indirect, event_idx) in [(false, false), (false, true), (true, false), (true, true)] {
        let toy = Toy::default().start();
        let options = Options { indirect, event_idx, ..Options::default() };
        let client = Client::new(toy.transport(options)).unwrap();
        round_trip(&client);
        let acked = toy.seen.lock().unwrap().acked;
        assert_eq!((acked >> 28 & 1, acked >> 29 & 1), (indirect.into(), event_idx.into()));
    }
}

#[test]
fn a_large_request_spans_descriptors_within_the_devices_limit() {
    for (limit, indirect, expected) in [(2, true, 2), (2, false, 2), (64, true, 5), (3, true, 3)] {
        let config = ConfigSpace::new(limit, 5 << 20, 1 << 20, 1, Extensions::NONE);
        let toy = Toy { config, ..Toy::default() }.start();
        let client = Client::new(toy.transport(Options { indirect, ..Options::default() })).unwrap();
        let context = client.create_context().unwrap();
        let buffer = client.allocate_buffer(context, 4 << 20, MemoryDomain::Host, TRANSFER).unwrap();
        client.write_buffer(buffer, 0, &pattern((4 << 20) - 64)).unwrap();
        assert_eq!(toy.seen.lock().unwrap().descriptors.last(), Some(&expected));
    }
}

#[test]
fn a_small_ring_and_little_memory_only_slow_things_down() {
    let toy = Toy::default().start();
    let options = Options { queue_size: 2, memory_per_queue: 3 << 20, ..Options::default() };
    round_trip(&Client::new(toy.transport(options)).unwrap());
}

#[test]
fn a_request_that_can_never_fit_is_refused_before_it_is_sent() {
    let toy = Toy::default().start();
    let transport = toy.transport(Options { memory_per_queue: 64 << 10, ..Options::default() });
    let error = transport.submit(0, &[&[0; 100_000]], 16).unwrap_err();
    assert!(matches!(error, Error::TooLarge { available: 65536, .. }), "{error}");
    assert!(matches!(transport.submit(2, &[&[0; 16]], 16), Err(Error::NoSuchQueue { queue: 2, queues: 2 })));
}

#[test]
fn fifty_runs_in_flight_over_two_rings_each_end_once_with_their_own_answer() {
    let toy = Toy { hold: 25, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queues = [client.create_queue(context).unwrap(), client.create_queue(context).unwrap()];
    assert_ne!(queues[0].ring, queues[1].ring);
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    std::thread::scope(|scope| {
        for queue in queues {
            let client = &client;
            scope.spawn(move || {
                // Both threads fill a ring of their own, and neither waits before all are in flight.
                let pending: Vec<_> =
                    (0..25).map(|_| client.execute_async(queue, program, &[], None).unwrap()).collect();
                let times: Vec<_> =
                    pending.into_iter().map(|run| run.wait().unwrap().gpu_ns.unwrap()).collect();
                assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "answers got mixed up");
            });
        }
    });
}

#[test]
fn many_threads_share_a_ring_without_losing_a_wake_up() {
    let toy = Toy::default().start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let buffer = client.allocate_buffer(context, 4096, MemoryDomain::Host, TRANSFER).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let client = &client;
            scope.spawn(move || {
                for turn in 0..300u64 {
                    let at = u64::from(thread) * 8;
                    client.write_buffer(buffer, at, &turn.to_le_bytes()).unwrap();
                    let mut back = [0; 8];
                    client.read_buffer(buffer, at, &mut back).unwrap();
                    assert_eq!(u64::from_le_bytes(back), turn);
                }
            });
        }
    });
}

#[test]
fn a_plain_device_is_driven_with_submit_and_polling() {
    let config = ConfigSpace::new(16, 4096, 4096, 1, Extensions::NONE);
    let toy = Toy { config, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queue = client.create_queue(context).unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    let buffer = client.allocate_buffer(context, 64, MemoryDomain::Host, Usage::PROGRAM_OUTPUT).unwrap();
    let binding = SlotBinding { slot: 0, buffer, offset: 0, bytes: 64, access: Access::Write };
    assert_eq!(client.execute(queue, program, &[binding]).unwrap().gpu_ns, None);
    let seen = toy.seen.lock().unwrap();
    let end = [Opcode::Submit, Opcode::PollEvent, Opcode::PollEvent, Opcode::PollEvent, Opcode::DestroyEvent];
    assert!(seen.opcodes.ends_with(&end), "{:?}", seen.opcodes);
    drop(seen);
    let error = client.load_tosa(context, &[0; 5000], |_| ()).unwrap_err();
    assert!(error.to_string().contains("at most 4000"), "{error}");
    assert!(matches!(client.device_name(), Err(Error::Argument(_))));
}

#[test]
fn an_artifact_beyond_one_frame_goes_through_a_buffer() {
    let toy = Toy::default().start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    client.load_tosa(context, &pattern(100_000), |_| ()).unwrap();
    assert_eq!(toy.seen.lock().unwrap().opcodes.last(), Some(&Opcode::LoadProgram));
    client.load_tosa(context, &pattern(3 << 20), |_| ()).unwrap();
    let end = [Opcode::WriteBuffer, Opcode::LoadProgramFromBuffer, Opcode::FreeBuffer];
    assert!(toy.seen.lock().unwrap().opcodes.ends_with(&end));
}

#[test]
fn a_refused_program_brings_the_devices_reason() {
    let toy = Toy::default().start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let error = client.load_tosa(context, b"bad", |_| ()).unwrap_err();
    assert_eq!(error.status(), Some(Status::InvalidArgument));
    assert_eq!(error.load_failure().unwrap().class, 2);
    assert!(error.to_string().ends_with("operator 0 (ADD): made up"), "{error}");
}

#[test]
fn a_status_says_the_command_and_what_was_asked() {
    let toy = Toy::default().start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let buffer = client.allocate_buffer(context, 10, MemoryDomain::Host, TRANSFER).unwrap();
    let error = client.write_buffer(buffer, 8, &[1, 2, 3]).unwrap_err();
    assert_eq!(error.to_string(), "WRITE_BUFFER failed with OUT_OF_BOUNDS (3 bytes to buffer 0x2 at 8)");
    let huge = client.allocate_buffer(context, 1 << 40, MemoryDomain::Host, TRANSFER).unwrap_err();
    assert!(huge.to_string().contains("1099511627776 bytes"), "{huge}");
}

#[test]
fn answers_longer_than_a_piece_are_put_together() {
    let toy = Toy::default().start();
    let client = toy.client();
    assert_eq!(client.device_name().unwrap(), "Toy ".repeat(40_000));
    let context = client.create_context().unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    let slots = client.slots(program).unwrap();
    assert_eq!((slots[0].name.as_str(), &slots[0].shape[..], slots[0].output), ("x", &[2, 3][..], true));
    assert_eq!(client.last_load_failure(context).unwrap().unwrap().class, 2);
}

#[test]
fn copies_stay_inside_the_device() {
    let toy = Toy::default().start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let [a, b] = [(); 2].map(|()| client.allocate_buffer(context, 16, MemoryDomain::Host, TRANSFER).unwrap());
    client.write_buffer(a, 0, b"0123456789abcdef").unwrap();
    client.copy_buffer((a, 10), (b, 1), 6).unwrap();
    let mut back = [0; 8];
    client.read_buffer(b, 0, &mut back).unwrap();
    assert_eq!(&back, b"\0abcdef\0");
}

#[test]
fn a_device_that_dies_ends_every_wait_with_a_clear_error() {
    let toy = Toy { die: true, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queue = client.create_queue(context).unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let error = client.execute(queue, program, &[]).unwrap_err();
                assert!(matches!(error, Error::Gone), "{error}");
            });
        }
    });
    assert!(matches!(client.create_context(), Err(Error::Gone)));
}

#[test]
fn a_wait_can_time_out_and_be_taken_up_again() {
    let toy = Toy { hold: 2, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queue = client.create_queue(context).unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    let mut first = client.execute_async(queue, program, &[], None).unwrap();
    let start = Instant::now();
    let error = first.wait_timeout(Some(Duration::from_millis(30))).unwrap_err();
    assert!(matches!(error, Error::TimedOut(_)) && start.elapsed() >= Duration::from_millis(30), "{error}");
    // The second lets the device answer both; its own answer is thrown away.
    drop(client.execute_async(queue, program, &[], None).unwrap());
    assert!(first.wait_timeout(None).is_ok());
    assert!(matches!(first.wait_timeout(None), Err(Error::UnknownToken)));
    client.create_context().unwrap();
}

#[test]
fn waiting_costs_no_processor_time() {
    let toy = Toy { mute: true, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queue = client.create_queue(context).unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    let mut run = client.execute_async(queue, program, &[], None).unwrap();
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|t| t.parse::<u64>().unwrap())
            .sum()
    };
    let before = ticks();
    assert!(run.wait_timeout(Some(Duration::from_millis(500))).is_err());
    // One tick is 10 ms: half a second of polling would be fifty.
    assert!(ticks() - before <= 2);
}

#[test]
fn a_device_that_breaks_the_ring_is_called_out() {
    let toy = Toy { lie: true, ..Toy::default() }.start();
    let client = toy.client();
    let context = client.create_context().unwrap();
    let queue = client.create_queue(context).unwrap();
    let program = client.load_tosa(context, b"program", |_| ()).unwrap();
    let error = client.execute(queue, program, &[]).unwrap_err();
    assert!(error.to_string().contains("more than the chain has room for"), "{error}");
}

#[test]
fn nobody_at_the_socket_is_an_error_with_the_path() {
    let Err(error) = FrontendTransport::connect("/nonexistent/accel.sock", Options::default()) else {
        panic!("connected")
    };
    assert!(error.to_string().contains("/nonexistent/accel.sock"), "{error}");
}

#[test]
fn a_device_that_never_answers_the_set_up_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("silent.sock");
    // Bound, so connecting works, but nobody accepts: so looks a daemon that serves another guest.
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let options = Options { setup_timeout: Duration::from_millis(100), ..Options::default() };
    let result = FrontendTransport::connect(&path, options);
    assert!(matches!(result, Err(Error::Unanswered(_))));
}

#[test]
fn after_a_reset_the_rings_start_afresh() {
    let toy = Toy::default().start();
    let mut transport = toy.client().into_transport();
    transport.reset().unwrap();
    round_trip(&Client::new(transport).unwrap());
}

#[test]
fn an_unusable_configuration_is_refused() {
    let config = ConfigSpace::new(1, 1 << 20, 1 << 20, 1, Extensions::from_bits_retain(ALL));
    let toy = Toy { config, ..Toy::default() }.start();
    let result = FrontendTransport::connect(&toy.socket, Options::default());
    assert!(matches!(result, Err(Error::Incompatible(_))));
}

#[test]
fn raw_chains_reach_the_device_as_written() {
    let toy = Toy::default().start();
    let transport = toy.transport(Options::default());
    let queue = transport.queue(1).unwrap();
    let frame = accel_proto::encode_request(Opcode::CreateContext, 77, &[&[0; 8]]);
    let request = queue.raw_place(&frame).unwrap();
    let response = queue.raw_place(&[0xaa; 32]).unwrap();
    queue.raw_descriptor(5, request.address, frame.len() as u32, 1, 9).unwrap();
    queue.raw_descriptor(9, response.address, 32, 2, 0).unwrap();
    queue.raw_publish(5, 1).unwrap();
    let used = queue.raw_used(Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!((used.head, used.len), (5, 24));
    let bytes = queue.raw_read(&response).unwrap();
    assert_eq!((&bytes[8..16], &bytes[24..]), (&77u64.to_le_bytes()[..], &[0xaa; 8][..]));
    assert_eq!(queue.raw_used(Duration::from_millis(20)).unwrap(), None);
}
