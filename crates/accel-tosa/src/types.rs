//! Matches an operator's tensors against the rows of types that it accepts.

use crate::operators::{OperandType, ProfileNeed, TypeRow};
use crate::site::{Result, Site};
use crate::{DType, Profile, Refusal, Rule};

/// Adds what a row of types asks for to the profiles that a graph needs.
pub(crate) fn need(profile: &mut Profile, row: &TypeRow) {
    match row.profile {
        ProfileNeed::Int => profile.integer = true,
        ProfileNeed::Float => profile.float = true,
        ProfileNeed::Either => {}
    }
}

impl Site<'_> {
    /// The first row of types that this operator's tensors match.
    pub fn row(&self, accumulator: Option<DType>) -> Result<&'static TypeRow> {
        self.since()?;
        let accumulator = self.info.column("accumulator").zip(accumulator);
        let fits = |wanted: OperandType, found: DType, row: &TypeRow| {
            wanted.of(row.types).is_none_or(|wanted| wanted == found)
        };
        let found = self.rows().find(|row| {
            accumulator.is_none_or(|(column, dtype)| row.types[column] == dtype)
                && self
                    .outputs()
                    .enumerate()
                    .all(|(index, output)| fits(self.info.result(index), output.dtype, row))
                && self.inputs().all(|(index, tensor)| fits(self.description(index).dtype, tensor.dtype, row))
        });
        found.ok_or_else(|| self.no_row(accumulator.map(|(_, dtype)| dtype)))
    }

    /// Refuses an operator of a later version than the artifact's.
    pub fn since(&self) -> Result<()> {
        if self.info.version() <= self.version() {
            return Ok(());
        }
        let (major, minor) = self.version();
        let message = format!("it came with TOSA 1.1, and the file is of {major}.{minor}.");
        Err(self.refuse(Rule::ErrorIf, message))
    }

    /// Major and minor number of the artifact's version.
    pub fn version(&self) -> (i32, i32) {
        (self.values.version.major, self.values.version.minor)
    }

    /// The rows of types that the artifact's version has.
    fn rows(&self) -> impl Iterator<Item = &'static TypeRow> {
        let version = self.version();
        self.info.rows.iter().filter(move |row| row.version <= version)
    }

    /// The refusal of types that no row has.
    fn no_row(&self, accumulator: Option<DType>) -> Refusal {
        let found: Vec<String> = self
            .inputs()
            .map(|(index, tensor)| format!("{} {}", self.input_name(index), tensor.dtype))
            .chain(self.outputs().map(|output| format!("output {}", output.dtype)))
            .chain(accumulator.map(|dtype| format!("accumulator {dtype}")))
            .collect();
        let row = |row: &TypeRow| row.types.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" ");
        let rows: Vec<String> = self.rows().map(row).collect();
        let message = format!(
            "TOSA {}.{} has no such combination of types: {}. It has ({}): {}.",
            self.version().0,
            self.version().1,
            found.join(", "),
            self.info.columns.join(" "),
            rows.join(", ")
        );
        // What the draft may have added is not wrong, only not supported.
        self.refuse(if self.version() > (1, 0) { Rule::Unsupported } else { Rule::ErrorIf }, message)
    }
}
