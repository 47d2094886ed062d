//! Where the launches of a lowering part and meet again.

use std::collections::HashMap;
use std::ops::Range;

use accel_tosa::TensorId;

use crate::Next;
use crate::builder::Value;

/// Segments of the recorded launches, in order. Their numbers are their places.
#[derive(Default)]
pub(crate) struct Flow {
    /// The launch that each ends before, and what follows it.
    segments: Vec<(u32, Next)>,
    /// Number of decisions.
    decisions: u32,
    /// Launches that may run again once the last of them has.
    loops: Vec<Range<u32>>,
    /// Tensors that lie where another value does: of graphs of which one alone runs, or that are dead before it is.
    homes: HashMap<TensorId, Value>,
}

impl Flow {
    /// The number of the segment that launches go to now.
    pub fn current(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Ends the current segment before the launch number `launches` and gives its number; nothing follows it yet.
    pub fn end(&mut self, launches: usize) -> u32 {
        self.segments.push((launches as u32, Next::End));
        self.current() - 1
    }

    /// Says what follows a segment.
    pub fn follow(&mut self, segment: u32, next: Next) {
        self.segments[segment as usize].1 = next;
    }

    /// A new decision.
    pub fn decide(&mut self) -> u32 {
        self.decisions += 1;
        self.decisions - 1
    }

    /// Number of decisions.
    pub fn decisions(&self) -> u32 {
        self.decisions
    }

    /// Says that these launches may run again.
    pub fn repeat(&mut self, launches: Range<usize>) {
        self.loops.push(launches.start as u32..launches.end as u32);
    }

    /// The last launch before which the bytes of a value must stay that launches from `first` to `last` use.
    pub fn last_use(&self, first: u32, last: u32) -> u32 {
        // What was made before a loop and is used in it is used in every round. Inner loops are listed first.
        let lasting = |last: u32, range: &Range<u32>| {
            if first < range.start && last >= range.start { last.max(range.end - 1) } else { last }
        };
        self.loops.iter().fold(last, lasting)
    }

    /// Lets a tensor lie where `home` does; `false` where it has a home already.
    pub fn settle(&mut self, tensor: TensorId, home: Value) -> bool {
        let is_new = !self.homes.contains_key(&tensor);
        self.homes.entry(tensor).or_insert(home);
        is_new
    }

    /// Where a value lies.
    pub fn home(&self, value: Value) -> Value {
        let mut value = value;
        // A result of an inner graph may be that of the outer one.
        while let Value::Tensor(id) = value
            && let Some(&home) = self.homes.get(&id)
        {
            value = home;
        }
        value
    }

    /// The segments: ranges of launches, and what follows.
    pub fn segments(&self) -> impl Iterator<Item = (Range<u32>, Next)> {
        let starts = std::iter::once(0).chain(self.segments.iter().map(|&(end, _)| end));
        starts.zip(&self.segments).map(|(start, &(end, next))| (start..end, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loops_use_stays_until_they_end() {
        let mut flow = Flow::default();
        flow.repeat(4..6);
        flow.repeat(2..8);
        assert_eq!(flow.last_use(0, 1), 1, "dead before");
        assert_eq!(flow.last_use(0, 2), 7, "used in the outer loop");
        assert_eq!(flow.last_use(0, 4), 7, "used in the inner loop");
        assert_eq!(flow.last_use(3, 4), 5, "of one round of the outer loop");
        assert_eq!(flow.last_use(4, 5), 5, "of one round of the inner loop");
        assert_eq!(flow.last_use(0, 9), 9, "used behind");
    }
}
