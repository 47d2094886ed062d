//! The daemon under test, on sockets in a directory of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use vhost_device_accel::{Error, Model, Server, Stop};

use crate::stub::Stub;

pub const QUEUES: u16 = 2;

pub struct Daemon {
    running: Running,
    pub stubs: Vec<Arc<Stub>>,
    pub directory: TempDir,
}

/// The servers; they end when this is dropped.
struct Running {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl Daemon {
    /// Serves `guests` sockets with a stub each.
    pub fn start(guests: usize, once: bool) -> Self {
        let stubs: Vec<_> = (0..guests).map(|_| Stub::new()).collect();
        let models = stubs.iter().map(|stub| Arc::clone(stub) as _).collect();
        Self { stubs, ..Self::with_models(models, once) }
    }

    /// Serves a socket for each model.
    pub fn with_models(models: Vec<Arc<dyn Model>>, once: bool) -> Self {
        let _ = env_logger::builder().is_test(true).try_init();
        let directory = tempfile::tempdir().unwrap();
        let stop = Arc::new(Stop::new().unwrap());
        let threads = models
            .into_iter()
            .enumerate()
            .map(|(guest, model)| {
                let path = directory.path().join(format!("{guest}.sock"));
                let mut server = Server::bind(&path, model, QUEUES, Arc::clone(&stop)).unwrap();
                std::thread::spawn(move || server.serve(once))
            })
            .collect();
        Self { running: Running { stop, threads }, stubs: Vec::new(), directory }
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
        self.running.join();
    }
}

impl Running {
    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if !std::thread::panicking() {
            self.join();
        }
    }
}
