//! Command line of the accelerator device.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod connection;
mod error;
mod input;
mod npy;
mod progress;
mod session;
mod tensor;

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use args::{Cli, Command};
use commands::{bind, check, info, run, sut, verify};
use connection::Connection;
use error::{FAILED, RAN, Result};
use input::Input;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Not clap's own 2, which says here that TOSA refuses a model.
            return ExitCode::from(if error.use_stderr() { FAILED } else { RAN });
        }
    };
    let level = if cli.verbose { "info" } else { "warn" };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
    match execute(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let (code, message) = (error.exit_code(), error.sentence());
            if cli.json {
                println!("{}", json!({ "code": code, "message": message }));
            }
            eprintln!("accelctl: {message}");
            ExitCode::from(code)
        }
    }
}

fn execute(cli: &Cli) -> Result<u8> {
    match &cli.command {
        Command::Check { model, shape, plan } => return check::check(model, shape, *plan, cli.json),
        Command::Bind { model, shape, output } => return bind::bind(model, shape, output).map(|()| RAN),
        Command::Sut { batch: Some(source), .. } => {
            return sut::batch(&cli.target, cli.verbose, source, cli.json).map(|()| RAN);
        }
        _ => {}
    }
    let mut connection = Connection::open(&cli.target, cli.verbose)?;
    on_device(cli, &connection).map_err(|error| connection.explain(error))
}

fn on_device(cli: &Cli, connection: &Connection) -> Result<u8> {
    let parse = |inputs: &[String]| inputs.iter().map(|text| Input::parse(text)).collect::<Vec<_>>();
    match &cli.command {
        Command::Info => info::info(connection, cli.json).map(|()| RAN),
        Command::Run { model, input, output_dir, repeat } => {
            let job =
                run::Job { model, inputs: parse(input), output_dir: output_dir.as_deref(), repeat: *repeat };
            run::run(connection, &job, cli.json).map(|()| RAN)
        }
        Command::Verify { model, input, expect, rtol } => {
            verify::verify(connection, model, &parse(input), expect, *rtol, cli.json)
        }
        Command::Sut { desc, output_dir, .. } => {
            if let Some(desc) = desc {
                sut::one(connection, desc, output_dir.as_deref())?;
            }
            Ok(RAN)
        }
        Command::Check { .. } | Command::Bind { .. } => Ok(RAN),
    }
}
