//! Calls with random numbers, pointers and contents.

use std::io;
use std::path::Path;
use std::sync::Arc;

use accel_proto::Opcode;

use crate::raw::{BUFFER, BUFFER_FREE, FORGET, INFO, Node, SUBMIT, WAIT, Words, frame, part, submit_words};

/// xorshift64*: the same calls in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Mostly small, at times at an edge, at times anything.
    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(8),
            1 => self.below(1 << 16),
            2 => self.pick(&[0, u64::MAX, u64::from(u32::MAX), 1 << 24, (1 << 24) + 1, 1 << 31, 1 << 63]),
            _ => self.next(),
        }
    }

    /// An address where the kernel can do this process no harm: `scratch`, or none of its memory.
    fn address(&mut self, scratch: usize) -> u64 {
        match self.below(4) {
            0 => self.pick(&[0, 1, 4095, u64::MAX, 0xffff_8880_0000_0000, 0xffff_ffff_8100_0000, 1 << 47]),
            _ => scratch as u64,
        }
    }
}

/// Makes `calls` calls on each of two threads over one node. Only errors are expected, and that the process and the kernel live.
/// Returns how many succeeded.
pub fn run(path: &Path, calls: u32) -> io::Result<u64> {
    let node = Arc::new(Node::open(path)?);
    let threads = [0x1234_5678_9abc_def1, 0xfeed_beef_0000_0007].map(|seed| {
        let node = node.clone();
        std::thread::spawn(move || attack(&node, Random(seed), calls))
    });
    threads
        .into_iter()
        .map(|thread| thread.join().map_err(|_| io::Error::other("a fuzzing thread died")))
        .sum()
}

fn attack(node: &Node, mut random: Random, calls: u32) -> u64 {
    // As large as the largest response, so that an honest length stays inside it.
    let mut scratch = vec![0_u8; 17 << 20];
    let at = scratch.as_mut_ptr() as usize;
    let mut done = 0;
    for _ in 0..calls {
        done += u64::from(one(node, &mut random, at).is_ok());
    }
    // Whatever is left is for the end of the file.
    done
}

fn one(node: &Node, random: &mut Random, scratch: usize) -> io::Result<()> {
    let mut words: Words = [0; 16];
    match random.below(10) {
        // Any number of our kind, or of the kernel's graphics interface, at any size.
        0 => {
            let number = (random.next() as u32 & !0xff00) | random.pick(&[0xea00, 0x6400]);
            node.ioctl(number, random.address(scratch) as usize)
        }
        1 => {
            let number = random.pick(&[INFO, SUBMIT, WAIT, FORGET, BUFFER, BUFFER_FREE]);
            node.ioctl(number, random.address(scratch) as usize)
        }
        2 => {
            words[0] = random.address(scratch);
            words[1] = random.number() & 0xff_ffff | random.number() << 32;
            words[2] = random.number();
            words[3] = random.number();
            node.call(SUBMIT, &mut words)
        }
        // Frames with something in them.
        3..=5 => {
            let opcode = random.pick(Opcode::ALL);
            let payload: Vec<u8> = (0..random.pick(&[0, 7, 8, 16, 24, 31, 32, 40, 64, 80, 96, 200, 5000]))
                .map(|_| if random.below(3) == 0 { random.next() as u8 } else { 0 })
                .collect();
            let mut request = frame(opcode, random.number(), &payload);
            if random.below(4) == 0 {
                let place = random.below(request.len() as u64) as usize;
                request[place] ^= random.next() as u8;
            }
            let room = random.pick(&[0, 15, 16, 24, 32, 92, 4096, 70_000, 1 << 20]);
            words = submit_words(&request, room);
            words[2] = random.below(3);
            for tail in [4, 6] {
                if random.below(4) == 0 {
                    let (handle, bytes) = (random.below(64) as u32, random.number() as u32);
                    words[tail..tail + 2].copy_from_slice(&part(handle, random.number(), bytes));
                }
            }
            node.call(SUBMIT, &mut words)
        }
        6 => {
            words[0] = random.number();
            node.call(BUFFER, &mut words)
        }
        7 => {
            // A mapping that stays would be written to by nobody: only the kernel's books are at risk.
            drop(node.map(
                random.below(64) << 28,
                random.pick(&[4096, 65_536, 1 << 20]),
                libc::MAP_SHARED,
            )?);
            node.free(random.below(64) as u32)
        }
        8 => {
            words[0] = if random.below(2) == 0 { 0 } else { random.number() };
            words[1] = random.below(1_000_000);
            words[2] = random.address(scratch);
            words[3] = random.pick(&[0, 16, 17 << 20]);
            node.call(WAIT, &mut words)
        }
        _ => {
            words[0] = random.number();
            node.call(FORGET, &mut words)
        }
    }
}
