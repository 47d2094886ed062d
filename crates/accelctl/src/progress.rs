//! A bar for uploads that take long.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far an upload is, once it has taken a second, and only to people.
pub struct Upload {
    label: String,
    total: u64,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Upload {
    /// Starts the clock.
    pub fn new(label: impl Into<String>, total: u64) -> Self {
        Self { label: label.into(), total, start: Instant::now(), bar: None }
    }

    /// `arrived` bytes are there.
    pub fn at(&mut self, arrived: u64) {
        let late = self.start.elapsed() >= Duration::from_secs(1);
        if self.bar.is_none() && late && std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
            let bar = ProgressBar::new(self.total).with_message(self.label.clone());
            self.bar = Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(arrived);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
