//! Buffers of the kernel module: what they carry, what is refused, and how they end.

use std::time::{Duration, Instant};

use accel_proto::{
    AllocateBuffer, CreateContext, HEADER_BYTES, IntoBytes, MemoryDomain, Opcode, Status, Transfer, Usage,
};

use crate::raw::{BUFFER, BUFFER_FREE, Made, Node, SUBMIT, head, part, submit_words};
use crate::{Faults, Outcome, PATIENCE, expect};

const PAGE: usize = 4096;
/// Bytes of the device's buffer.
const REMOTE: u64 = 1 << 20;
const SHARED: i32 = libc::MAP_SHARED;
/// The module's limits, in MiB.
const PARAMETERS: &str = "/sys/module/virtio_accel/parameters";

/// A response without its tail.
struct Response {
    status: u16,
    /// Bytes that the device wrote, with the tail.
    bytes: usize,
    payload: Vec<u8>,
}

/// A node, and a buffer of the device that was made through it.
struct Remote {
    node: Node,
    buffer: u64,
}

impl Remote {
    fn new(faults: &Faults) -> Outcome<Self> {
        let mut remote = Self { node: Node::open(&faults.node)?, buffer: 0 };
        let made =
            remote.call(Opcode::CreateContext, CreateContext::default().as_bytes(), 24, [[0; 2]; 2])?;
        let allocate = AllocateBuffer {
            context_id: id(&made)?.into(),
            bytes: REMOTE.into(),
            alignment: 256.into(),
            memory_domain: MemoryDomain::Host.code(),
            usage: (Usage::TRANSFER_SOURCE | Usage::TRANSFER_DESTINATION).bits().into(),
            ..Default::default()
        };
        remote.buffer = id(&remote.call(Opcode::AllocateBuffer, allocate.as_bytes(), 24, [[0; 2]; 2])?)?;
        Ok(remote)
    }

    /// Sends a request; its cookie. The tails are parts as [`part`] makes them.
    fn send(&self, opcode: Opcode, payload: &[u8], room: u32, tails: [[u64; 2]; 2]) -> std::io::Result<u64> {
        let frame = head(opcode, 7, payload, (tails[0][0] >> 32) as u32);
        let mut words = submit_words(&frame, room);
        words[4..6].copy_from_slice(&tails[0]);
        words[6..8].copy_from_slice(&tails[1]);
        self.node.call(SUBMIT, &mut words)?;
        Ok(words[3])
    }

    fn take(&self, cookie: u64) -> Outcome<Response> {
        let mut room = [0; 256];
        let (_, bytes) = self.node.wait(cookie, u64::MAX, &mut room)?;
        let payload = room[HEADER_BYTES..bytes.clamp(HEADER_BYTES, room.len())].to_vec();
        Ok(Response { status: u16::from_le_bytes([room[0], room[1]]), bytes, payload })
    }

    fn call(&self, opcode: Opcode, payload: &[u8], room: u32, tails: [[u64; 2]; 2]) -> Outcome<Response> {
        self.take(self.send(opcode, payload, room, tails)?)
    }

    fn transfer(&self, offset: u64, bytes: u32) -> Transfer {
        Transfer { buffer_id: self.buffer.into(), offset: offset.into(), bytes: u64::from(bytes).into() }
    }

    /// WRITE_BUFFER from a part of `made`.
    fn write(&self, offset: u64, made: &Made, at: u64, bytes: u32) -> Outcome<Response> {
        let transfer = self.transfer(offset, bytes);
        self.call(Opcode::WriteBuffer, transfer.as_bytes(), 16, [part(made.handle, at, bytes), [0; 2]])
    }

    /// READ_BUFFER to a part of `made`; the cookie.
    fn start_read(&self, offset: u64, made: &Made, at: u64, bytes: u32) -> std::io::Result<u64> {
        let transfer = self.transfer(offset, bytes);
        self.send(Opcode::ReadBuffer, transfer.as_bytes(), 16, [[0; 2], part(made.handle, at, bytes)])
    }
}

fn id(response: &Response) -> Outcome<u64> {
    if response.status != Status::Ok.code() || response.bytes != HEADER_BYTES + 8 {
        return Err(format!("an object was refused with {}", response.status).into());
    }
    Ok(u64::from_le_bytes(response.payload[..8].try_into()?))
}

fn answered(response: &Response, status: Status, bytes: usize, what: &str) -> Outcome {
    if (response.status, response.bytes) == (status.code(), bytes) {
        return Ok(());
    }
    let Response { status: found, bytes: written, .. } = response;
    Err(format!("{what} was answered {found} in {written} bytes instead of {status} in {bytes}").into())
}

