//! Compiles the kernels of `shaders/`.

#[path = "build/shaders.rs"]
mod shaders;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../shaders");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    shaders::write(&root, &root, &out);
}
