//! A device model that does what the first byte of a request says.
#![expect(clippy::panic, reason = "a defect of the device model is one of the things to say")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use accel_device::{Reply, Request};
use accel_proto::{ConfigSpace, Extensions, IntoBytes};
use vhost_device_accel::Model;

/// Answer at once with the request.
pub const ECHO: u8 = 0;
/// Keep the reply until the test takes it.
pub const HOLD: u8 = 1;
/// Answer with nothing.
pub const NOTHING: u8 = 2;
/// Answer with more than any chain has room for.
pub const TOO_MUCH: u8 = 3;
/// Block the worker until the test opens the gate.
pub const BLOCK: u8 = 4;
/// Panic before the answer.
pub const PANIC: u8 = 5;
/// Answer, then panic.
pub const ANSWER_AND_PANIC: u8 = 6;

pub const MAX_CHAIN: u16 = 6;
pub const MAX_REQUEST: u32 = 4096;

/// What a request looked like to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub queue: u16,
    pub bytes: Vec<u8>,
    pub readable: u64,
    pub writable: u64,
}

pub struct Stub {
    config: Vec<u8>,
    pub seen: Mutex<Vec<Seen>>,
    held: Mutex<Vec<Reply>>,
    came: Condvar,
    gate: Mutex<bool>,
    opened: Condvar,
    resets: AtomicUsize,
}

impl Stub {
    pub fn new() -> Arc<Self> {
        let config = ConfigSpace::new(MAX_CHAIN, MAX_REQUEST, 4096, 2, Extensions::NONE);
        Arc::new(Self {
            config: config.as_bytes().to_vec(),
            seen: Mutex::default(),
            held: Mutex::default(),
            came: Condvar::new(),
            gate: Mutex::new(false),
            opened: Condvar::new(),
            resets: AtomicUsize::new(0),
        })
    }

    pub fn resets(&self) -> usize {
        self.resets.load(Ordering::SeqCst)
    }

    /// Waits for `count` replies to be held, and takes them in order.
    pub fn take_held(&self, count: usize) -> Vec<Reply> {
        let held = self.held.lock().unwrap();
        let (mut held, timeout) =
            self.came.wait_timeout_while(held, Duration::from_secs(10), |held| held.len() < count).unwrap();
        assert!(!timeout.timed_out(), "only {} of {count} requests came", held.len());
        held.drain(..).collect()
    }

    pub fn open_gate(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Model for Stub {
    fn config_space(&self) -> &[u8] {
        &self.config
    }

    fn handle(self: Arc<Self>, request: Request<'_>, reply: Reply) {
        self.seen.lock().unwrap().push(Seen {
            queue: request.queue,
            bytes: request.bytes.to_vec(),
            readable: request.readable_bytes,
            writable: request.writable_bytes,
        });
        match request.bytes[0] {
            HOLD => {
                self.held.lock().unwrap().push(reply);
                self.came.notify_all();
            }
            NOTHING => reply(&[]),
            TOO_MUCH => reply(&[0xee; 1 << 16]),
            BLOCK => {
                let gate = self.gate.lock().unwrap();
                let _open = self.opened.wait_while(gate, |open| !*open).unwrap();
                reply(&[]);
            }
            PANIC => panic!("a defect of the device model"),
            ANSWER_AND_PANIC => {
                reply(request.bytes);
                panic!("a defect of the device model");
            }
            _ => reply(request.bytes),
        }
    }

    fn reset(&self) {
        // Held replies stay, so that tests can give an answer that comes too late.
        self.resets.fetch_add(1, Ordering::SeqCst);
    }
}
