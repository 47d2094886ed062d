//! Matches an operator's tensors against the rows of types that it accepts.

use crate::operators::{OperandType, ProfileNeed, TOSA_1_1, TypeRow};
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
        let accumulator = self.info.column("accumulator").zip(accumulator);
        let fits = |wanted: OperandType, found: DType, row: &TypeRow| match wanted {
            OperandType::Column(column) => row.types[column] == found,
            OperandType::Fixed(dtype) => dtype == found,
            OperandType::Checked => true,
        };
        let found = self.rows().find(|row| {
            accumulator.is_none_or(|(column, dtype)| row.types[column] == dtype)
                && self.outputs().all(|output| fits(self.info.output, output.dtype, row))
                && self.inputs().all(|(index, tensor)| fits(self.description(index).dtype, tensor.dtype, row))
        });
        found.ok_or_else(|| self.no_row(accumulator.map(|(_, dtype)| dtype)))
    }

    /// Whether the artifact is of a later version than 1.0.
    fn later(&self) -> bool {
        (self.values.version.major, self.values.version.minor) > (1, 0)
    }

    /// The rows of types that the artifact's version has.
    fn rows(&self) -> impl Iterator<Item = &'static TypeRow> {
        let later = self.later();
        self.info.rows.iter().filter(move |row| later || row.extension != Some(TOSA_1_1))
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
            "TOSA 1.0 has no such combination of types: {}. It has ({}): {}.",
            found.join(", "),
            self.info.columns.join(" "),
            rows.join(", ")
        );
        // What a later version may have added is not wrong, only not supported.
        self.refuse(if self.later() { Rule::Unsupported } else { Rule::ErrorIf }, message)
    }
}
