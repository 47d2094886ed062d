//! The ratios to the ceilings as bars.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::measure::Outcome;
use crate::report::Report;

const LINE: i32 = 16;
const NAMES: i32 = 330;
const BARS: i32 = 500;
const TOP: i32 = 30;

/// Draws a bar a case that has a ceiling.
pub fn draw(path: &Path, report: &Report) -> Result<()> {
    let bars: Vec<(&str, f64)> = report
        .rows
        .iter()
        .filter_map(|row| match &row.outcome {
            Outcome::Measured(measured) => Some((row.name.as_str(), measured.value / measured.ceiling?.0)),
            _ => None,
        })
        .collect();
    let height = TOP + LINE * bars.len() as i32 + LINE;
    let root = SVGBackend::new(path, ((NAMES + BARS + 60) as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let style = ("sans-serif", 11).into_font();
    root.draw(&Text::new(format!("part of the ceiling, {}", report.device), (8, 8), style.clone()))?;
    for tenth in 0..=10 {
        let x = NAMES + BARS * tenth / 10;
        root.draw(&PathElement::new(vec![(x, TOP - 4), (x, height - LINE)], BLACK.mix(0.15)))?;
    }
    for (line, (name, ratio)) in (0..).zip(bars) {
        let y = TOP + LINE * line;
        let length = (ratio.clamp(0.0, 1.05) * f64::from(BARS)) as i32;
        let color = if ratio >= 0.85 {
            GREEN
        } else if ratio >= 0.5 {
            BLUE
        } else {
            RED
        };
        root.draw(&Text::new(name.to_owned(), (8, y + 2), style.clone()))?;
        root.draw(&Rectangle::new(
            [(NAMES, y + 2), (NAMES + length, y + LINE - 2)],
            color.mix(0.5).filled(),
        ))?;
        root.draw(&Text::new(format!("{ratio:.2}"), (NAMES + length + 4, y + 2), style.clone()))?;
    }
    root.present()?;
    Ok(())
}
