//! One request on its way: which of its bytes lie in mapped memory.

use std::fs::File;
use std::sync::Arc;

use accel_proto::{Binding, HEADER_BYTES, MAX_BINDINGS};

use super::mapped::{Mapped, Pool};
use super::uapi::Part;

/// Payloads from this length on lie in mapped memory. The kernel module must see the ids that a request names, so this is more
/// than the longest list of bindings; what is longer is data.
const MAPPED_BYTES: usize = 144 << 10;
const _: () = assert!(MAPPED_BYTES > MAX_BINDINGS as usize * size_of::<Binding>());

/// A frame's continuation.
struct Tail {
    mapped: Mapped,
    len: usize,
}

impl Tail {
    fn new(pool: &Pool, node: &Arc<File>, len: usize) -> Option<Self> {
        if len < MAPPED_BYTES {
            return None;
        }
        pool.take(node, len).map(|mapped| Self { mapped, len })
    }

    fn part(&self) -> Part {
        Part { handle: self.mapped.handle(), bytes: self.len as u32, offset: 0 }
    }
}

/// The memory of a request in flight.
pub struct Flight {
    /// For the response, or for its head.
    room: usize,
    request: Option<Tail>,
    response: Option<Tail>,
}

impl Flight {
    /// A request with its long parts in mapped memory, as far as there is some; also the frame, or its head.
    pub fn mapped(
        pool: &Pool,
        node: &Arc<File>,
        request: &[&[u8]],
        response_capacity: usize,
    ) -> (Vec<u8>, Self) {
        let data = request.last().copied().unwrap_or_default();
        let tail = Tail::new(pool, node, data.len());
        let in_frame = request.len() - usize::from(tail.is_some());
        if let Some(tail) = &tail {
            tail.mapped.write(data);
        }
        let response = Tail::new(pool, node, response_capacity.saturating_sub(HEADER_BYTES));
        let room = if response.is_some() { HEADER_BYTES } else { response_capacity };
        (request[..in_frame].concat(), Self { room, request: tail, response })
    }

    /// A request that the kernel copies; also its frame.
    pub fn copied(request: &[&[u8]], response_capacity: usize) -> (Vec<u8>, Self) {
        (request.concat(), Self { room: response_capacity, request: None, response: None })
    }

    /// Bytes of the response that the kernel hands over; the rest lies in mapped memory.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Whether mapped memory continues the request or the response.
    pub fn has_tails(&self) -> bool {
        self.request.is_some() || self.response.is_some()
    }

    /// Where they go on.
    pub fn tails(&self) -> [Part; 2] {
        [&self.request, &self.response].map(|tail| tail.as_ref().map_or_else(Part::default, Tail::part))
    }

    /// The whole response, once its head is here; `total` counts the tail too. The memory goes back.
    pub fn land(self, pool: &Pool, mut response: Vec<u8>, total: usize) -> Vec<u8> {
        if let Some(tail) = &self.response {
            tail.mapped.append_to(&mut response, total.saturating_sub(self.room).min(tail.len));
        }
        for tail in [self.request, self.response].into_iter().flatten() {
            pool.give_back(tail.mapped);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_no_buffers_the_kernel_copies() {
        // Anything but the module's node makes none.
        let node = Arc::new(File::open("/dev/null").expect("open /dev/null"));
        let (pool, data) = (Pool::default(), vec![7; MAPPED_BYTES]);
        let (frame, flight) = Flight::mapped(&pool, &node, &[b"head", &data], 2 * MAPPED_BYTES);
        assert_eq!(frame, [b"head", &data[..]].concat());
        assert_eq!(flight.room(), 2 * MAPPED_BYTES);
        assert!(!flight.has_tails() && flight.tails().iter().all(|part| part.handle == 0 && part.bytes == 0));
        assert_eq!(flight.land(&pool, b"answer".to_vec(), 6), b"answer");
    }
}