/// Makes a buffer as soon as the one before is gone: the last request that carried it may end a moment after its answer.
fn make_soon(node: &Node, bytes: u64) -> std::io::Result<Made> {
    let start = Instant::now();
    loop {
        match node.make(bytes) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Sets a limit of the module, in MiB; what it was.
fn limit(name: &str, mib: u64) -> Outcome<u64> {
    let path = format!("{PARAMETERS}/{name}");
    let was = std::fs::read_to_string(&path)?.trim().parse()?;
    std::fs::write(path, mib.to_string())?;
    Ok(was)
}

impl Faults {
    pub fn buffers_carry(&self) -> Outcome {
        let remote = Remote::new(self)?;
        let (from, to) = (remote.node.make(700_000)?, remote.node.make(1)?);
        if from.bytes < 700_000 || from.bytes % PAGE != 0 || to.bytes != PAGE {
            return Err(format!("700,000 and 1 bytes became {} and {}", from.bytes, to.bytes).into());
        }
        let mut source = remote.node.map(from.offset, from.bytes, SHARED)?;
        if source.bytes().iter().any(|byte| *byte != 0) {
            return Err("a new buffer is not zero".into());
        }
        for (at, byte) in source.bytes().iter_mut().enumerate() {
            *byte = ((at * 31) >> 3) as u8;
        }
        // Odd places, which begin and end within pages, and pieces of the memory.
        let (at, len) = (12_345_usize, 600_001_u32);
        answered(&remote.write(3, &from, at as u64, len)?, Status::Ok, 16, "a write")?;
        let back = remote.node.make(1 << 20)?;
        let cookie = remote.start_read(3, &back, 54_321, len)?;
        answered(&remote.take(cookie)?, Status::Ok, 16 + len as usize, "a read")?;
        // A mapping may begin at any page of the buffer.
        let mut target = remote.node.map(back.offset + 13 * PAGE as u64, back.bytes - 13 * PAGE, SHARED)?;
        let place = 54_321 - 13 * PAGE;
        if target.bytes()[place..][..len as usize] != source.bytes()[at..][..len as usize] {
            return Err("600,001 bytes did not come back as they went".into());
        }
        let outside = [&target.bytes()[..place].to_vec(), &target.bytes()[place + len as usize..].to_vec()];
        if outside.into_iter().flatten().any(|byte| *byte != 0) {
            return Err("the device wrote beside the part that was named".into());
        }
        // What the device refuses touches nothing.
        target.bytes().fill(0x5a);
        let cookie = remote.start_read(REMOTE - 1, &back, 13 * PAGE as u64, 2)?;
        answered(&remote.take(cookie)?, Status::OutOfBounds, 16, "a read past the end")?;
        if target.bytes().iter().any(|byte| *byte != 0x5a) {
            return Err("a refused read wrote something".into());
        }
        Ok(())
    }

    pub fn buffers_refuse(&self) -> Outcome {
        let (remote, other) = (Remote::new(self)?, Node::open(&self.node)?);
        let made = remote.node.make(64 << 10)?;
        let len = made.bytes as u64;
        for (bytes, what) in [(0, "no bytes"), ((256 << 20) + 1, "256 MiB and one"), (u64::MAX, "all")] {
            expect(remote.node.make(bytes), libc::EINVAL, what)?;
        }
        let mut words = [0; 16];
        words[..3].copy_from_slice(&[4096, 0, 1 << 32]);
        expect(remote.node.call(BUFFER, &mut words), libc::EINVAL, "a flag at the making")?;
        words[0] = 1 << 32 | u64::from(made.handle);
        expect(remote.node.call(BUFFER_FREE, &mut words), libc::EINVAL, "a flag at the freeing")?;
        expect(remote.node.ioctl(BUFFER, 8), libc::EFAULT, "a bad pointer")?;
        expect(remote.node.free(0), libc::ENOENT, "handle 0")?;
        expect(remote.node.free(made.handle + 1), libc::ENOENT, "an unknown handle")?;

        expect(other.free(made.handle), libc::ENOENT, "another file's handle, freed")?;
        expect(other.map(made.offset, PAGE, SHARED), libc::EINVAL, "another file's handle, mapped")?;
        let mut theirs = submit_words(&head(Opcode::GetDeviceInfo, 1, &[], 8), 92);
        theirs[4..6].copy_from_slice(&part(made.handle, 0, 8));
        expect(other.call(SUBMIT, &mut theirs), libc::ENOENT, "another file's handle, sent")?;

        let map = |offset, bytes, flags| remote.node.map(offset, bytes, flags);
        expect(map(made.offset, made.bytes + PAGE, SHARED), libc::EINVAL, "a mapping beyond the end")?;
        expect(map(made.offset + len, PAGE, SHARED), libc::EINVAL, "a mapping behind the end")?;
        expect(map(0, PAGE, SHARED), libc::EINVAL, "a mapping of handle 0")?;
        expect(map(1 << 45, PAGE, SHARED), libc::EINVAL, "a mapping of no handle")?;
        expect(map(made.offset, PAGE, libc::MAP_PRIVATE), libc::EINVAL, "a private mapping")?;

        let whole = u32::try_from(len)?;
        let transfer = remote.transfer(0, whole);
        for (tail, code, what) in [
            (part(made.handle, 1, whole), libc::EINVAL, "a part beyond the end"),
            (part(made.handle, len, 1), libc::EINVAL, "a part behind the end"),
            (part(made.handle, u64::MAX, 1), libc::EINVAL, "a part at the largest place"),
            (part(made.handle, 0, 0), libc::EINVAL, "an empty part"),
            (part(0, 0, 1), libc::EINVAL, "a part of nothing"),
            (part(made.handle + 1, 0, 1), libc::ENOENT, "a part of an unknown buffer"),
            (part(made.handle, 0, u32::MAX), libc::EMSGSIZE, "a part of 4 GiB"),
        ] {
            for tails in [[tail, [0; 2]], [[0; 2], tail]] {
                expect(remote.send(Opcode::WriteBuffer, transfer.as_bytes(), 16, tails), code, what)?;
            }
        }
        // The module must see the ids, so they cannot lie where the program may change them.
        let tail = part(made.handle, 0, 64);
        for (opcode, payload, tails) in [
            (Opcode::Execute, &[0; 32][..], [tail, [0; 2]]),
            (Opcode::Submit, &[0; 32], [tail, [0; 2]]),
            (Opcode::WriteBuffer, &[], [tail, [0; 2]]),
            (Opcode::CreateContext, &[0; 8], [[0; 2], tail]),
        ] {
            let response = remote.call(opcode, payload, 24, tails)?;
            answered(&response, Status::InvalidArgument, 16, &format!("{opcode} with ids in a buffer"))?;
        }

        // The limits: of one file, then of all.
        let was = limit("file_buffer_mib", 1)?;
        let (second, third) = (remote.node.make(512 << 10), remote.node.make(512 << 10));
        limit("file_buffer_mib", was)?;
        remote.node.free(second?.handle)?;
        expect(third, libc::ENOSPC, "a buffer beyond the file's limit")?;
        let was = limit("buffer_mib", 1)?;
        let (second, third) = (remote.node.make(512 << 10), other.make(512 << 10));
        limit("buffer_mib", was)?;
        second?;
        expect(third, libc::ENOSPC, "a buffer beyond the limit of all files")?;
        other.make(512 << 10)?;

        remote.node.free(made.handle)?;
        expect(remote.node.free(made.handle), libc::ENOENT, "a second freeing")?;
        expect(map(made.offset, PAGE, SHARED), libc::EINVAL, "a mapping of a freed buffer")
    }

    pub fn buffers_end(&self) -> Outcome {
        let was = limit("file_buffer_mib", 16)?;
        let outcome = self.buffers_end_within(12 << 20);
        limit("file_buffer_mib", was)?;
        outcome
    }

    /// With buffers of more than half the limit, so that one that is kept by mistake is missed.
    fn buffers_end_within(&self, bytes: u64) -> Outcome {
        for round in 0..6 {
            let remote = Remote::new(self)?;
            let mut cookies = Vec::new();
            for turn in 0..3 {
                let made = make_soon(&remote.node, bytes)?;
                let mut mapping = remote.node.map(made.offset, made.bytes, SHARED)?;
                mapping.bytes()[0] = turn;
                let reads = (0..8).map(|n| remote.start_read(0, &made, n * REMOTE, REMOTE as u32));
                let mine = reads.collect::<Result<Vec<_>, _>>()?;
                match round % 3 {
                    // Freed in flight, then unmapped; the other way round; or the file is closed with all of it.
                    0 => {
                        remote.node.free(made.handle)?;
                        expect(remote.start_read(0, &made, 0, 64), libc::ENOENT, "a freed buffer")?;
                    }
                    1 => {
                        drop(mapping);
                        remote.node.free(made.handle)?;
                    }
                    _ => break,
                }
                for cookie in mine {
                    answered(&remote.take(cookie)?, Status::Ok, 16 + REMOTE as usize, "a read")?;
                    cookies.push(cookie);
                }
            }
            for cookie in cookies {
                expect(remote.node.wait(cookie, 0, &mut [0; 16]), libc::ENOENT, "a second wait")?;
            }
        }
        // A mapping outlives its handle, and counts until it ends.
        let node = Node::open(&self.node)?;
        let made = node.make(bytes)?;
        let mut mapping = node.map(made.offset, made.bytes, SHARED)?;
        node.free(made.handle)?;
        expect(node.make(bytes), libc::ENOSPC, "a second buffer beside a mapped one that was freed")?;
        mapping.bytes().fill(1);
        match mapping.kills_child() {
            libc::SIGSEGV => {}
            signal => return Err(format!("a child that read the mapping died of signal {signal}").into()),
        }
        drop(mapping);
        make_soon(&node, bytes)?;
        // The descriptor's end is not the mapping's.
        let made = node.make(PAGE as u64)?;
        let mut last = node.map(made.offset, PAGE, SHARED)?;
        drop(node);
        last.bytes().fill(2);
        Ok(())
    }
}
