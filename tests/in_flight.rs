//! Many requests in flight: each completes exactly once, in order per execution queue, and waiting costs no
//! CPU time.

use std::sync::Mutex;
use std::time::Duration;

use accel_guest::{Buffer, Client, Context, FrontendTransport, Options, Program, Queue, SlotBinding};
use accel_proto::{Access, Usage};
use accel_tosa::DType;
use vhost_device_accel_workspace::{Daemon, Result, graphs};

/// A square INT8 product on the device, whose result tells which input it saw.
struct Job {
    a: Buffer,
    b: Buffer,
    product: Buffer,
}

const SIDE: usize = 64;

fn job<T: accel_guest::Transport>(client: &Client<T>, context: Context, value: u8) -> Result<Job> {
    let usage = Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION;
    let input = |value: u8| -> Result<Buffer> {
        let buffer =
            client.allocate_buffer(context, (SIDE * SIDE) as u64, client.transfer_domain(), usage)?;
        client.write_buffer(buffer, 0, &[value; SIDE * SIDE])?;
        Ok(buffer)
    };
    let usage = Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE;
    let product =
        client.allocate_buffer(context, (SIDE * SIDE * 4) as u64, client.transfer_domain(), usage)?;
    Ok(Job { a: input(1)?, b: input(value)?, product })
}

fn bindings(job: &Job) -> [SlotBinding; 3] {
    let bind = |slot, buffer, bytes: usize, access| SlotBinding {
        slot,
        buffer,
        offset: 0,
        bytes: bytes as u64,
        access,
    };
    [
        bind(0, job.a, SIDE * SIDE, Access::Read),
        bind(1, job.b, SIDE * SIDE, Access::Read),
        bind(2, job.product, SIDE * SIDE * 4, Access::Write),
    ]
}

fn set_up<T: accel_guest::Transport>(client: &Client<T>) -> Result<(Context, Program, Queue)> {
    let context = client.create_context()?;
    let program = client.load_tosa(context, &graphs::matmul(DType::Int8, SIDE as i32), |_| ())?;
    Ok((context, program, client.create_queue(context)?))
}

/// Two sockets of one daemon, two virtqueues each: 50 EXECUTE requests are sent before any is waited for.
#[test]
fn fifty_requests_of_two_guests_complete_once_each_in_order() -> Result<()> {
    let Some(daemon) = Daemon::start_with_sockets(2)? else { return Ok(()) };
    let clients: Vec<Client<FrontendTransport>> =
        (0..2).map(|guest| daemon.connect_to(guest)).collect::<Result<_>>()?;
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for (guest, client) in clients.iter().enumerate() {
            let finished = &finished;
            threads.push(scope.spawn(move || -> Result<()> {
                let (context, program, queue) = set_up(client)?;
                let jobs: Vec<Job> =
                    (0..25).map(|number| job(client, context, number + 1)).collect::<Result<_>>()?;
                let pending: Vec<_> = jobs
                    .iter()
                    .map(|job| client.execute_async(queue, program, &bindings(job), None))
                    .collect::<std::result::Result<_, _>>()?;
                for (number, pending) in pending.into_iter().enumerate() {
                    pending.wait()?;
                    if let Ok(mut finished) = finished.lock() {
                        finished.push((guest, number));
                    }
                    let mut product = [0; SIDE * SIDE * 4];
                    client.read_buffer(jobs[number].product, 0, &mut product)?;
                    let expected = ((number + 1) * SIDE) as i32;
                    if product.chunks_exact(4).any(|c| c != expected.to_le_bytes()) {
                        return Err(format!("request {number} of guest {guest} has a wrong product").into());
                    }
                }
                Ok(())
            }));
        }
        for thread in threads {
            thread.join().map_err(|_| "a guest panicked")??;
        }
        Ok(())
    })?;
    let finished = finished.into_inner().map_err(|_| "a guest panicked")?;
    assert_eq!(finished.len(), 50);
    for guest in 0..2 {
        let order: Vec<_> = finished.iter().filter(|f| f.0 == guest).map(|f| f.1).collect();
        assert_eq!(order, (0..25).collect::<Vec<_>>());
    }
    Ok(())
}

