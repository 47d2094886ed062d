//! The kernels are those that were reviewed: `shaders/manifest.txt` says which.

#[test]
fn the_build_makes_the_kernels_of_the_manifest() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shaders/manifest.txt");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let built = accel_kernels::manifest();
    let changed: Vec<&str> =
        built.lines().filter(|line| !committed.lines().any(|old| old == *line)).collect();
    assert!(
        built == committed,
        "renew the manifest with `cargo run -p accel-kernels --example dump-spirv -- --manifest > shaders/manifest.txt`; \
         new or changed: {changed:#?}"
    );
}
