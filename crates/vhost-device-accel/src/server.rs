//! Sockets: one a guest, one connection at a time, until the daemon is stopped.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vhost::vhost_user::{Error as VhostUserError, Listener};
use vhost_user_backend::{Error as DaemonError, ShutdownHandle, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::error::Error;
use crate::model::Model;
use crate::vhu_accel::VhuAccel;

/// How long to wait before trying again when the system has no resources for a connection.
const RETRY: Duration = Duration::from_secs(1);

/// Ends every [`Server`] that was made with it.
pub struct Stop {
    event: EventFd,
    stopped: AtomicBool,
    /// Connections by the path of their socket.
    connections: Mutex<HashMap<PathBuf, ShutdownHandle>>,
}

impl Stop {
    /// A switch that nobody has thrown.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            event: EventFd::new(EFD_NONBLOCK).map_err(system("making an event descriptor"))?,
            stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        })
    }

    /// Closes all connections and lets every server return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Err(error) = self.event.write(1) {
            log::error!("the servers could not be told to stop: {error}");
        }
        for connection in self.connections().values() {
            connection.shutdown();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Has [`Self::stop`] close the connection too; closes it at once if that was already called.
    fn watch(&self, path: &Path, connection: ShutdownHandle) {
        let mut connections = self.connections();
        if self.is_stopped() {
            connection.shutdown();
        }
        connections.insert(path.to_owned(), connection);
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<PathBuf, ShutdownHandle>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound socket with the device that its guests get, one after another.
pub struct Server {
    path: PathBuf,
    listener: Listener,
    model: Arc<dyn Model>,
    queues: u16,
    stop: Arc<Stop>,
    wake: Epoll,
}

impl Server {
    /// Binds `path`, replacing a socket file that nobody serves any more. The file is removed when
    /// the server is dropped.
    ///
    /// # Errors
    /// The path is taken or cannot be made.
    pub fn bind(path: &Path, model: Arc<dyn Model>, queues: u16, stop: Arc<Stop>) -> Result<Self, Error> {
        remove_stale(path)?;
        let listener = listen(path).map_err(|source| Error::Listen { path: path.to_owned(), source })?;
        let wake = Epoll::new().map_err(system("making an epoll descriptor"))?;
        add(&wake, listener.as_raw_fd())?;
        add(&wake, stop.event.as_raw_fd())?;
        Ok(Self { path: path.to_owned(), listener: listener.into(), model, queues, stop, wake })
    }

    /// Serves one front-end after another until the daemon is stopped, or only the first with `once`.
    ///
    /// # Errors
    /// Waiting for front-ends is impossible. Whatever a front-end does is logged, and the next one served.
    pub fn serve(&mut self, once: bool) -> Result<(), Error> {
        log::info!("{}: listening, {} queues", self.path.display(), self.queues);
        while self.wait_for_front_end()? {
            match self.serve_front_end() {
                Ok(()) if once => break,
                Ok(()) => {}
                Err(error) => {
                    log::error!("{}: a front-end could not be served: {error}", self.path.display());
                    self.pause()?;
                }
            }
        }
        Ok(())
    }

    /// Waits for a front-end to connect; `false` when the daemon is stopped first.
    fn wait_for_front_end(&self) -> Result<bool, Error> {
        let mut events = [EpollEvent::default(); 2];
        loop {
            match self.wake.wait(-1, &mut events) {
                Ok(_) => return Ok(!self.stop.is_stopped()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::System { what: "waiting for front-ends", source }),
            }
        }
    }

    /// Keeps a server that lacks resources from spinning; ends early when the daemon is stopped.
    fn pause(&self) -> Result<(), Error> {
        let stopped = Epoll::new().map_err(system("making an epoll descriptor"))?;
        add(&stopped, self.stop.event.as_raw_fd())?;
        let milliseconds = RETRY.as_millis() as i32;
        match stopped.wait(milliseconds, &mut [EpollEvent::default()]) {
            Err(source) if source.kind() != io::ErrorKind::Interrupted => {
                Err(Error::System { what: "waiting for resources", source })
            }
            _ => Ok(()),
        }
    }

    /// Serves the front-end that waits, from accept to disconnect.
    fn serve_front_end(&mut self) -> Result<(), String> {
        let name = self.path.display().to_string();
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let service = VhuAccel::new(name.clone(), Arc::clone(&self.model), self.queues, memory.clone())
            .map_err(|error| error.to_string())?;
        let mut daemon = VhostUserDaemon::new("vhost-user".into(), Arc::clone(&service), memory)
            .map_err(|error| error.to_string())?;
        daemon.start(&mut self.listener).map_err(|error| error.to_string())?;
        log::info!("{name}: front-end connected");
        if let Some(connection) = daemon.shutdown_handle() {
            self.stop.watch(&self.path, connection);
        }
        let end = daemon.wait();
        self.stop.connections().remove(&self.path);
        service.close();
        self.model.reset();
        // Joins the worker threads; one that still executes a command may have made objects since the reset.
        drop(daemon);
        self.model.reset();
        match end {
            Ok(())
            | Err(DaemonError::HandleRequest(
                VhostUserError::Disconnected | VhostUserError::PartialMessage,
            )) => {
                log::info!("{name}: front-end disconnected, all guest state dropped");
            }
            Err(error) => log::error!(
                "{name}: the front-end was cut off, all guest state dropped: {error}{}",
                if service.has_memory() { "" } else { MEMORY_HINT }
            ),
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            log::warn!("{}: the socket file could not be removed: {error}", self.path.display());
        }
    }
}

/// A listener at `path`. A socket file exists as soon as it is bound but refuses connections until it
/// listens, so it is made under another name: whoever sees `path` can connect.
fn listen(path: &Path) -> io::Result<UnixListener> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    // Refuses what is too long to connect to, as binding it would.
    SocketAddr::from_pathname(path)?;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let hidden = path.with_file_name(format!(".{}-{number}", std::process::id()));
    let listener = UnixListener::bind(&hidden)?;
    // A link, since a rename would replace the socket of a daemon that was quicker.
    let linked = std::fs::hard_link(&hidden, path);
    std::fs::remove_file(&hidden)?;
    linked.map(|()| listener)
}

/// What to do where a front-end got no further than its guest memory.
const MEMORY_HINT: &str = "; no guest memory could be mapped: it must be shared and file-backed (QEMU: \
     memory-backend-memfd with share=on; cloud-hypervisor: --memory shared=on)";

/// Removes a socket file that no process listens on.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(Error::NotASocket { path: path.to_owned() });
    }
    // A datagram socket cannot connect to a stream socket: what fails is the type where somebody
    // listens, and the connection where nobody does. Unlike a real connection this disturbs no one.
    let probe = UnixDatagram::unbound().map_err(system("making a socket"))?;
    match probe.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(system("removing a stale socket file"))
        }
        _ => Err(Error::SocketInUse { path: path.to_owned() }),
    }
}

fn add(epoll: &Epoll, fd: RawFd) -> Result<(), Error> {
    epoll
        .ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, 0))
        .map_err(system("watching a file descriptor"))
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}
