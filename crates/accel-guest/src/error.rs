//! Everything that can go wrong between a caller and the device.

use std::path::PathBuf;
use std::time::Duration;

use accel_proto::Status;

/// Error of the driver library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket did not accept us.
    #[error("cannot connect to the device at {}; is vhost-device-accel running with this --socket-path?", path.display())]
    Connect {
        /// Socket path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The node of the kernel module cannot be used.
    #[error("cannot use {} as an accelerator; is it the node of the module virtio_accel, and may you read and write it?", path.display())]
    Node {
        /// The node.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A vhost-user message failed.
    #[error("the device refused or broke off the vhost-user set-up at {step}")]
    Setup {
        /// What was being negotiated.
        step: &'static str,
        /// Why.
        source: vhost::Error,
    },
    /// Nobody answered the first vhost-user messages.
    #[error("the device did not answer for {} s; it serves one guest at a time, so another may hold it", .0.as_secs())]
    Unanswered(Duration),
    /// The device lacks something that this driver needs.
    #[error("the device cannot be driven: {0}")]
    Incompatible(String),
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The other side vanished; every request in flight fails with this.
    #[error("the device closed its connection, so the request was not answered")]
    Gone,
    /// The device wrote a ring that no device may write.
    #[error("the device broke the virtqueue rules: {0}")]
    Ring(&'static str),
    /// A queue number past the last one.
    #[error("queue {queue} does not exist: the device serves {queues}")]
    NoSuchQueue {
        /// Asked for.
        queue: usize,
        /// Available.
        queues: usize,
    },
    /// A request can never fit.
    #[error(
        "a request of {bytes} bytes with its reply does not fit the {available} bytes of memory shared with the device"
    )]
    TooLarge {
        /// Needed.
        bytes: usize,
        /// Size of the arena.
        available: usize,
    },
    /// No answer in time. The request is still in flight.
    #[error("the device did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The token was waited for before, or dropped.
    #[error("this request was already waited for")]
    UnknownToken,
    /// The device answered a command with an error status.
    #[error("{command} failed with {status} ({asked}){}", .reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    Device {
        /// Command.
        command: &'static str,
        /// Status of the reply.
        status: Status,
        /// What was asked, in words.
        asked: String,
        /// The device's own sentence, where it can be queried.
        reason: Option<LoadFailure>,
    },
    /// The answer's frame makes no sense.
    #[error("the answer to {command} cannot be read: {what}")]
    BadAnswer {
        /// Command.
        command: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A caller's mistake that is caught before anything is sent.
    #[error("{0}")]
    Argument(String),
}

impl Error {
    /// Status of the device, when it is what failed.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Device { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The device's reason for refusing a program, when it gave one.
    pub fn load_failure(&self) -> Option<&LoadFailure> {
        match self {
            Self::Device { reason, .. } => reason.as_ref(),
            _ => None,
        }
    }
}

/// Why the device refused a program (QUERY topic 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFailure {
    /// 1 malformed, 2 a TOSA rule, 3 a level limit, 4 unsupported, 5 resources.
    pub class: u32,
    /// The device's sentence.
    pub message: String,
}

impl std::fmt::Display for LoadFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Result of the driver library.
pub type Result<T> = std::result::Result<T, Error>;
