//! What a client needs of whatever carries its frames.

use std::time::Duration;

use crate::Result;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Command queue that carries it.
    pub queue: usize,
    /// The transport's name for it, unique in its queue.
    pub id: u64,
}

/// Carries frames to a device over one or more command virtqueues. All methods may be called from several
/// threads at once.
pub trait Transport: Send + Sync {
    /// The device's configuration space as it was at start.
    fn config(&self) -> &[u8];

    /// Command queues that are running; at least 1.
    fn queues(&self) -> usize;

    /// Queues a request, whose frame is the concatenation of `request`, with room for a response of
    /// `response_capacity` bytes. Waits while the ring or its memory is full and requests are in flight.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`], [`crate::Error::Gone`], [`crate::Error::NoSuchQueue`].
    fn submit(&self, queue: usize, request: &[&[u8]], response_capacity: usize) -> Result<Token>;

    /// Sleeps until the response is there and takes it: what the device wrote, which may be nothing.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`], after which the request can be waited for again;
    /// [`crate::Error::Gone`] when the device vanishes meanwhile.
    fn wait(&self, token: Token, timeout: Option<Duration>) -> Result<Vec<u8>>;

    /// Drops interest in a request: its response is thrown away when it comes.
    fn forget(&self, token: Token);
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn config(&self) -> &[u8] {
        (**self).config()
    }

    fn queues(&self) -> usize {
        (**self).queues()
    }

    fn submit(&self, queue: usize, request: &[&[u8]], response_capacity: usize) -> Result<Token> {
        (**self).submit(queue, request, response_capacity)
    }

    fn wait(&self, token: Token, timeout: Option<Duration>) -> Result<Vec<u8>> {
        (**self).wait(token, timeout)
    }

    fn forget(&self, token: Token) {
        (**self).forget(token);
    }
}

/// Why a sleep for the device ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The device notified.
    Notified,
    /// The time ran out.
    TimedOut,
    /// The device will never notify again.
    Gone,
}

/// How the two sides of a ring wake each other.
pub trait Notifier: Send + Sync {
    /// Tells the device that the available ring grew.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn kick(&self) -> Result<()>;

    /// Sleeps until the device notifies, without polling.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn sleep(&self, timeout: Option<Duration>) -> Result<Wake>;
}

/// A timeout for epoll. Rounded up: rounding down would spin through the last millisecond.
pub(crate) fn sleep_milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}
