//! `cargo bench`: every case of the product's own path (graph, plan, engine) on this machine's device, beside the ceilings
//! that the same process measures. `cargo bench -- --help` lists the options.

mod args;
mod case;
mod cases;
mod ceiling;
mod chart;
mod device;
mod floor;
mod graph;
mod measure;
mod report;

use accel_kernels::DeviceCaps;
use clap::Parser;

use crate::args::Args;
use crate::ceiling::Ceilings;
use crate::device::Device;
use crate::report::{Anchors, Report, Row};

/// Any failure, as a sentence.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    env_logger::init();
    let args = Args::parse();
    let cases: Vec<_> = cases::all().into_iter().filter(|case| args.takes(&case.name)).collect();
    if args.list {
        floor::NAMES.iter().filter(|name| args.takes(name)).for_each(|name| println!("{name}"));
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(());
    }
    let anchors = args.anchor.as_deref().map(Anchors::read).transpose()?.unwrap_or_default();
    let device = Device::open(&args)?;
    let ceilings = Ceilings::measure(&device)?;
    let mut report = Report::new(&device, ceilings, anchors);
    report.print_head();
    for name in floor::NAMES.iter().filter(|name| args.takes(name)) {
        report.add(Row { name: (*name).to_owned(), outcome: floor::measure(name, &device).into() });
    }
    let tunings = args.tunings()?;
    for (case, (text, tuning)) in
        cases.iter().flat_map(|case| tunings.iter().map(move |tuning| (case, tuning)))
    {
        let caps = DeviceCaps { tuning: tuning.clone(), ..device.engine.caps().clone() };
        report.add(Row {
            name: [case.name.as_str(), text].join(" ").trim_end().to_owned(),
            outcome: measure::case(&device, &caps, &report.ceilings, case).into(),
        });
    }
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()?)?;
    }
    if let Some(path) = &args.svg {
        chart::draw(path, &report)?;
    }
    Ok(())
}
