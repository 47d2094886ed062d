//! From bytes to a [`Graph`]: the file, its version, its regions.

use std::sync::Arc;

use crate::block::Reader;
use crate::flat::{self, List};
use crate::schema::{TosaBasicBlock, TosaGraph, TosaRegion};
use crate::site::Result;
use crate::{Graph, Refusal, Rule, Version};

/// Reads a `.tosa` artifact. The file is verified before anything in it is believed; memory and work are bounded
/// by a small multiple of its size.
///
/// # Errors
/// The first rule that the artifact breaks, with the operator and its position where one is to blame.
pub fn read(bytes: impl Into<Arc<[u8]>>) -> Result<Graph> {
    graph(bytes.into()).map_err(clipped)
}

pub(crate) fn clipped(refusal: Refusal) -> Refusal {
    Refusal { message: clip(refusal.message), ..refusal }
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
    let (version, mut reader) = start(&artifact)?;
    reader.operators()?;
    let (inputs, outputs) = reader.slots()?;
    let Reader { values, profile, nodes, variables, .. } = reader;
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

/// A reader that knows the names of the main block.
pub(crate) fn start(artifact: &[u8]) -> Result<(Version, Reader<'_>)> {
    let (version, regions) = open(artifact)?;
    let mut regions = regions.iter();
    let main = regions.next().ok_or_else(|| malformed("the file has no region."))?;
    let mut reader = Reader::new(artifact, version, main.name().unwrap_or_default(), only_block(main)?);
    for region in regions {
        let known = reader.regions.entry(region.name().unwrap_or_default());
        // Two of one name could not be told apart.
        known.and_modify(|region| *region = None).or_insert(Some(region));
    }
    reader.declare()?;
    Ok((version, reader))
}

fn malformed(message: &str) -> Refusal {
    Refusal::of_file(Rule::Malformed, message.to_owned())
}

/// The block of a region; TOSA has one in each.
pub(crate) fn only_block(region: TosaRegion<'_>) -> Result<TosaBasicBlock<'_>> {
    let name = region.name().unwrap_or_default();
    let blocks = region.blocks().unwrap_or_default();
    match (blocks.len(), blocks.iter().next()) {
        (1, Some(block)) => Ok(block),
        (count, _) => Err(Refusal::of_file(
            Rule::Malformed,
            format!("the region {name:?} has {count} blocks where 1 is needed."),
        )),
    }
}

/// Verifies the file and finds its version and regions.
fn open(artifact: &[u8]) -> Result<(Version, List<'_, TosaRegion<'_>>)> {
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
    Ok((version, graph.regions().unwrap_or_default()))
}
