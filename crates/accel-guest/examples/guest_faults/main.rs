//! Misuses the kernel module in a guest, and says whether it and the device bear it.
//!
//!     guest_faults NODE MODEL.tosa [CALLS]
//!
//! Prints a line for each check; exits with 1 when one failed.
//!
//!     guest_faults --transfer NODE
//!
//! Says how fast bytes move to the device and back.
//!
//!     guest_faults --unplug NODE MODEL.tosa
//!
//! Prints "unplug now" when several threads sleep for the device, and succeeds if all of them are woken with an error when it goes.

mod buffers;
mod fuzz;
mod raw;

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use accel_guest::{Buffer, CharDevice, Client, Context, Program, Queue, SlotBinding};
use accel_proto::{Access, Opcode, QueryTopic, Status, Usage};
use raw::{Node, frame};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Driver = Client<CharDevice>;

/// Time for the kernel to end what a program left; it has to wait for work in flight.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run", node, model] => child(run_once(Path::new(node), Path::new(model))),
        ["--flood", node, model] => child(flood(Path::new(node), Path::new(model))),
        ["--unplug", node, model] => child(unplug(Path::new(node), Path::new(model))),
        ["--transfer", node] => child(transfer(Path::new(node))),
        [node, model] => checks(node, model, 20_000),
        [node, model, calls] => checks(node, model, calls.parse().unwrap_or(20_000)),
        _ => {
            eprintln!(
                "usage: guest_faults NODE MODEL.tosa [CALLS] | --unplug NODE MODEL.tosa | --transfer NODE"
            );
            ExitCode::from(2)
        }
    }
}

