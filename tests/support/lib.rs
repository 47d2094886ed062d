//! Shared support of the whole-system tests: the built daemon behind its socket, tensors, and what the answers must be.
#![forbid(unsafe_code)]

mod compare;
mod daemon;
pub mod graphs;
mod npy;
pub mod oracle;
mod run;

use std::path::PathBuf;

pub use compare::compare;
pub use daemon::{Daemon, program_path};
pub use npy::{Element, Tensor};
pub use run::{run, run_steps};

/// Any failure of a test's surroundings, as a sentence.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Folders with test data: the repository's own, and those that ACCEL_TEST_DATA lists as PATH does, laid out alike.
pub fn data_folders() -> Vec<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let given = std::env::var_os("ACCEL_TEST_DATA").unwrap_or_default();
    let given = std::env::split_paths(&given).filter(|folder| !folder.as_os_str().is_empty());
    std::iter::once(own).chain(given).collect()
}

/// The folders directly under `kind` (such as `models`) in all data folders, in order of their names.
///
/// # Errors
/// A folder that is there cannot be read.
pub fn data_entries(kind: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in data_folders().iter().map(|folder| folder.join(kind)).filter(|folder| folder.exists()) {
        for entry in std::fs::read_dir(folder)? {
            found.push(entry?.path());
        }
    }
    found.sort();
    Ok(found)
}
