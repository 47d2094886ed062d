//! What can go wrong, and the exit code that it means.

use std::path::PathBuf;

use accel_tosa::{Refusal, Rule};

/// Exit code: the work was done.
pub const RAN: u8 = 0;
/// Exit code: unpredictable, or outputs that differ from what was expected.
pub const DIFFERS: u8 = 1;
/// Exit code: the rules of TOSA refuse the model.
pub const REFUSED: u8 = 2;
/// Exit code: anything else.
pub const FAILED: u8 = 3;

/// Error of the command line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver or the device.
    #[error(transparent)]
    Device(#[from] accel_guest::Error),
    /// Checked here, without a device.
    #[error("{path}: {refusal}", path = .path.display())]
    Refused {
        /// Model.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// A file.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file's contents.
    #[error("{}: {what}", path.display())]
    Content {
        /// File.
        path: PathBuf,
        /// What is wrong and how to mend it.
        what: String,
    },
    /// Arguments that do not fit the model or the device.
    #[error("{0}")]
    Argument(String),
    /// The private daemon.
    #[error("{what}{}", if said.is_empty() { String::new() } else { format!("; it said:\n{said}") })]
    Daemon {
        /// What happened.
        what: String,
        /// Its standard error.
        said: String,
    },
}

impl Error {
    /// The process's exit code for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Device(error) => match error.load_failure().map(|failure| failure.class) {
                Some(1..=3) => REFUSED,
                _ => FAILED,
            },
            Self::Refused { refusal, .. } => rule_code(refusal.rule),
            _ => FAILED,
        }
    }

    /// Whether the device refused to load the model, rather than failed at it.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Device(error) => error.load_failure().is_some(),
            Self::Refused { .. } => true,
            _ => false,
        }
    }

    /// The error and its causes in one sentence.
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// Exit code of a refusal.
pub fn rule_code(rule: Rule) -> u8 {
    match rule {
        Rule::Malformed | Rule::ErrorIf | Rule::Level => REFUSED,
        Rule::Unsupported => FAILED,
    }
}

/// Result of the command line.
pub type Result<T> = std::result::Result<T, Error>;
