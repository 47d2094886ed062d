//! The pipeline cache on disk: one file a device and driver version, written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::features::Properties;

/// First bytes of a cache file; the digit is the version of its layout.
const MAGIC: &[u8; 8] = b"ACCELPC1";
/// Magic, then the checksum of what follows.
const HEADER: usize = 16;
/// Larger caches are neither kept nor read: guests choose shapes, and shapes make pipelines.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// A cache file.
pub(crate) struct CacheFile {
    path: PathBuf,
}

impl CacheFile {
    /// The file of a device in `directory`.
    pub(crate) fn new(directory: &Path, properties: &Properties) -> Self {
        let uuid: String = properties.uuid.iter().map(|b| format!("{b:02x}")).collect();
        Self { path: directory.join(format!("{uuid}-{:08x}.pipelines", properties.driver_version)) }
    }

    /// What was saved; nothing when there is no file, or one that is damaged or no cache.
    pub(crate) fn load(&self) -> Vec<u8> {
        match self.read() {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                log::warn!("the pipeline cache {} is ignored: {error}", self.path.display());
                Vec::new()
            }
        }
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        if fs::metadata(&self.path)?.len() > (MAX_BYTES + HEADER) as u64 {
            return Err(io::Error::other("it is larger than a cache can be"));
        }
        let mut data = fs::read(&self.path)?;
        let (Some(magic), Some(sum)) = (data.get(..8), data.get(8..HEADER)) else {
            return Err(io::Error::other("it is cut short"));
        };
        let intact =
            magic == MAGIC && data.get(HEADER..).is_some_and(|rest| checksum(rest).to_le_bytes() == *sum);
        if !intact {
            return Err(io::Error::other("its contents are damaged or foreign"));
        }
        data.drain(..HEADER);
        Ok(data)
    }

    /// Replaces the file; a failure is only logged, as the cache is only a help.
    pub(crate) fn save(&self, data: &[u8]) {
        if let Err(error) = self.write(data) {
            log::warn!("the pipeline cache {} could not be written: {error}", self.path.display());
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        // The process id keeps two daemons that share a directory apart; the rename makes the change whole.
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let written = fs::File::create(&temporary).and_then(|mut file| {
            file.write_all(MAGIC)?;
            file.write_all(&checksum(data).to_le_bytes())?;
            file.write_all(data)?;
            fs::rename(&temporary, &self.path)
        });
        if written.is_err() {
            // Best effort: the error that is reported is the first one.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// FNV-1a: against damage, not against malice; whoever can write the directory runs the daemon.
fn checksum(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_damage_is_not() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let file = CacheFile { path: directory.path().join("deep/er/x.pipelines") };
        assert_eq!(file.load(), b"");
        file.save(b"pipelines");
        assert_eq!(file.load(), b"pipelines");
        file.save(b"other");
        assert_eq!(file.load(), b"other");
        assert_eq!(
            fs::read_dir(directory.path().join("deep/er")).expect("listing").count(),
            1,
            "no temporary is left"
        );

        let good = fs::read(&file.path).expect("the file");
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 1;
            fs::write(&file.path, &bad).expect("write");
            assert_eq!(file.load(), b"", "byte {position}");
            fs::write(&file.path, &good[..position]).expect("write");
            assert_eq!(file.load(), b"", "cut at {position}");
        }
    }
}
