//! The results as Markdown and as JSON lines, and the anchors that they are compared with.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::Result;
use crate::case::Unit;
use crate::ceiling::Ceilings;
use crate::device::Device;
use crate::measure::Outcome;

/// Figures from elsewhere by the names of cases: value and unit.
#[derive(Debug, Default)]
pub struct Anchors(HashMap<String, (f64, String)>);

impl Anchors {
    /// Reads JSON lines; those without a name and a value (the head of a report) are passed over.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let mut anchors = HashMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: Value = serde_json::from_str(line)
                .map_err(|error| format!("a line of {} is no JSON: {error}", path.display()))?;
            if let (Some(name), Some(value)) = (line["name"].as_str(), line["value"].as_f64()) {
                anchors
                    .insert(name.to_owned(), (value, line["unit"].as_str().unwrap_or_default().to_owned()));
            }
        }
        Ok(Self(anchors))
    }

    /// How many times as good as its anchor a figure is; `None` without an anchor in the same unit.
    fn ratio(&self, name: &str, value: f64, unit: Unit) -> Option<f64> {
        let (anchor, anchor_unit) = self.0.get(name)?;
        (anchor_unit == unit.name()).then(|| if unit == Unit::Time { anchor / value } else { value / anchor })
    }
}

/// A case and how it went.
pub struct Row {
    pub name: String,
    pub outcome: Outcome,
}

/// Everything that was measured.
pub struct Report {
    pub ceilings: Ceilings,
    pub rows: Vec<Row>,
    pub device: String,
    head: Value,
    anchors: Anchors,
}

impl Report {
    pub fn new(device: &Device, ceilings: Ceilings, anchors: Anchors) -> Self {
        let name = device.engine.caps().name.clone();
        let date =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let lines: Vec<Value> = ceilings
            .lines
            .iter()
            .map(|(name, value, unit)| json!({"ceiling": name, "value": value, "unit": unit}))
            .collect();
        let head = json!({"device": name, "driver": device.driver, "unix_time": date, "ceilings": lines});
        Self { ceilings, rows: Vec::new(), device: format!("{name} ({})", device.driver), head, anchors }
    }

    /// Prints what stands above the table.
    pub fn print_head(&self) {
        println!("{}\n\n| ceiling | figure |\n|---|---|", self.device);
        for (name, value, unit) in &self.ceilings.lines {
            println!("| {name} | {value:.1} {unit} |");
        }
        println!(
            "\n| case | GPU us | submit to fence us | figure | ceiling | ratio | to MATMUL | to anchor | kernels |"
        );
        println!("|---|--:|--:|--:|---|--:|--:|--:|---|");
    }

    /// Adds a case and prints its line.
    pub fn add(&mut self, row: Row) {
        match &row.outcome {
            Outcome::Measured(measured) => {
                let ceiling = measured.ceiling.map_or_else(
                    || "| ".to_owned(),
                    |(ceiling, name)| format!("{ceiling:.1} ({name}) | {:.3}", measured.value / ceiling),
                );
                let anchor = self.anchors.ratio(&row.name, measured.value, measured.unit);
                let [product, anchor] = [measured.to_product, anchor]
                    .map(|ratio| ratio.map_or_else(String::new, |r| format!("{r:.2}")));
                println!(
                    "| {} | {:.1} | {:.1} | {:.1} {} | {ceiling} | {product} | {anchor} | {} |",
                    row.name,
                    measured.timing.gpu * 1e6,
                    measured.timing.wall * 1e6,
                    measured.value,
                    measured.unit.name(),
                    measured.kernels,
                );
            }
            Outcome::Skipped(reason) => println!("| {} | | | skipped: {reason} | | | | | |", row.name),
            Outcome::Failed(reason) => println!("| {} | | | FAILED: {reason} | | | | | |", row.name),
        }
        self.rows.push(row);
    }

    /// A line of JSON for the device and its ceilings, and one a case.
    pub fn json(&self) -> Result<String> {
        let mut text = serde_json::to_string(&self.head)? + "\n";
        for row in &self.rows {
            let line = match &row.outcome {
                Outcome::Measured(measured) => json!({
                    "name": row.name,
                    "value": measured.value,
                    "unit": measured.unit.name(),
                    "gpu_us": measured.timing.gpu * 1e6,
                    "wall_us": measured.timing.wall * 1e6,
                    "runs": measured.timing.runs,
                    "ceiling": measured.ceiling.map(|ceiling| ceiling.0),
                    "bound": measured.ceiling.map(|ceiling| ceiling.1),
                    "matmul_ratio": measured.to_product,
                    "anchor_ratio": self.anchors.ratio(&row.name, measured.value, measured.unit),
                    "kernels": measured.kernels,
                }),
                Outcome::Skipped(reason) => json!({"name": row.name, "skipped": reason}),
                Outcome::Failed(reason) => json!({"name": row.name, "failed": reason}),
            };
            text += &(serde_json::to_string(&line)? + "\n");
        }
        Ok(text)
    }
}
