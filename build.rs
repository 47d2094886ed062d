//! Compiles the shaders that measure the benches' ceilings, with the compiler of the kernels.

#[path = "crates/accel-kernels/build/shaders.rs"]
mod shaders;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=crates/accel-kernels/build");
    shaders::write(&root.join("benches/shaders"), Path::new(&root.join("shaders")), &out);
}
