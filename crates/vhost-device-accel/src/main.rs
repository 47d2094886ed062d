//! The daemon's process: options, log, exit code.
#![forbid(unsafe_code)]

use std::error::Error as _;
use std::process::ExitCode;
use std::sync::Arc;

use accel_vulkan::EngineOptions;
use clap::Parser;
use vhost_device_accel::args::Cli;
use vhost_device_accel::{Error, VulkanBackend, daemon, list_devices, print_vmm};

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vhost-device-accel: {}", with_sources(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Error> {
    if cli.list_devices {
        let devices = accel_vulkan::devices()?;
        print!("{}", if cli.json { list_devices::json(&devices) } else { list_devices::table(&devices) });
        return Ok(());
    }
    let vmm = cli.print_vmm;
    let settings = cli.settings()?;
    if let Some(vmm) = vmm {
        print!("{}", print_vmm::attach_lines(vmm, &settings)?);
        return Ok(());
    }
    if settings.socket_paths.is_empty() {
        return Err(Error::NoSocket);
    }
    let options = EngineOptions {
        pipeline_cache_dir: settings.pipeline_cache.clone(),
        validation: settings.validation,
        matrices: !settings.no_coopmat,
        tuning: settings.tuning.clone(),
        ..EngineOptions::default()
    };
    let backend = VulkanBackend::open(settings.device.clone(), options)?;
    daemon::run(&settings, &Arc::new(backend))
}

/// An error and what it comes from, in one line.
fn with_sources(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(error.to_string().trim_end());
        source = error.source();
    }
    text
}
