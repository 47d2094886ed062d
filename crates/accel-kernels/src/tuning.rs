//! Figures of kernels' geometries that take the place of those in the tables, for experiments.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Figures by name, for example `skinny.splits=16,skinny.lanes_n=32`. Empty means that the tables decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning(BTreeMap<String, u32>);

impl Tuning {
    /// The figure of that name, or else the table's.
    pub(crate) fn or(&self, name: &str, table: u32) -> u32 {
        self.0.get(name).copied().unwrap_or(table)
    }
}

/// Text that is no list of `name=number`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no figure of a kernel; write NAME=NUMBER, several with commas")]
pub struct TuningError(String);

impl FromStr for Tuning {
    type Err = TuningError;

    fn from_str(text: &str) -> Result<Self, TuningError> {
        let entry = |part: &str| {
            let (name, number) = part.split_once('=')?;
            Some((name.trim().to_owned(), number.trim().parse().ok()?))
        };
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        parts
            .map(|part| entry(part).ok_or_else(|| TuningError(part.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_name_and_nonsense_is_named() {
        let tuning: Tuning = "a=3, b.c=16".parse().unwrap();
        assert_eq!((tuning.or("a", 1), tuning.or("b.c", 1), tuning.or("d", 7)), (3, 16, 7));
        assert_eq!("".parse(), Ok(Tuning::default()));
        assert_eq!("a=3,b".parse::<Tuning>(), Err(TuningError("b".into())));
    }
}
