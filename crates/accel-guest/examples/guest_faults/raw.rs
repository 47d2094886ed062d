//! The kernel module's calls without any care, for programs that misuse them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use accel_proto::{HEADER_BYTES, IntoBytes, Opcode, RequestHeader};

/// Numbers of the calls of `kmod/accel_uapi.h`.
pub const INFO: u32 = 0x8050_ea00;
pub const SUBMIT: u32 = 0xc020_ea01;
pub const WAIT: u32 = 0xc020_ea02;
pub const FORGET: u32 = 0x4008_ea03;
pub const BUFFER: u32 = 0xc018_ea04;

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

    /// Whether mmap refuses.
    pub fn refuses_mmap(&self) -> bool {
        // SAFETY: a new mapping at a place of the kernel's choice takes nothing away.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, self.0.as_raw_fd(), 0)
        };
        at == libc::MAP_FAILED
    }
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
    let header = RequestHeader {
        opcode: opcode.code().into(),
        flags: 0.into(),
        payload_bytes: (payload.len() as u32).into(),
        request_id: id.into(),
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(payload);
    frame
}
