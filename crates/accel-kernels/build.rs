//! Compiles every `shaders/**/*.comp` to SPIR-V and writes the table of modules.
//!
//! A shader names its variants in lines `// variant NAME KEY=VALUE ...`; each becomes the module
//! `STEM.NAME` with those macros defined. Without such a line there is one module, `STEM`.

#[path = "build/shaders.rs"]
mod shaders;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../shaders");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", root.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let mut table = String::from("/// All modules, ascending by name.\npub static MODULES: &[Module] = &[\n");
    match shaders::compile_all(&root) {
        Ok(modules) => {
            for module in &modules {
                let file = out.join(format!("{}.spv", module.name));
                fs::write(&file, &module.spirv).expect("OUT_DIR is writable");
                table += &format!(
                    "    Module {{ name: {:?}, spirv: include_bytes!({:?}), sha256: {:?} }},\n",
                    module.name, file, module.sha256
                );
            }
        }
        Err(errors) => {
            for error in errors {
                println!("cargo::error={}", error.replace('\n', " | "));
            }
        }
    }
    table += "];\n";
    fs::write(out.join("modules.rs"), table).expect("OUT_DIR is writable");
}
