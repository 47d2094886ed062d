//! The kernel module's calls without any care, for programs that misuse them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use accel_proto::{HEADER_BYTES, IntoBytes, Opcode, RequestHeader};

/// Numbers of the calls of `kmod/accel_uapi.h`.
pub const INFO: u32 = 0x8050_ea00;
pub const SUBMIT: u32 = 0xc040_ea01;
pub const WAIT: u32 = 0xc020_ea02;
pub const FORGET: u32 = 0x4008_ea03;
pub const BUFFER: u32 = 0xc018_ea04;
pub const BUFFER_FREE: u32 = 0x4008_ea05;

/// Room for every structure of the header.
pub type Words = [u64; 16];

/// An open node.
pub struct Node(File);

impl Node {
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    /// Any call with any argument. The caller sees to it that a number of the header comes with a place where the kernel can
    /// write nothing that this process cares for.
    pub fn ioctl(&self, number: u32, argument: usize) -> io::Result<()> {
        // SAFETY: the kernel writes to `argument` or to places that the words there name. Both are the caller's scratch memory, or
        // no memory of this process.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    pub fn call(&self, number: u32, words: &mut Words) -> io::Result<()> {
        self.ioctl(number, words.as_mut_ptr() as usize)
    }

    /// Sends a frame; its cookie.
    pub fn submit(&self, frame: &[u8], room: u32) -> io::Result<u64> {
        let mut words = submit_words(frame, room);
        self.call(SUBMIT, &mut words)?;
        Ok(words[3])
    }

    /// Takes a response; its cookie and length.
    pub fn wait(&self, cookie: u64, timeout_ns: u64, response: &mut [u8]) -> io::Result<(u64, usize)> {
        let mut words = [0; 16];
        words[..4].copy_from_slice(&[
            cookie,
            timeout_ns,
            response.as_mut_ptr() as u64,
            response.len() as u64,
        ]);
        self.call(WAIT, &mut words)?;
        Ok((words[0], words[3] as u32 as usize))
    }

    /// What poll says within `timeout_ms`.
    pub fn poll(&self, timeout_ms: i32) -> i16 {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, which lives through the call.
        unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
        poll.revents
    }

    /// Makes a buffer.
    pub fn make(&self, bytes: u64) -> io::Result<Made> {
        let mut words = [0; 16];
        words[0] = bytes;
        self.call(BUFFER, &mut words)?;
        Ok(Made { bytes: words[0] as usize, offset: words[1], handle: words[2] as u32 })
    }

    /// Frees a buffer.
    pub fn free(&self, handle: u32) -> io::Result<()> {
        let mut words = [0; 16];
        words[0] = u64::from(handle);
        self.call(BUFFER_FREE, &mut words)
    }

    /// Maps `len` bytes of the node at `offset`, shared unless `flags` says otherwise.
    pub fn map(&self, offset: u64, len: usize, flags: i32) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice takes nothing away.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                flags,
                self.0.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at: at.cast(), len })
    }
}

/// A buffer of the kernel module's.
#[derive(Clone, Copy)]
pub struct Made {
    pub bytes: usize,
    pub offset: u64,
    pub handle: u32,
}

/// A mapped buffer.
pub struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    /// The bytes. Nobody may let the device write them meanwhile.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes and ends with `self`; the caller sees to it that the device leaves them alone.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    /// The signal by which a child of this process dies when it reads the first byte; 0 if it survives.
    pub fn kills_child(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the child reads one byte and ends, so it needs nothing that the fork left behind in other threads; the
        // parent waits for that child alone.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let byte = self.at.read_volatile();
                libc::_exit(i32::from(byte) & 1);
            }
            libc::waitpid(child, &raw mut status, 0);
        }
        if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// A part of a buffer, as two words of VACCEL_IOC_SUBMIT.
pub fn part(handle: u32, offset: u64, bytes: u32) -> [u64; 2] {
    [u64::from(handle) | u64::from(bytes) << 32, offset]
}

/// The words of VACCEL_IOC_SUBMIT for queue 0.
pub fn submit_words(frame: &[u8], room: u32) -> Words {
    let mut words = [0; 16];
    words[0] = frame.as_ptr() as u64;
    words[1] = frame.len() as u64 | u64::from(room) << 32;
    words
}

/// A request's frame.
pub fn frame(opcode: Opcode, id: u64, payload: &[u8]) -> Vec<u8> {
    head(opcode, id, payload, 0)
}

/// The head of a request's frame, which goes on with `tail` bytes of a buffer.
pub fn head(opcode: Opcode, id: u64, payload: &[u8], tail: u32) -> Vec<u8> {
    let header = RequestHeader {
        opcode: opcode.code().into(),
        flags: 0.into(),
        payload_bytes: (payload.len() as u32).wrapping_add(tail).into(),
        request_id: id.into(),
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(payload);
    frame
}
