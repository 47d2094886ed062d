//! Writes every compiled shader to a folder, for tools such as spirv-val: `dump-spirv DIR`.

use std::path::PathBuf;

use vhost_device_accel_workspace::Result;

fn main() -> Result<()> {
    let folder: PathBuf =
        std::env::args_os().nth(1).ok_or("name the folder to write to: dump-spirv DIR")?.into();
    for module in accel_kernels::MODULES {
        let file = folder.join(format!("{}.spv", module.name));
        std::fs::write(&file, module.spirv)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}
