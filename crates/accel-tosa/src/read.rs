//! From bytes to a [`Graph`]: the file, its version, its regions.

use std::sync::Arc;

use crate::block::Block;
use crate::flat;
use crate::schema::{TosaBasicBlock, TosaGraph};
use crate::site::Result;
use crate::{Graph, Refusal, Rule, Version};

/// Reads a `.tosa` artifact. The file is verified before anything in it is believed; memory and work are bounded
/// by a small multiple of its size.
///
/// # Errors
/// The first rule that the artifact breaks, with the operator and its position where one is to blame.
pub fn read(bytes: impl Into<Arc<[u8]>>) -> Result<Graph> {
    graph(bytes.into()).map_err(|refusal| Refusal { message: clip(refusal.message), ..refusal })
}

/// Names come from the file and may be as long as it: a message is cut to what a person reads.
fn clip(message: String) -> String {
    const LONGEST: usize = 2000;
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &message[..end]),
        None => message,
    }
}

fn graph(artifact: Arc<[u8]>) -> Result<Graph> {
    let (version, block, others) = open(&artifact)?;
    let mut block = Block::new(&artifact, version, block)?;
    block.operators()?;
    if let Some(other) = others {
        return Err(Refusal::of_file(
            Rule::Unsupported,
            format!(
                "the file has {other} besides the region \"main\"; control flow (EXT-CONTROLFLOW) is not supported."
            ),
        ));
    }
    let (inputs, outputs) = block.interface()?;
    let Block { values, profile, nodes, variables, .. } = block;
    let tensors = values.tensors;
    Ok(Graph {
        version,
        profile,
        tensors,
        variables,
        nodes,
        inputs,
        outputs,
        artifact: Arc::clone(&artifact),
    })
}

/// Verifies the file and finds the block to run; the third value names what else the file holds.
fn open(artifact: &[u8]) -> Result<(Version, TosaBasicBlock<'_>, Option<String>)> {
    let malformed = |message: &str| Refusal::of_file(Rule::Malformed, message.to_owned());
    if artifact.get(4..8) != Some(b"TOSA") {
        return Err(malformed("the file has no \"TOSA\" identifier at byte 4, so it is not a .tosa file."));
    }
    let graph: TosaGraph<'_> = flat::root(artifact)
        .map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_end_matches('.');
            Refusal::of_file(Rule::Malformed, format!("the file is not a well-formed FlatBuffer: {first}."))
        })?
        .ok_or_else(|| malformed("the file has no root table."))?;
    let stamp = graph.version().ok_or_else(|| malformed("the file has no version stamp."))?;
    let version = Version {
        major: stamp.major().unwrap_or(-1),
        minor: stamp.minor().unwrap_or(-1),
        patch: stamp.patch().unwrap_or(-1),
        draft: stamp.draft().unwrap_or(true),
    };
    if version.major != 1 || !(0..=1).contains(&version.minor) {
        return Err(Refusal::of_file(
            Rule::Unsupported,
            format!(
                "the file is of TOSA {}.{}.{}; versions 1.0 and 1.1 are read.",
                version.major, version.minor, version.patch
            ),
        ));
    }
    let regions = graph.regions().unwrap_or_default();
    let main = regions.iter().next().ok_or_else(|| malformed("the file has no region."))?;
    let blocks = main.blocks().unwrap_or_default();
    let block = blocks.iter().next().ok_or_else(|| malformed("the region \"main\" has no block."))?;
    let others = if regions.len() > 1 {
        Some(format!("{} more regions", regions.len() - 1))
    } else if blocks.len() > 1 {
        Some(format!("{} more blocks", blocks.len() - 1))
    } else {
        None
    };
    Ok((version, block, others))
}
