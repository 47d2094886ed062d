//! Objects by id.

use std::collections::HashMap;

use accel_proto::Status;

/// Makes ids. None is ever made twice, so an id of a dropped object stays stale, also over resets.
#[derive(Debug, Default)]
pub(crate) struct Ids(u64);

impl Ids {
    /// A fresh id, not 0.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The living objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T>(HashMap<u64, T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, id: u64, object: T) {
        self.0.insert(id, object);
    }

    pub(crate) fn get(&self, id: u64) -> Result<&T, Status> {
        self.0.get(&id).ok_or(Status::StaleObject)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Result<&mut T, Status> {
        self.0.get_mut(&id).ok_or(Status::StaleObject)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        self.0.remove(&id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}
