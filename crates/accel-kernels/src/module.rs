//! SPIR-V modules, compiled from `shaders/` by the build script.

/// A compiled shader variant.
#[derive(Debug)]
pub struct Module {
    /// `family_kernel.variant`, for example `matmul_tiled.f32`.
    pub name: &'static str,
    /// SPIR-V words, little-endian.
    pub spirv: &'static [u8],
    /// SHA-256 of `spirv`, hexadecimal: the key of `shaders/manifest.txt`.
    pub sha256: &'static str,
}

// Modules are statics with unique names: identity is the name.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Module {}

impl std::hash::Hash for Module {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The module of that name.
pub fn module(name: &str) -> Option<&'static Module> {
    MODULES.binary_search_by(|m| m.name.cmp(name)).ok().map(|i| &MODULES[i])
}

/// The lines of `shaders/manifest.txt`: name and SHA-256 of each module, ascending by name.
pub fn manifest() -> String {
    MODULES.iter().map(|module| format!("{} {}\n", module.name, module.sha256)).collect()
}
