//! Why an artifact is refused.

/// Kind of rule that refused an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The bytes are no well-formed TOSA FlatBuffer.
    Malformed,
    /// A TOSA ERROR_IF or type rule: the graph is not valid TOSA.
    ErrorIf,
    /// A limit of level 8K.
    Level,
    /// Valid TOSA that this build does not execute.
    Unsupported,
}

/// A refusal: where, which rule, and a sentence that says what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", .at.as_ref().map(|a| format!("operator {} ({}): ", a.0, a.1)).unwrap_or_default())]
pub struct Refusal {
    /// Position in the block and operator name, where an operator is to blame.
    pub at: Option<(u32, &'static str)>,
    /// Kind of rule.
    pub rule: Rule,
    /// The sentence.
    pub message: String,
}

impl Refusal {
    /// A refusal that blames no operator.
    pub(crate) fn of_file(rule: Rule, message: String) -> Self {
        Self { at: None, rule, message }
    }
}
