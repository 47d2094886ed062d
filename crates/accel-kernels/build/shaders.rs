//! GLSL to SPIR-V with glslang, and a table of the results.
//!
//! A shader names its variants in lines `// variant NAME KEY=VALUE ...`; each becomes the module
//! `STEM.NAME` with those macros defined. Without such a line there is one module, `STEM`.

use std::fs;
use std::path::{Path, PathBuf};

use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, Shader, ShaderInput, ShaderMessage, ShaderSource, ShaderStage, SourceLanguage,
    SpirvVersion, Target, VulkanVersion,
};
use sha2::{Digest, Sha256};

/// A compiled variant.
struct Compiled {
    name: String,
    spirv: Vec<u8>,
    sha256: String,
}

/// Compiles every `.comp` file below `root` and writes the modules and `modules.rs`, a static array of them, to `out`.
/// Includes are found in `includes`. Errors become errors of the build.
pub fn write(root: &Path, includes: &Path, out: &Path) {
    println!("cargo::rerun-if-changed={}", root.display());
    println!("cargo::rerun-if-changed={}", includes.display());
    let mut table = String::from("/// All modules, ascending by name.\npub static MODULES: &[Module] = &[\n");
    match compile_all(root, includes) {
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

/// Compiles every variant of every `.comp` file below `root`, ascending by name.
fn compile_all(root: &Path, includes: &Path) -> Result<Vec<Compiled>, Vec<String>> {
    let compiler = Compiler::acquire().ok_or_else(|| vec!["glslang did not start".to_owned()])?;
    let mut files = Vec::new();
    find(root, &mut files);
    let mut modules = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        for (name, defines) in variants(&file, &text) {
            match compile(compiler, includes, &text, &defines) {
                Ok(spirv) => {
                    let sha256 = Sha256::digest(&spirv).iter().map(|b| format!("{b:02x}")).collect();
                    modules.push(Compiled { name, spirv, sha256 });
                }
                Err(error) => errors.push(format!("{} (variant {name}): {error}", file.display())),
            }
        }
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in modules.windows(2) {
        if pair[0].name == pair[1].name {
            errors.push(format!("two shader variants are named {}", pair[0].name));
        }
    }
    if errors.is_empty() { Ok(modules) } else { Err(errors) }
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|e| e == "comp") {
            files.push(path);
        }
    }
    files.sort();
}

type Defines = Vec<(String, String)>;

fn variants(file: &Path, text: &str) -> Vec<(String, Defines)> {
    let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let named: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("// variant "))
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = format!("{stem}.{}", words.next().unwrap_or_default());
            let defines = words
                .map(|word| word.split_once('=').unwrap_or((word, "1")))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            (name, defines)
        })
        .collect();
    if named.is_empty() { vec![(stem.to_owned(), Vec::new())] } else { named }
}

struct Includes<'a>(&'a Path);

impl IncludeHandler for Includes<'_> {
    fn include(&mut self, _: IncludeType, header: &str, _: &str, depth: usize) -> Option<IncludeResult> {
        if depth > 16 {
            return None;
        }
        let data = fs::read_to_string(self.0.join(header)).ok()?;
        Some(IncludeResult { name: header.to_owned(), data })
    }
}

fn compile(compiler: &Compiler, includes: &Path, text: &str, defines: &Defines) -> Result<Vec<u8>, String> {
    let source = ShaderSource::from(text.to_owned());
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan { version: VulkanVersion::Vulkan1_3, spirv_version: SpirvVersion::SPIRV1_6 },
        version_profile: None,
        messages: ShaderMessage::DEFAULT,
    };
    let pairs: Vec<(&str, Option<&str>)> =
        defines.iter().map(|(k, v)| (k.as_str(), Some(v.as_str()))).collect();
    let mut includes = Includes(includes);
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, Some(&pairs), Some(&mut includes))
        .map_err(|e| e.to_string())?;
    let shader = Shader::new(compiler, input).parse().map_err(|e| e.to_string())?;
    let words = shader.compile().map_err(|e| e.to_string())?;
    Ok(words.iter().flat_map(|w| w.to_le_bytes()).collect())
}
