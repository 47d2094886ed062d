//! Reaching the device: a running daemon's socket, a private daemon, or, inside a virtual machine, the device itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use accel_guest::{CharDevice, Client, FrontendTransport, Options, Transport, UioOptions, UioTransport};

use crate::args::Target;
use crate::error::{Error, Result};

/// The daemon's program.
const DAEMON: &str = "vhost-device-accel";
/// A daemon that takes longer to open its socket is given up: drivers of some devices start slowly.
const START: Duration = Duration::from_secs(60);
/// Time for a daemon to end by itself after its guest left, and to save its pipeline cache.
const END: Duration = Duration::from_secs(5);
/// Lines of a dead daemon's log that are shown.
const LINES: usize = 10;
const STEP: Duration = Duration::from_millis(10);

/// A driver, however its frames travel.
pub type Driver = Client<Box<dyn Transport>>;

/// A device that answers.
pub struct Connection {
    // Before the daemon: it ends when its guest leaves.
    client: Driver,
    daemon: Option<Daemon>,
}

impl Connection {
    /// Connects as the command line says.
    ///
    /// # Errors
    /// The socket or the private daemon cannot be used.
    pub fn open(target: &Target, verbose: bool) -> Result<Self> {
        if target.uio {
            return Ok(Self { client: driver(UioTransport::open(&UioOptions::default())?)?, daemon: None });
        }
        if let Some(node) = &target.char_device {
            return Ok(Self { client: driver(CharDevice::open(node)?)?, daemon: None });
        }
        match &target.socket {
            Some(socket) => Ok(Self { client: connect(socket)?, daemon: None }),
            None => {
                let mut daemon = Daemon::start(target, verbose)?;
                Ok(Self { client: daemon.connect()?, daemon: Some(daemon) })
            }
        }
    }

    /// The driver.
    pub fn client(&self) -> &Driver {
        &self.client
    }

    /// Makes the error of a dead connection tell what the private daemon said before it died.
    pub fn explain(&mut self, error: Error) -> Error {
        match (&error, &mut self.daemon) {
            (Error::Device(accel_guest::Error::Gone), Some(daemon)) => daemon.died(),
            _ => error,
        }
    }
}

fn connect(socket: &Path) -> Result<Driver> {
    driver(FrontendTransport::connect(socket, Options::default())?)
}

fn driver(transport: impl Transport + 'static) -> Result<Driver> {
    Ok(Client::new(Box::new(transport) as Box<dyn Transport>)?)
}

struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start(target: &Target, verbose: bool) -> Result<Self> {
        let program = target.daemon.clone().unwrap_or_else(beside_us);
        let folder = tempfile::tempdir().map_err(|source| Error::File {
            what: "make a folder for the private daemon in",
            path: std::env::temp_dir(),
            source,
        })?;
        let said = folder.path().join("stderr");
        let stderr = match verbose {
            true => Stdio::inherit(),
            false => std::fs::File::create(&said)
                .map_err(|source| Error::File { what: "create", path: said, source })?
                .into(),
        };
        let mut command = Command::new(&program);
        command.arg("--once").arg("--socket-path").arg(folder.path().join("accel.sock"));
        if let Some(device) = &target.device {
            command.arg("--device").arg(device);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().map_err(
            |source| Error::File {
                what: "start the daemon (build it, name it with --daemon, or name a running one's socket with --socket):",
                path: program,
                source,
            },
        )?;
        Ok(Self { child, folder })
    }

    /// Connects as soon as the daemon listens.
    fn connect(&mut self) -> Result<Driver> {
        let socket = self.folder.path().join("accel.sock");
        let start = Instant::now();
        loop {
            match connect(&socket) {
                Err(Error::Device(accel_guest::Error::Connect { .. })) => {}
                // It may have died while it was being greeted.
                result if result.is_ok() || self.ended(STEP).is_none() => return result,
                _ => return Err(self.died()),
            }
            if self.ended(STEP).is_some() {
                return Err(self.died());
            }
            if start.elapsed() > START {
                let what = format!("the private daemon opened no socket within {} s", START.as_secs());
                return Err(Error::Daemon { what, said: self.said() });
            }
        }
    }

    /// Waits for its end.
    fn ended(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                _ if start.elapsed() >= patience => return None,
                _ => std::thread::sleep(STEP),
            }
        }
    }

    fn died(&mut self) -> Error {
        let what = match self.ended(END) {
            Some(status) => format!("the private daemon ended ({status})"),
            None => "the private daemon closed its connection".into(),
        };
        Error::Daemon { what, said: self.said() }
    }

    /// The end of its standard error.
    fn said(&self) -> String {
        let text = std::fs::read(self.folder.path().join("stderr")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.ended(END).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The daemon beside this program, or the name alone, to be found in PATH.
fn beside_us() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(DAEMON));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| DAEMON.into())
}
