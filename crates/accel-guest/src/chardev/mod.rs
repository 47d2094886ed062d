//! The transport for programs in a guest: the node of the kernel module `virtio_accel`.
//!
//! The kernel keeps the virtqueues, sleeps for interrupts, and lets a program reach only objects that it made through the
//! same [`CharDevice`]. When that is dropped, the kernel ends all of them. Long payloads lie in memory of the kernel module's that
//! the device reads and writes in place.

mod flight;
mod mapped;
mod uapi;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::transport::{Token, Transport};
use crate::{Error, Result};
use flight::Flight;
use mapped::Pool;
use uapi::{FOREVER, Info};

/// An open node of the kernel module.
pub struct CharDevice {
    node: Arc<File>,
    info: Info,
    pool: Pool,
    /// By cookie, until taken or forgotten.
    requests: Mutex<HashMap<u64, Request>>,
}

#[derive(Default)]
struct Request {
    /// There once the call that sent it has returned.
    flight: Option<Flight>,
    /// Its response without the tail, taken from the kernel for somebody who has not asked yet.
    response: Option<Result<Head>>,
}

/// A response without its tail.
struct Head {
    bytes: Vec<u8>,
    /// With the tail.
    total: usize,
}

impl CharDevice {
    /// Opens a node, `/dev/accel/accel0` or `/dev/vaccel0`.
    ///
    /// # Errors
    /// [`Error::Node`] where it cannot be opened or is not a node of the module; [`Error::Incompatible`] for another version of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let cannot = |source| Error::Node { path: path.into(), source };
        let node = OpenOptions::new().read(true).write(true).open(path).map_err(cannot)?;
        let info = uapi::info(&node).map_err(cannot)?;
        if info.version != uapi::VERSION {
            let text =
                format!("its kernel module speaks version {} instead of {}", info.version, uapi::VERSION);
            return Err(Error::Incompatible(text));
        }
        Ok(Self { node: node.into(), info, pool: Pool::default(), requests: Mutex::default() })
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<u64, Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one response out of the kernel, whose room for them is full.
    fn make_room(&self) -> Result<()> {
        // Whoever finds its response gone from the kernel looks here next, and must not look before it is here.
        let mut requests = self.requests();
        let mut response = vec![0; 4096];
        let mut taken = uapi::wait(&self.node, 0, 0, &mut response);
        if taken.result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOSPC)) {
            response = vec![0; taken.bytes];
            taken = uapi::wait(&self.node, taken.cookie, 0, &mut response);
        }
        let outcome = match taken.result {
            Ok(()) => Ok(head(response, taken.bytes)),
            // Somebody was faster: there is room.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::ENOENT | libc::EINTR)) => {
                return Ok(());
            }
            Err(error) => Err(failure("take a response from the device node", error)),
        };
        requests.entry(taken.cookie).or_default().response = Some(outcome);
        Ok(())
    }
}

impl CharDevice {
    /// Ends a request whose response is here, or was taken out before.
    fn end(&self, cookie: u64, response: Result<Head>) -> Result<Vec<u8>> {
        let request = self.requests().remove(&cookie).unwrap_or_default();
        let flight = request.flight.ok_or(Error::UnknownToken)?;
        let head = request.response.unwrap_or(response)?;
        Ok(flight.land(&self.pool, head.bytes, head.total))
    }
}

impl Transport for CharDevice {
    fn config(&self) -> &[u8] {
        &self.info.config
    }

    fn queues(&self) -> usize {
        self.info.queues as usize
    }

    fn submit(&self, queue: usize, request: &[&[u8]], response_capacity: usize) -> Result<Token> {
        let queues = self.queues();
        let number = u32::try_from(queue).ok().filter(|_| queue < queues);
        let number = number.ok_or(Error::NoSuchQueue { queue, queues })?;
        let bytes = request.iter().map(|part| part.len()).sum::<usize>().saturating_add(response_capacity);
        let too_large = || Error::TooLarge { bytes, available: self.info.max_bytes as usize };
        u32::try_from(bytes).map_err(|_| too_large())?;
        let (mut frame, mut flight) = Flight::mapped(&self.pool, &self.node, request, response_capacity);
        loop {
            let error = match uapi::submit(&self.node, number, &frame, flight.room() as u32, flight.tails()) {
                Ok(cookie) => {
                    self.requests().entry(cookie).or_default().flight = Some(flight);
                    return Ok(Token { queue, id: cookie });
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EBUSY) => self.make_room()?,
                // The chains of this device are too short for tails.
                Some(libc::EMSGSIZE) if flight.has_tails() => {
                    (frame, flight) = Flight::copied(request, response_capacity);
                }
                Some(libc::EMSGSIZE) => return Err(too_large()),
                _ => return Err(failure("send a request through the device node", error)),
            }
        }
    }

    fn wait(&self, token: Token, timeout: Option<Duration>) -> Result<Vec<u8>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let room = match self.requests().get(&token.id) {
                Some(Request { flight: Some(flight), response: None }) => flight.room(),
                Some(Request { flight: Some(_), .. }) => {
                    return self.end(token.id, Err(Error::UnknownToken));
                }
                _ => return Err(Error::UnknownToken),
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left_ns = left.map_or(FOREVER, |left| u64::try_from(left.as_nanos()).unwrap_or(FOREVER));
            let mut response = vec![0; room];
            let taken = uapi::wait(&self.node, token.id, left_ns, &mut response);
            let outcome = match taken.result {
                Ok(()) => Ok(head(response, taken.bytes)),
                Err(error) => match error.raw_os_error() {
                    // ENOENT: another thread took it out to make room, and it is here.
                    Some(libc::EINTR | libc::ENOENT) => continue,
                    Some(libc::ETIME) => return Err(Error::TimedOut(timeout.unwrap_or_default())),
                    _ => Err(failure("wait for a response from the device node", error)),
                },
            };
            return self.end(token.id, outcome);
        }
    }

    fn forget(&self, token: Token) {
        let mut requests = self.requests();
        // An error says that the response was taken out already.
        let _ = uapi::forget(&self.node, token.id);
        requests.remove(&token.id);
    }
}

fn head(mut bytes: Vec<u8>, total: usize) -> Head {
    bytes.truncate(total);
    Head { bytes, total }
}

fn failure(what: &'static str, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENODEV) => Error::Gone,
        Some(libc::EIO) => Error::Ring("the kernel module found a response longer than its room"),
        _ => Error::System { what, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_the_module_are_driven() {
        for path in ["/dev/null", "/dev/no such node"] {
            match CharDevice::open(path) {
                Err(error @ Error::Node { .. }) => assert!(error.to_string().contains(path), "{error}"),
                Err(error) => panic!("{path}: {error}"),
                Ok(_) => panic!("{path} was taken for an accelerator"),
            }
        }
    }
}
