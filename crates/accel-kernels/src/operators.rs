//! Which of TOSA's operators and types this build runs: every combination is lowered as a tiny graph, so that the table
//! cannot differ from what the lowering does.

mod sample;

use accel_tosa::DType;
use accel_tosa::operators::{OperatorInfo, ProfileNeed, TypeRow};

use crate::{DeviceCaps, lower};

/// An operator and its combinations of types.
#[derive(Clone, Debug)]
pub struct OperatorSupport {
    /// TOSA's table of the operator.
    pub info: &'static OperatorInfo,
    /// Its combinations of types, and whether each runs.
    pub rows: Vec<(&'static TypeRow, bool)>,
}

/// The operators that programs may hold, in the order of their codes.
pub fn operators() -> Vec<OperatorSupport> {
    let support = |info: &'static OperatorInfo| OperatorSupport {
        info,
        rows: info.rows.iter().map(|row| (row, runs(info, row))).collect(),
    };
    accel_tosa::operators().iter().map(support).collect()
}

/// Whether a device without any optional feature runs the combination.
fn runs(info: &OperatorInfo, row: &TypeRow) -> bool {
    let graph = sample::graph(info, row);
    graph.is_some_and(|graph| lower(&graph, &DeviceCaps::baseline()).is_ok())
}

/// The table as a JSON array with an object an operator: `name`, `columns` (what the types of a row stand for) and `rows`,
/// each with `types`, `profile` (`PRO-INT`, `PRO-FP` or `any`), `extension` (or null), `version` and `runs`.
pub fn operators_json() -> String {
    let quoted = |text: &str| format!("\"{text}\"");
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let operators = operators().into_iter().map(|operator| {
        let rows = operator.rows.iter().map(|(row, runs)| {
            let types = row.types.iter().map(|dtype| quoted(dtype.name())).collect();
            let extension = match row.extensions {
                [] => "null".to_owned(),
                extensions => quoted(&extensions.join(" and ")),
            };
            format!(
                "{{\"types\":{},\"profile\":\"{}\",\"extension\":{extension},\"version\":\"{}.{}\",\"runs\":{runs}}}",
                list(types),
                profile(row),
                row.version.0,
                row.version.1
            )
        });
        let columns = operator.info.columns.iter().map(|column| quoted(column)).collect();
        format!(
            "{{\"name\":\"{}\",\"columns\":{},\"rows\":{}}}",
            operator.info.name,
            list(columns),
            list(rows.collect())
        )
    });
    list(operators.collect())
}

/// The table as Markdown: a line an operator, with the combinations that run and those that are refused.
pub fn operators_markdown() -> String {
    let mut text = String::from("| operator | types | runs | refused |\n|---|---|---|---|\n");
    for operator in operators() {
        let name =
            |row: &TypeRow| row.types.iter().map(|dtype| short_name(*dtype)).collect::<Vec<_>>().join(" → ");
        let cell = |wanted: bool| {
            let mut names: Vec<String> = Vec::new();
            for (row, _) in operator.rows.iter().filter(|(_, runs)| *runs == wanted) {
                let name = name(row);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.join(", ")
        };
        let info = operator.info;
        let columns = info.columns.join(" → ");
        text += &format!("| {} | {columns} | {} | {} |\n", info.name, cell(true), cell(false));
    }
    text
}

/// One name for all block-scaled types, which stand in hundreds of combinations.
fn short_name(dtype: DType) -> &'static str {
    if dtype.values().is_some() { "BS32" } else { dtype.name() }
}

fn profile(row: &TypeRow) -> &'static str {
    match row.profile {
        ProfileNeed::Int => "PRO-INT",
        ProfileNeed::Float => "PRO-FP",
        ProfileNeed::Either => "any",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_a_sample() {
        for info in accel_tosa::operators() {
            for row in info.rows {
                assert!(sample::graph(info, row).is_some(), "{} {:?}", info.name, row.types);
            }
        }
    }

    #[test]
    fn both_base_profiles_run_whole() {
        let mut refused = Vec::new();
        for operator in operators() {
            let base = operator
                .rows
                .iter()
                .filter(|(row, runs)| row.extensions.is_empty() && row.version == (1, 0) && !runs);
            refused.extend(base.map(|(row, _)| format!("{} {:?}", operator.info.name, row.types)));
        }
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn the_texts_name_every_operator() {
        let (json, markdown) = (operators_json(), operators_markdown());
        for info in accel_tosa::operators() {
            assert!(json.contains(&format!("{{\"name\":\"{}\",", info.name)));
            assert!(markdown.contains(&format!("\n| {} |", info.name)));
        }
    }
}
