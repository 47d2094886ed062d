//! Writes every kernel as `NAME.spv` for `spirv-val`: `dump-spirv DIR`, or prints the lines of
//! `shaders/manifest.txt`: `dump-spirv --manifest`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(argument) = std::env::args().nth(1) else {
        eprintln!("dump-spirv needs a directory, or --manifest");
        return ExitCode::FAILURE;
    };
    if argument == "--manifest" {
        print!("{}", accel_kernels::manifest());
        return ExitCode::SUCCESS;
    }
    let folder = Path::new(&argument);
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        accel_kernels::MODULES
            .iter()
            .try_for_each(|module| std::fs::write(folder.join(format!("{}.spv", module.name)), module.spirv))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the kernels cannot be written to {argument}: {error}");
            ExitCode::FAILURE
        }
    }
}
