//! Small kernels, compiled when a test first needs one.

use std::sync::OnceLock;

use accel_kernels::Module;
use glslang::{
    Compiler, CompilerOptions, Shader, ShaderInput, ShaderMessage, ShaderSource, ShaderStage, SourceLanguage,
    SpirvVersion, Target, VulkanVersion,
};

const HEAD: &str = "#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 64) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };
layout(constant_id = 3) const uint FACTOR = 1;
";

/// `to[i] = from[i] * FACTOR + add` for `i < count`; operands from, to; params count, add.
pub fn affine() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        compile(
            "test_affine",
            "layout(push_constant, scalar) uniform Push { Words from; Words to; uint count; uint add; } p;
            void main() {
                uint i = gl_GlobalInvocationID.x;
                if (i < p.count) p.to.at[i] = p.from.at[i] * FACTOR + p.add;
            }",
        )
    })
}

/// `to[i] = a[i] + b[i]` for `i < count`; operands a, b, to; params count.
pub fn sum() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        compile(
            "test_sum",
            "layout(push_constant, scalar) uniform Push { Words a; Words b; Words to; uint count; } p;
            void main() {
                uint i = gl_GlobalInvocationID.x;
                if (i < p.count) p.to.at[i] = p.a.at[i] + p.b.at[i];
            }",
        )
    })
}

/// Takes its time, then writes 1 to each of the first 64 words; operands in (ignored), to; params rounds.
pub fn slow() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        compile(
            "test_slow",
            "layout(push_constant, scalar) uniform Push { Words from; Words to; uint rounds; } p;
            void main() {
                uint i = gl_LocalInvocationID.x;
                uint x = p.from.at[i] + i;
                for (uint round = 0; round < p.rounds; ++round) x = (x ^ (x >> 7)) * 1664525u + 1013904223u;
                p.to.at[i] = x == 0xffffffffu && i > 64 ? 2 : 1;
                if (x == 12345u) p.to.at[i] = 1;
            }",
        )
    })
}

fn compile(name: &'static str, body: &str) -> Module {
    let source = ShaderSource::from(format!("{HEAD}{body}"));
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan { version: VulkanVersion::Vulkan1_3, spirv_version: SpirvVersion::SPIRV1_6 },
        version_profile: None,
        messages: ShaderMessage::DEFAULT,
    };
    let defines: Option<&[(&str, Option<&str>)]> = None;
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, defines, None).unwrap();
    let shader = Shader::new(Compiler::acquire().unwrap(), input).parse();
    let words = shader.unwrap_or_else(|error| panic!("{name}: {error}")).compile().unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Module { name, spirv: bytes.leak(), sha256: "" }
}