fn checks(node: &str, model: &str, calls: u32) -> ExitCode {
    let faults = Faults { node: node.into(), model: model.into(), calls };
    type Check = (&'static str, fn(&Faults) -> Outcome);
    let all: &[Check] = &[
        ("ids of another file are refused with STALE_OBJECT", Faults::foreign_ids),
        ("two programs at once get equal results", Faults::two_programs),
        ("poll, timeouts, small rooms and forgotten requests", Faults::waiting),
        ("limits of a file", Faults::limits),
        ("what is not offered is refused", Faults::refusals),
        ("buffers carry payloads bit for bit, and only what they hold", Faults::buffers_carry),
        ("buffers of others, beyond their ends and over the limits are refused", Faults::buffers_refuse),
        ("buffers freed, unmapped and closed in flight, and in a child", Faults::buffers_end),
        ("a program killed in the middle of its work leaves nothing", Faults::killed),
        ("files closed in the middle of work leave nothing", Faults::closed),
        ("calls with random numbers, pointers and contents", Faults::fuzz),
        ("the device works as before", Faults::two_programs),
    ];
    let mut failed = 0;
    for (name, check) in all {
        let start = Instant::now();
        match check(&faults).and_then(|()| faults.nothing_left()) {
            Ok(()) => println!("ok      {name} ({:.1} s)", start.elapsed().as_secs_f64()),
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error}");
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn child(result: Outcome<String>) -> ExitCode {
    match result {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("guest_faults: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A program that is ready to run on zeros.
struct Work {
    context: Context,
    program: Program,
    queue: Queue,
    bindings: Vec<SlotBinding>,
}

impl Work {
    fn new(client: &Driver, model: &Path) -> Outcome<Self> {
        let context = client.create_context()?;
        let program = client.load_tosa(context, &std::fs::read(model)?, |_| ())?;
        let queue = client.create_queue(context)?;
        let mut bindings = Vec::new();
        for (slot, info) in client.slots(program)?.into_iter().enumerate() {
            let (usage, access) = match info.output {
                true => (Usage::PROGRAM_OUTPUT | Usage::TRANSFER_SOURCE, Access::Write),
                false => (Usage::PROGRAM_INPUT | Usage::TRANSFER_DESTINATION, Access::Read),
            };
            let buffer = client.allocate_buffer(context, info.bytes, client.transfer_domain(), usage)?;
            bindings.push(SlotBinding { slot: slot as u32, buffer, offset: 0, bytes: info.bytes, access });
        }
        Ok(Self { context, program, queue, bindings })
    }

    /// Runs it; the bytes of all outputs.
    fn run(&self, client: &Driver) -> Outcome<Vec<u8>> {
        client.execute(self.queue, self.program, &self.bindings)?;
        let mut outputs = Vec::new();
        for binding in self.bindings.iter().filter(|binding| binding.access == Access::Write) {
            let mut bytes = vec![0; binding.bytes as usize];
            client.read_buffer(binding.buffer, 0, &mut bytes)?;
            outputs.extend(bytes);
        }
        Ok(outputs)
    }
}

fn open(node: &Path) -> Outcome<Driver> {
    Ok(Client::new(CharDevice::open(node)?)?)
}

/// Child: a run through each command queue; the outputs in hex.
fn run_once(node: &Path, model: &Path) -> Outcome<String> {
    let client = open(node)?;
    let mut work = Work::new(&client, model)?;
    let outputs = work.run(&client)?;
    for _ in 1..client.rings() {
        work.queue = client.create_queue(work.context)?;
        if work.run(&client)? != outputs {
            return Err(format!("command queue {} gives other results", work.queue.ring).into());
        }
    }
    Ok(outputs.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Child: works until it is killed, after it said that it has work in flight.
fn flood(node: &Path, model: &Path) -> Outcome<String> {
    let client = open(node)?;
    let work = Work::new(&client, model)?;
    let mut flights = VecDeque::new();
    loop {
        let event = client.submit(work.queue, work.program, &work.bindings, None)?;
        flights.push_back((client.execute_async(work.queue, work.program, &work.bindings, None)?, event));
        if flights.len() == 16 {
            println!("working");
            if let Some((execution, event)) = flights.pop_front() {
                execution.wait()?;
                client.destroy_event(event)?;
            }
        }
    }
}

/// Moves 16 MiB there and back, twice; the best of each.
fn transfer(node: &Path) -> Outcome<String> {
    const BYTES: usize = 16 << 20;
    let client = open(node)?;
    let context = client.create_context()?;
    let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
    let buffer = client.allocate_buffer(context, BYTES as u64, client.transfer_domain(), usage)?;
    let data: Vec<u8> = (0..BYTES).map(|n| ((n * 7) >> 4) as u8).collect();
    let mut back = vec![0; BYTES];
    let (mut up, mut down) = (Duration::MAX, Duration::MAX);
    for _ in 0..2 {
        let start = Instant::now();
        client.write_buffer(buffer, 0, &data)?;
        up = up.min(start.elapsed());
        back.fill(0);
        let start = Instant::now();
        client.read_buffer(buffer, 0, &mut back)?;
        down = down.min(start.elapsed());
        if back != data {
            return Err("16 MiB did not survive".into());
        }
    }
    let rate = |time: Duration| (BYTES >> 20) as f64 / time.as_secs_f64();
    Ok(format!("16 MiB up at {:.0} MiB/s, down at {:.0} MiB/s", rate(up), rate(down)))
}

/// Sleeps for the device in every way that there is, until it is pulled out.
fn unplug(node: &Path, model: &Path) -> Outcome<String> {
    let (client, bare) = (open(node)?, Node::open(node)?);
    let work = Work::new(&client, model)?;
    let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
    let remote = client.allocate_buffer(work.context, 1 << 20, client.transfer_domain(), usage)?;
    let made = bare.make(1 << 20)?;
    let mut last = client.submit(work.queue, work.program, &work.bindings, None)?;
    for _ in 1..client.info().max_events_per_context.get().min(100) {
        last = client.submit(work.queue, work.program, &work.bindings, None)?;
    }
    let execution = client.execute_async(work.queue, work.program, &work.bindings, None);
    std::thread::scope(|scope| -> Outcome {
        let event = scope.spawn(|| client.wait_event(last, None).map(drop));
        let run = scope.spawn(|| execution?.wait().map(drop));
        // Through buffers of the kernel module, as long as it goes.
        let reader = scope.spawn(|| {
            let mut data = vec![0; 1 << 20];
            loop {
                client.read_buffer(remote, 0, &mut data)?;
            }
        });
        let poll = scope.spawn(|| bare.poll(-1));
        println!("unplug now");
        for sleeper in [event, run, reader] {
            match sleeper.join().map_err(|_| "a thread died")? {
                Err(accel_guest::Error::Gone) => {}
                other => return Err(format!("a sleeper got {other:?} instead of 'gone'").into()),
            }
        }
        match poll.join().map_err(|_| "a thread died")? {
            events if events & libc::POLLHUP != 0 => Ok(()),
            events => Err(format!("poll gave {events:#x} instead of POLLHUP").into()),
        }
    })?;
    expect(bare.call(raw::INFO, &mut [0; 16]), libc::ENODEV, "a question after the end")?;
    expect(bare.submit(&frame(Opcode::GetDeviceInfo, 1, &[]), 92), libc::ENODEV, "a request after the end")?;
    expect(bare.make(1), libc::ENODEV, "a buffer after the end")?;
    expect(bare.map(made.offset, made.bytes, libc::MAP_SHARED), libc::ENODEV, "a mapping after the end")?;
    bare.free(made.handle)?;
    match client.create_context() {
        Err(accel_guest::Error::Gone) => {}
        other => return Err(format!("a command after the end gave {other:?}").into()),
    }
    expect(Node::open(node).map(drop), libc::ENOENT, "the node")?;
    Ok("ok      hot unplug wakes every sleeper, and the open files bear it".into())
}

struct Faults {
    node: PathBuf,
    model: PathBuf,
    calls: u32,
}

impl Faults {
    fn spawn(&self, what: &str) -> Outcome<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(command.arg(what).arg(&self.node).arg(&self.model).stdout(Stdio::piped()).spawn()?)
    }

    /// All that files ever made is gone from the device, at the latest after a while.
    fn nothing_left(&self) -> Outcome {
        let start = Instant::now();
        loop {
            let client = open(&self.node)?;
            let limits: serde_json::Value = serde_json::from_str(&client.query(QueryTopic::Limits, 0)?)?;
            let used = limits["memory_used_bytes"].as_u64();
            let contexts = client.info().max_contexts.get();
            let made: Vec<_> = (0..contexts).map_while(|_| client.create_context().ok()).collect();
            let free = made.len();
            for context in made {
                client.destroy_context(context)?;
            }
            if used == Some(0) && free == contexts as usize {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let text =
                    format!("the device still holds {used:?} bytes, and has {free} of {contexts} contexts");
                return Err(text.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn foreign_ids(&self) -> Outcome {
        let (ours, theirs) = (open(&self.node)?, open(&self.node)?);
        let (work, other) = (Work::new(&ours, &self.model)?, Work::new(&theirs, &self.model)?);
        let buffer = work.bindings[0].buffer;
        let domain = ours.transfer_domain();
        let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let (mine, target) = (
            theirs.allocate_buffer(other.context, 64, domain, usage)?,
            ours.allocate_buffer(work.context, 64, domain, usage)?,
        );
        let event = ours.submit(work.queue, work.program, &work.bindings, None)?;
        ours.wait_event(event, None)?;

        let mut swapped = other.bindings.clone();
        if let Some(last) = swapped.last_mut() {
            last.buffer = work.bindings[work.bindings.len() - 1].buffer;
        }
        let mut byte = [0];
        let attempts: Vec<(&str, accel_guest::Result<()>)> = vec![
            ("DESTROY_CONTEXT", theirs.destroy_context(work.context)),
            ("ALLOCATE_BUFFER", theirs.allocate_buffer(work.context, 64, domain, usage).map(drop)),
            ("FREE_BUFFER", theirs.free_buffer(buffer)),
            ("WRITE_BUFFER", theirs.write_buffer(target, 0, &[1])),
            ("READ_BUFFER", theirs.read_buffer(target, 0, &mut byte)),
            ("LOAD_PROGRAM", theirs.load_tosa(work.context, &std::fs::read(&self.model)?, |_| ()).map(drop)),
            ("UNLOAD_PROGRAM", theirs.unload_program(work.program)),
            ("CREATE_QUEUE", theirs.create_queue(work.context).map(drop)),
            ("DESTROY_QUEUE", theirs.destroy_queue(work.queue)),
            ("SUBMIT, queue", theirs.submit(work.queue, other.program, &other.bindings, None).map(drop)),
            ("SUBMIT, program", theirs.submit(other.queue, work.program, &other.bindings, None).map(drop)),
            ("SUBMIT, buffer", theirs.submit(other.queue, other.program, &swapped, None).map(drop)),
            ("EXECUTE", theirs.execute(work.queue, work.program, &work.bindings).map(drop)),
            ("EXECUTE, buffer", theirs.execute(other.queue, other.program, &swapped).map(drop)),
            ("POLL_EVENT", theirs.poll_event(event).map(drop)),
            ("WAIT_EVENT", theirs.wait_event(event, None).map(drop)),
            ("CANCEL_EVENT", theirs.cancel_event(event)),
            ("DESTROY_EVENT", theirs.destroy_event(event)),
            ("QUERY", theirs.slots(work.program).map(drop)),
            ("QUERY, context", theirs.last_load_failure(work.context).map(drop)),
            ("COPY_BUFFER, source", theirs.copy_buffer((target, 0), (mine, 0), 8)),
            ("COPY_BUFFER, destination", theirs.copy_buffer((mine, 0), (target, 0), 8)),
            // A kind that is not the one asked for, though ours.
            ("FREE_BUFFER of a program", theirs.free_buffer(Buffer(other.program.0))),
        ];
        for (name, result) in attempts {
            if result.as_ref().err().and_then(accel_guest::Error::status) != Some(Status::StaleObject) {
                return Err(format!("{name} with an id of another file gave {result:?}").into());
            }
        }
        // Neither was harmed.
        ours.destroy_event(event)?;
        if work.run(&ours)? != other.run(&theirs)? {
            return Err("two files get different results".into());
        }
        Ok(())
    }

    fn two_programs(&self) -> Outcome {
        let children = [self.spawn("--run")?, self.spawn("--run")?, self.spawn("--run")?];
        let mut results = Vec::new();
        for child in children {
            let output = child.wait_with_output()?;
            if !output.status.success() || output.stdout.len() < 3 {
                return Err(format!(
                    "a program ended with {} and {} bytes",
                    output.status,
                    output.stdout.len()
                )
                .into());
            }
            results.push(output.stdout);
        }
        if results.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err("programs that ran at once got different results".into());
        }
        Ok(())
    }

    fn waiting(&self) -> Outcome {
        let node = Node::open(&self.node)?;
        let mut room = [0; 256];
        expect(node.wait(0, 0, &mut room), libc::ENOENT, "a wait with nothing in flight")?;
        expect(node.wait(77, 0, &mut room), libc::ENOENT, "a wait for an unknown cookie")?;
        let info = frame(Opcode::GetDeviceInfo, 41, &[]);
        let cookie = node.submit(&info, 92)?;
        if node.poll(10_000) & libc::POLLIN == 0 {
            return Err("poll does not tell of a response".into());
        }
        expect(node.wait(cookie, 0, &mut room[..91]), libc::ENOSPC, "a room that is too small")?;
        if node.wait(0, u64::MAX, &mut room)? != (cookie, 92) || room[8] != 41 {
            return Err("the response is not that of the request".into());
        }
        expect(node.wait(cookie, 0, &mut room), libc::ENOENT, "a second wait")?;
        if node.poll(0) != 0 {
            return Err("poll tells of a response that was taken".into());
        }

        let client = open(&self.node)?;
        let work = Work::new(&client, &self.model)?;
        let start = || client.execute_async(work.queue, work.program, &work.bindings, None);
        let mut last = start()?;
        for _ in 0..8 {
            // Nobody waits for these.
            drop(std::mem::replace(&mut last, start()?));
        }
        match last.wait_timeout(Some(Duration::from_nanos(1))) {
            Err(accel_guest::Error::TimedOut(_)) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if let Err(error) = last.wait()
            && !matches!(error, accel_guest::Error::UnknownToken)
        {
            return Err(error.into());
        }
        Ok(())
    }

    fn limits(&self) -> Outcome {
        let node = Node::open(&self.node)?;
        let info = frame(Opcode::GetDeviceInfo, 1, &[]);
        let mut sent = 0;
        let refused = loop {
            match node.submit(&info, 92) {
                Ok(_) => sent += 1,
                Err(error) => break error,
            }
        };
        if refused.raw_os_error() != Some(libc::EBUSY) || !(2..=1024).contains(&sent) {
            return Err(format!("after {sent} requests whose responses nobody took: {refused}").into());
        }
        let mut room = [0; 92];
        for _ in 0..sent {
            node.wait(0, u64::MAX, &mut room)?;
        }
        node.submit(&info, 92)?;

        // The transport takes responses out when it has to.
        let client = open(&self.node)?;
        let context = client.create_context()?;
        let usage = Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION;
        let buffer = client.allocate_buffer(context, 16 << 20, client.transfer_domain(), usage)?;
        let data: Vec<u8> = (0..16 << 20).map(|n: u32| (n >> 3) as u8).collect();
        let mut back = vec![0; data.len()];
        std::thread::scope(|scope| -> Outcome {
            let writer = scope.spawn(|| client.write_buffer(buffer, 0, &data));
            writer.join().map_err(|_| "a thread died")??;
            Ok(())
        })?;
        client.read_buffer(buffer, 0, &mut back)?;
        if back != data {
            return Err("16 MiB did not survive".into());
        }
        Ok(())
    }

    fn refusals(&self) -> Outcome {
        let node = Node::open(&self.node)?;
        let info = frame(Opcode::GetDeviceInfo, 1, &[]);
        let mut words = raw::submit_words(&info, 92);
        words[2] = 99;
        expect(node.call(raw::SUBMIT, &mut words), libc::EINVAL, "queue 99")?;
        words[2] = 1 << 32;
        expect(node.call(raw::SUBMIT, &mut words), libc::EINVAL, "a flag")?;
        expect(node.submit(&info[..15], 92), libc::EINVAL, "a request without a header")?;
        expect(node.submit(&info, 15), libc::EINVAL, "no room for a header")?;
        expect(node.submit(&info, u32::MAX), libc::EMSGSIZE, "4 GiB for the response")?;
        expect(node.ioctl(0xea7f, 0), libc::ENOTTY, "an unknown call")?;
        expect(node.ioctl(raw::INFO, 8), libc::EFAULT, "a bad pointer")?;
        let mut room = [0; 92];
        let strange = {
            let mut frame = info.clone();
            frame[..2].copy_from_slice(&0x7abc_u16.to_le_bytes());
            frame
        };
        let cookie = node.submit(&strange, 92)?;
        node.wait(cookie, u64::MAX, &mut room)?;
        if room[0] != 1 || room[8] != 1 {
            return Err("an unknown opcode is not answered UNSUPPORTED".into());
        }
        Ok(())
    }

    fn killed(&self) -> Outcome {
        for _ in 0..3 {
            let mut child = self.spawn("--flood")?;
            let stdout = child.stdout.take().ok_or("the child has no output")?;
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            let was_working = line.trim() == "working" && child.try_wait()?.is_none();
            child.kill()?;
            child.wait()?;
            if !was_working {
                return Err("the child did not get to work".into());
            }
        }
        Ok(())
    }

    fn closed(&self) -> Outcome {
        for _ in 0..4 {
            let client = open(&self.node)?;
            let work = Work::new(&client, &self.model)?;
            for _ in 0..4 {
                drop(client.execute_async(work.queue, work.program, &work.bindings, None)?);
                client.submit(work.queue, work.program, &work.bindings, None)?;
            }
        }
        Ok(())
    }

    fn fuzz(&self) -> Outcome {
        let done = fuzz::run(&self.node, self.calls)?;
        if done == 0 {
            return Err("not one call succeeded, so little was tried".into());
        }
        Ok(())
    }
}

fn expect<T>(result: std::io::Result<T>, code: i32, what: &str) -> Outcome {
    match result {
        Err(error) if error.raw_os_error() == Some(code) => Ok(()),
        Err(error) => Err(format!("{what} gave '{error}' instead of error {code}").into()),
        Ok(_) => Err(format!("{what} succeeded instead of giving error {code}").into()),
    }
}
