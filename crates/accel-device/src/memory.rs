//! The aggregate memory limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a guest may hold in all.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
}

/// Bytes taken from a [`Budget`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Takes `bytes`, or nothing where the limit would be passed.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        self.take(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Bytes taken now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// Raises the charge to `bytes` in all; `false`, with nothing changed, where the limit would be passed.
    pub(crate) fn raise(&mut self, bytes: u64) -> bool {
        let raised = self.budget.take(bytes.saturating_sub(self.bytes));
        if raised {
            self.bytes = self.bytes.max(bytes);
        }
        raised
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_raised_within_the_limit_and_given_back_whole() {
        let budget = Budget::new(100);
        let mut charge = budget.charge(10).unwrap();
        let other = budget.charge(30).unwrap();
        assert!(!charge.raise(71), "71 + 30 is too much");
        assert_eq!(budget.used(), 40);
        assert!(charge.raise(70));
        assert!(charge.raise(5), "a charge is never lowered");
        assert_eq!(budget.used(), 100);
        drop((charge, other));
        assert_eq!(budget.used(), 0);
    }
}
