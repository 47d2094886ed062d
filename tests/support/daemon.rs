//! The built daemon as a child process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use accel_guest::{Client, FrontendTransport, Options};
use tempfile::TempDir;

use crate::Result;

/// Making a device takes seconds where its self-test runs on a busy CPU.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A daemon with a socket for each guest, ended when dropped.
pub struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    /// Starts the built daemon. `Ok(None)` where the machine has no Vulkan device, unless
    /// `ACCEL_REQUIRE_DEVICE=1` makes that an error.
    ///
    /// # Errors
    /// The daemon is not built, or does not open its socket.
    pub fn start() -> Result<Option<Self>> {
        Self::start_with_sockets(1)
    }

    /// Starts the built daemon with sockets for `guests` guests.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_sockets(guests: usize) -> Result<Option<Self>> {
        let program = program_path("vhost-device-accel")?;
        if !has_device(&program)? {
            let required = std::env::var_os("ACCEL_REQUIRE_DEVICE").is_some_and(|value| value == "1");
            if required {
                return Err("no Vulkan device is here, and ACCEL_REQUIRE_DEVICE=1 asks for one".into());
            }
            println!("skipped: no Vulkan device is here");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let child = Command::new(&program)
            .args((0..guests).map(|guest| format!("--socket-path={}", socket(&folder, guest).display())))
            .arg("--pipeline-cache")
            .arg(folder.path())
            .stdin(Stdio::null())
            .spawn()?;
        let mut daemon = Self { child, folder };
        let start = Instant::now();
        while !(0..guests).all(|guest| socket(&daemon.folder, guest).exists()) {
            if let Some(status) = daemon.child.try_wait()? {
                return Err(format!("the daemon ended with {status} before it opened its socket").into());
            }
            if start.elapsed() > START_LIMIT {
                return Err(format!("the daemon opened no socket within {START_LIMIT:?}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(daemon))
    }

    /// Its first socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.folder, 0)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Connects as a VMM and its guest would.
    ///
    /// # Errors
    /// The daemon does not take the connection.
    pub fn connect(&self) -> Result<Client<FrontendTransport>> {
        self.connect_to(0)
    }

    /// Connects to one of its sockets.
    ///
    /// # Errors
    /// The daemon does not take the connection.
    pub fn connect_to(&self, guest: usize) -> Result<Client<FrontendTransport>> {
        Ok(Client::new(FrontendTransport::connect(socket(&self.folder, guest), Options::default())?)?)
    }

    /// CPU time that all its threads have used, in ticks of 10 ms.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn cpu_time(&self) -> Result<Duration> {
        ticks(&std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?)
    }

    /// CPU time that its threads of this name have used, in ticks of 10 ms.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn thread_cpu_time(&self, name: &str) -> Result<Duration> {
        let mut found = None;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let task = task?.path();
            if std::fs::read_to_string(task.join("comm"))?.trim() == name {
                let used = ticks(&std::fs::read_to_string(task.join("stat"))?)?;
                *found.get_or_insert(Duration::ZERO) += used;
            }
        }
        found.ok_or_else(|| format!("the daemon has no thread {name}").into())
    }
}

fn socket(folder: &TempDir, guest: usize) -> PathBuf {
    folder.path().join(format!("accel{guest}.sock"))
}

/// User and system time of a `stat` file (proc(5): fields 14 and 15; Linux counts them in hundredths of a second).
fn ticks(stat: &str) -> Result<Duration> {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let of = |index| fields.split_whitespace().nth(index).and_then(|field| field.parse::<u64>().ok());
    let used = of(11).zip(of(12)).ok_or("the system does not tell the CPU time of the daemon")?;
    Ok(Duration::from_millis((used.0 + used.1) * 10))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A child that has ended by itself cannot be killed, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_device(program: &Path) -> Result<bool> {
    let listed = Command::new(program).args(["--list-devices", "--json"]).output()?;
    let devices: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    Ok(devices.as_array().is_some_and(|devices| !devices.is_empty()))
}

/// A program that the workspace built beside this test: `ACCEL_BIN_DIR`, or the profile's own folder.
///
/// # Errors
/// It is not there.
pub fn program_path(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os("ACCEL_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        // target/PROFILE/deps/TEST
        None => std::env::current_exe()?.ancestors().nth(2).map(PathBuf::from).unwrap_or_default(),
    };
    let program = folder.join(name);
    if !program.exists() {
        return Err(format!(
            "{} is not built; run `cargo build --workspace --bins` first, as scripts/test does",
            program.display()
        )
        .into());
    }
    Ok(program)
}
