//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use accel_kernels::Tuning;
use accel_vulkan::Selector;
use clap::Parser;

use crate::Result;

/// Measures kernels on this machine's Vulkan device, beside its ceilings. Prints a Markdown table.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --")]
pub struct Args {
    /// Only cases whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub filter: Vec<String>,
    /// Print the names of the cases and end
    #[arg(long)]
    pub list: bool,
    /// 100 ms of warm-up and 10 runs a case instead of 300 ms and 30
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON lines, which --anchor reads
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the ratios to the ceilings
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Figures to compare with: JSON lines with `name`, `value` and `unit`
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    /// The device: `auto`, `cpu`, a number or a part of its name; ACCEL_DEVICE without it
    #[arg(long)]
    pub device: Option<String>,
    /// Figures of kernels' geometries that take the place of the tables', for example `skinny.loads=8,skinny.groups=528`; every
    /// case is measured with each list that is given, and with an empty one by the tables alone
    #[arg(long, value_name = "NAME=NUMBER,...", default_value = "")]
    pub tune: Vec<String>,
    /// Cargo gives this to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// Whether the filter lets the case through.
    pub fn takes(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| name.contains(part))
    }

    /// How long a case runs before it is measured: an idle GPU's clock needs 300 ms to rise.
    pub fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 100 } else { 300 })
    }

    /// Measured runs of a case.
    pub fn runs(&self) -> usize {
        if self.quick { 10 } else { 30 }
    }

    /// The lists of figures, as they are written and as lowering takes them.
    pub fn tunings(&self) -> Result<Vec<(&str, Tuning)>> {
        self.tune.iter().map(|text| Ok((text.as_str(), text.parse()?))).collect()
    }

    /// The device that is meant.
    pub fn selector(&self) -> Selector {
        let name = self.device.clone().unwrap_or_else(|| std::env::var("ACCEL_DEVICE").unwrap_or_default());
        name.parse().unwrap_or_default()
    }
}