/// Submissions of one execution queue run in order: each reads what the one before wrote, without waiting
/// for it on the host.
#[test]
fn a_later_submission_sees_what_an_earlier_one_in_flight_writes() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let context = client.create_context()?;
    let program = client.load_tosa(context, &graphs::add_one(1024), |_| ())?;
    let queue = client.create_queue(context)?;
    let usage =
        Usage::PROGRAM_INPUT | Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
    let buffers: Vec<Buffer> = (0..2)
        .map(|_| client.allocate_buffer(context, 4096, client.transfer_domain(), usage))
        .collect::<std::result::Result<_, _>>()?;
    let pending: Vec<_> = (0..40)
        .map(|step| {
            let bind = |slot, buffer, access| SlotBinding { slot, buffer, offset: 0, bytes: 4096, access };
            let bindings =
                [bind(0, buffers[step % 2], Access::Read), bind(1, buffers[(step + 1) % 2], Access::Write)];
            client.execute_async(queue, program, &bindings, None)
        })
        .collect::<std::result::Result<_, _>>()?;
    for pending in pending {
        pending.wait()?;
    }
    let mut bytes = [0; 4096];
    client.read_buffer(buffers[0], 0, &mut bytes)?;
    assert!(bytes.chunks_exact(4).all(|c| c == 40_i32.to_le_bytes()), "{:?}", &bytes[..8]);
    Ok(())
}

/// While a request is in flight and while nothing is, the daemon's own threads sleep.
#[test]
fn waiting_costs_no_cpu_time() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let (context, program, queue) = set_up(&client)?;
    let job = job(&client, context, 3)?;
    client.execute(queue, program, &bindings(&job))?;
    let before = daemon.cpu_time()?;
    std::thread::sleep(Duration::from_secs(2));
    let idle = daemon.cpu_time()? - before;
    println!("2 s idle with a guest attached: {idle:?} of CPU time");
    assert!(idle <= Duration::from_millis(20), "an idle daemon used {idle:?}");

    // lavapipe computes in the daemon's process, so only the threads that wait are looked at.
    let big = client.load_tosa(context, &graphs::matmul(DType::Int8, 1024), |_| ())?;
    let usage = Usage::PROGRAM_INPUT | Usage::PROGRAM_OUTPUT;
    let allocate = |bytes| client.allocate_buffer(context, bytes, client.transfer_domain(), usage);
    let (a, b, product) = (allocate(1 << 20)?, allocate(1 << 20)?, allocate(4 << 20)?);
    let bind = |slot, buffer, bytes, access| SlotBinding { slot, buffer, offset: 0, bytes, access };
    let bindings = [
        bind(0, a, 1 << 20, Access::Read),
        bind(1, b, 1 << 20, Access::Read),
        bind(2, product, 4 << 20, Access::Write),
    ];
    let before = daemon.thread_cpu_time("accel-complete")?;
    let pending: Vec<_> = (0..4)
        .map(|_| client.execute_async(queue, big, &bindings, None))
        .collect::<std::result::Result<_, _>>()?;
    let mut device = Duration::ZERO;
    for pending in pending {
        device += Duration::from_nanos(pending.wait()?.gpu_ns.unwrap_or_default());
    }
    let used = daemon.thread_cpu_time("accel-complete")? - before;
    println!("{device:?} on the device: {used:?} of CPU time in the completion thread");
    assert!(used <= Duration::from_millis(20), "the completion thread used {used:?}");
    Ok(())
}

/// Options that leave only one virtqueue behave alike.
#[test]
fn one_ring_serves_too() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let options = Options { queues: Some(1), indirect: false, event_idx: false, ..Options::default() };
    let client = Client::new(FrontendTransport::connect(daemon.socket(), options)?)?;
    let (context, program, queue) = set_up(&client)?;
    let job = job(&client, context, 2)?;
    client.execute(queue, program, &bindings(&job))?;
    Ok(())
}
