//! The daemon under test, on sockets in a directory of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use vhost_device_accel::{Error, Server, Stop};

use crate::stub::Stub;

pub const QUEUES: u16 = 2;

pub struct Daemon {
    pub directory: TempDir,
    pub stubs: Vec<Arc<Stub>>,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl Daemon {
    /// Serves `guests` sockets.
    pub fn start(guests: usize, once: bool) -> Self {
        let _ = env_logger::builder().is_test(true).try_init();
        let directory = tempfile::tempdir().unwrap();
        let stop = Arc::new(Stop::new().unwrap());
        let stubs: Vec<_> = (0..guests).map(|_| Stub::new()).collect();
        let threads = stubs
            .iter()
            .enumerate()
            .map(|(guest, stub)| {
                let path = directory.path().join(format!("{guest}.sock"));
                let mut server =
                    Server::bind(&path, Arc::clone(stub) as _, QUEUES, Arc::clone(&stop)).unwrap();
                std::thread::spawn(move || server.serve(once))
            })
            .collect();
        Self { directory, stubs, stop, threads }
    }

    pub fn one() -> Self {
        Self::start(1, false)
    }

    pub fn socket(&self, guest: usize) -> PathBuf {
        self.directory.path().join(format!("{guest}.sock"))
    }

    pub fn stub(&self) -> &Stub {
        &self.stubs[0]
    }

    /// Waits for the servers to end by themselves.
    pub fn join(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.stop();
        if !std::thread::panicking() {
            self.join();
        }
    }
}
