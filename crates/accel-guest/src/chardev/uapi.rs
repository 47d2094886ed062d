//! The calls of `kmod/accel_uapi.h`, version 2.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use accel_proto::CONFIG_BYTES;

/// The version that this file mirrors.
pub const VERSION: u32 = 2;
/// A timeout without end.
pub const FOREVER: u64 = u64::MAX;

/// `struct vaccel_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Info {
    pub version: u32,
    pub queues: u32,
    pub max_requests: u32,
    pub max_bytes: u32,
    pub config: [u8; CONFIG_BYTES],
}

/// `struct vaccel_part`; all zero is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub handle: u32,
    pub bytes: u32,
    pub offset: u64,
}

#[repr(C)]
struct Submit {
    request: u64,
    request_bytes: u32,
    response_bytes: u32,
    queue: u32,
    flags: u32,
    cookie: u64,
    request_tail: Part,
    response_tail: Part,
}

#[repr(C)]
struct Wait {
    cookie: u64,
    timeout_ns: u64,
    response: u64,
    response_bytes: u32,
    flags: u32,
}

#[repr(C)]
struct Forget {
    cookie: u64,
}

#[repr(C)]
struct Buffer {
    bytes: u64,
    offset: u64,
    handle: u32,
    flags: u32,
}

#[repr(C)]
struct BufferFree {
    handle: u32,
    flags: u32,
}

const READ: u32 = 2;
const WRITE: u32 = 1;

/// A request number as `_IOC` makes it.
const fn number(direction: u32, index: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | 0xea << 8 | index
}

const INFO: u32 = number(READ, 0, size_of::<Info>());
const SUBMIT: u32 = number(READ | WRITE, 1, size_of::<Submit>());
const WAIT: u32 = number(READ | WRITE, 2, size_of::<Wait>());
const FORGET: u32 = number(WRITE, 3, size_of::<Forget>());
const BUFFER: u32 = number(READ | WRITE, 4, size_of::<Buffer>());
const BUFFER_FREE: u32 = number(WRITE, 5, size_of::<BufferFree>());

// What the C compiler makes of the header.
const _: () = {
    assert!(INFO == 0x8050_ea00 && SUBMIT == 0xc040_ea01 && WAIT == 0xc020_ea02 && FORGET == 0x4008_ea03);
    assert!(BUFFER == 0xc018_ea04 && BUFFER_FREE == 0x4008_ea05);
};

fn call<T>(node: &File, number: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: each number of this file comes with the structure whose size it carries, and the kernel touches no more
    // of it. The addresses in it are those of live slices with the lengths beside them, as the callers see to.
    match unsafe { libc::ioctl(node.as_raw_fd(), number as _, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// VACCEL_IOC_INFO.
pub fn info(node: &File) -> io::Result<Info> {
    let mut info = Info { version: 0, queues: 0, max_requests: 0, max_bytes: 0, config: [0; CONFIG_BYTES] };
    call(node, INFO, &mut info)?;
    Ok(info)
}

/// VACCEL_IOC_SUBMIT; `tails` continue the request and the response. Returns the cookie.
pub fn submit(
    node: &File,
    queue: u32,
    request: &[u8],
    response_bytes: u32,
    tails: [Part; 2],
) -> io::Result<u64> {
    let [request_tail, response_tail] = tails;
    let mut submit = Submit {
        request: request.as_ptr() as u64,
        request_bytes: u32::try_from(request.len()).unwrap_or(u32::MAX),
        response_bytes,
        queue,
        flags: 0,
        cookie: 0,
        request_tail,
        response_tail,
    };
    call(node, SUBMIT, &mut submit)?;
    Ok(submit.cookie)
}

/// How a look for a response ended.
pub struct Taken {
    pub result: io::Result<()>,
    /// Of the request, where the kernel found one.
    pub cookie: u64,
    /// Bytes of the response with its tail; where the room was too small, those without.
    pub bytes: usize,
}

/// VACCEL_IOC_WAIT; `cookie` 0 takes any response.
pub fn wait(node: &File, cookie: u64, timeout_ns: u64, response: &mut [u8]) -> Taken {
    let mut wait = Wait {
        cookie,
        timeout_ns,
        response: response.as_mut_ptr() as u64,
        response_bytes: u32::try_from(response.len()).unwrap_or(u32::MAX),
        flags: 0,
    };
    let result = call(node, WAIT, &mut wait);
    Taken { result, cookie: wait.cookie, bytes: wait.response_bytes as usize }
}

/// VACCEL_IOC_FORGET.
pub fn forget(node: &File, cookie: u64) -> io::Result<()> {
    call(node, FORGET, &mut Forget { cookie })
}

/// What VACCEL_IOC_BUFFER made.
pub struct Made {
    pub handle: u32,
    /// Where mmap of the node finds it.
    pub offset: u64,
    /// As many as asked for, or more.
    pub bytes: usize,
}

/// VACCEL_IOC_BUFFER.
pub fn make_buffer(node: &File, bytes: usize) -> io::Result<Made> {
    let mut buffer = Buffer { bytes: bytes as u64, offset: 0, handle: 0, flags: 0 };
    call(node, BUFFER, &mut buffer)?;
    Ok(Made { handle: buffer.handle, offset: buffer.offset, bytes: buffer.bytes as usize })
}

/// VACCEL_IOC_BUFFER_FREE. It fails only when the device is gone, and then the end of the file frees the buffer.
pub fn free_buffer(node: &File, handle: u32) {
    let _ = call(node, BUFFER_FREE, &mut BufferFree { handle, flags: 0 });
}
