//! Everything that can go wrong outside a guest's commands.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Failures of the daemon as a whole; what a guest or front-end does wrong only ends its own connection.
#[derive(Debug, Error)]
pub enum Error {
    /// Another process serves the socket.
    #[error(
        "the socket {path} is being served by another process; stop that one or choose another --socket-path"
    )]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that must not be deleted is in the way.
    #[error("{path} exists and is not a socket; remove it or choose another --socket-path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("the socket {path} could not be made; its directory must exist and be writable")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The same path twice.
    #[error("--socket-path {path} is given twice; every guest needs its own")]
    SocketTwice {
        /// The socket.
        path: PathBuf,
    },
    /// No socket at all.
    #[error(
        "no --socket-path is given, on the command line or in the configuration file; give one for each guest"
    )]
    NoSocket,
    /// A system call that should not fail did.
    #[error("{what} failed")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A thread died of a defect.
    #[error("a server thread ended in a panic; what it said stands above")]
    Panic,
    /// No device to compute on.
    #[error("no accelerator could be opened")]
    Accelerator(#[from] accel_vulkan::Error),
    /// The device model's configuration space is too short.
    #[error(
        "the device's configuration space has {bytes} bytes, which is less than protocol 1.0 needs; this is a defect"
    )]
    Config {
        /// Its length.
        bytes: usize,
    },
    /// The configuration file cannot be read.
    #[error("the configuration file {path} cannot be read")]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration file is not understood.
    #[error("the configuration file {path} is refused; keys have the names of the command line options")]
    ParseConfig {
        /// The file.
        path: PathBuf,
        /// Which key or line, and why.
        source: Box<toml::de::Error>,
    },
    /// A size that is none.
    #[error(
        "{text:?} is not a size; write a number of bytes, or one with K, M, G or T behind it, such as 4G"
    )]
    Size {
        /// What was given.
        text: String,
    },
    /// Too few or too many queues.
    #[error("{queues} queues are not possible; choose 1 to {max}", max = crate::MAX_QUEUES)]
    Queues {
        /// What was given.
        queues: u16,
    },
    /// A virtio id that the VMM does not take.
    #[error("{vmm} does not take virtio id {id}; {mend}")]
    VirtioId {
        /// The VMM.
        vmm: &'static str,
        /// What was given.
        id: u8,
        /// What it takes.
        mend: &'static str,
    },
}

impl Error {
    /// The process' exit code: 1 for what the system did, 2 for what the user gave, 3 without a usable device.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::SocketTwice { .. }
            | Self::NoSocket
            | Self::ReadConfig { .. }
            | Self::ParseConfig { .. }
            | Self::Size { .. }
            | Self::Queues { .. }
            | Self::VirtioId { .. } => 2,
            Self::SocketInUse { .. }
            | Self::NotASocket { .. }
            | Self::Listen { .. }
            | Self::System { .. }
            | Self::Panic
            | Self::Config { .. } => 1,
            Self::Accelerator(_) => 3,
        }
    }
}
