//! Collects kernel launches over values whose place in memory is not known yet.

use std::collections::HashMap;

use accel_tosa::{Graph, Node, Refusal, Rule, TensorId};

use crate::flow::Flow;
use crate::{DeviceCaps, Module, PipelineSpec};

/// Something a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// A tensor of the graph.
    Tensor(TensorId),
    /// Temporary bytes of one operator; index in [`Builder::scratch_bytes`].
    Scratch(u32),
    /// Bytes made while lowering: parameter blocks, folded constants; index in [`Builder::blobs`].
    Blob(u32),
    /// A variable of the graph, by its place.
    State(u32),
    /// A decision, by its number.
    Decision(u32),
    /// Output slot that a tensor is copied into; only the last pass makes these.
    Slot(u32),
}

/// One kernel launch as a family asks for it. Push constants are the addresses of `writes`, then of `reads`
/// (8 bytes each), then `params`.
pub(crate) struct Launch<'a> {
    /// Module name; a name that is not in the table is a fault of ours and refused as such.
    pub module: &'a str,
    /// Specialization constants.
    pub constants: &'a [(u32, u32)],
    /// Values written.
    pub writes: &'a [Value],
    /// Values read.
    pub reads: &'a [Value],
    /// Words after the addresses.
    pub params: &'a [u32],
    /// Workgroups, folded over x, y and z (shaders use `flat_group`, and ignore groups beyond their own bound).
    pub groups: u64,
    /// Geometry for the plan's label; operator and module are added.
    pub detail: &'a str,
}

/// A recorded launch.
pub(crate) struct Step {
    pub pipeline: u32,
    pub writes: Vec<Value>,
    pub reads: Vec<Value>,
    pub params: Vec<u32>,
    pub groups: [u32; 3],
    pub label: String,
}

/// State of one lowering.
pub(crate) struct Builder<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The device.
    pub caps: &'a DeviceCaps,
    pub(crate) steps: Vec<Step>,
    pub(crate) pipelines: Vec<PipelineSpec>,
    pub(crate) flow: Flow,
    pub(crate) scratch_bytes: Vec<u64>,
    pub(crate) blobs: Vec<Vec<u8>>,
    /// Tensors that share another's bytes (RESHAPE, IDENTITY): tensor -> source.
    pub(crate) aliases: HashMap<TensorId, TensorId>,
    /// Results of CASTs that were left out, and what was cast: products read that instead.
    pub(crate) encoded: HashMap<TensorId, TensorId>,
    /// Constants computed while lowering.
    folded: HashMap<TensorId, u32>,
    pipeline_index: HashMap<PipelineSpec, u32>,
    blob_index: HashMap<Vec<u8>, u32>,
    /// Position and name of the operator being lowered.
    pub(crate) at: (u32, &'static str),
}

impl<'a> Builder<'a> {
    pub(crate) fn new(graph: &'a Graph, caps: &'a DeviceCaps) -> Self {
        Self {
            graph,
            caps,
            steps: Vec::new(),
            pipelines: Vec::new(),
            flow: Flow::default(),
            scratch_bytes: Vec::new(),
            blobs: Vec::new(),
            aliases: HashMap::new(),
            encoded: HashMap::new(),
            folded: HashMap::new(),
            pipeline_index: HashMap::new(),
            blob_index: HashMap::new(),
            at: (0, ""),
        }
    }

    /// A refusal of the operator being lowered.
    pub fn unsupported(&self, message: impl Into<String>) -> Refusal {
        Refusal { at: Some(self.at), rule: Rule::Unsupported, message: message.into() }
    }

    /// Temporary bytes, dead after the last launch that names them.
    pub fn scratch(&mut self, bytes: u64) -> Value {
        self.scratch_bytes.push(bytes);
        Value::Scratch(self.scratch_bytes.len() as u32 - 1)
    }

    /// Constant bytes; equal contents share a place.
    pub fn blob(&mut self, bytes: Vec<u8>) -> Value {
        let next = self.blobs.len() as u32;
        let index = *self.blob_index.entry(bytes).or_insert_with_key(|bytes| {
            self.blobs.push(bytes.clone());
            next
        });
        Value::Blob(index)
    }

    /// The operand `index` of a node, a number that is `known` unless the node keeps the operand to read it at run time.
    pub fn number(&mut self, node: &Node, index: usize, known: &[u8]) -> Value {
        match node.inputs.get(index) {
            Some(&id) => self.tensor(id),
            None => self.blob(known.to_vec()),
        }
    }

    /// A parameter block of 32-bit words, for kernels whose parameters outgrow the push constants.
    pub fn words(&mut self, words: &[u32]) -> Value {
        self.blob(words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// Bytes of a tensor that is known while lowering: a CONST, or one folded by [`Self::fold`].
    pub fn constant(&self, id: TensorId) -> Option<&[u8]> {
        let id = self.root(id);
        self.graph
            .constant(id)
            .or_else(|| self.folded.get(&id).map(|&blob| self.blobs[blob as usize].as_slice()))
    }

    /// Declares `id` a constant with these bytes.
    pub fn fold(&mut self, id: TensorId, bytes: Vec<u8>) {
        if let Value::Blob(index) = self.blob(bytes) {
            self.folded.insert(id, index);
        }
    }

    /// The value behind a tensor.
    pub fn tensor(&self, id: TensorId) -> Value {
        let id = self.root(id);
        self.folded.get(&id).map_or(Value::Tensor(id), |&blob| Value::Blob(blob))
    }

    /// Declares `id` to be the same bytes as `source`. Slots that cannot share are copied by the last pass.
    pub fn alias(&mut self, id: TensorId, source: TensorId) {
        let root = self.root(source);
        self.aliases.insert(id, root);
    }

    /// The tensor that owns the bytes of `id`.
    pub fn root(&self, id: TensorId) -> TensorId {
        // Aliases always name roots, so one step is enough.
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    /// Records a launch.
    ///
    /// # Errors
    /// An unsupported-refusal when the module is unknown, the push constants or the grid outgrow the device.
    pub fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Refusal> {
        let module = crate::module(launch.module)
            .ok_or_else(|| self.unsupported(format!("this build has no kernel {}", launch.module)))?;
        let push = (launch.writes.len() + launch.reads.len()) * 8 + launch.params.len() * 4;
        if push > self.caps.push_constant_bytes as usize {
            return Err(self.unsupported(format!(
                "kernel {} needs {push} bytes of push constants and {} has {}",
                module.name, self.caps.name, self.caps.push_constant_bytes
            )));
        }
        let groups = fold_groups(launch.groups, self.caps.max_workgroup_count)
            .ok_or_else(|| self.unsupported("the operator needs more workgroups than the device allows"))?;
        let pipeline = self.pipeline(module, launch.constants);
        let (position, operator) = self.at;
        let label = format!("{position} {operator} {} {}", module.name, launch.detail).trim_end().to_owned();
        self.steps.push(Step {
            pipeline,
            writes: launch.writes.to_vec(),
            reads: launch.reads.to_vec(),
            params: launch.params.to_vec(),
            groups,
            label,
        });
        Ok(())
    }

    fn pipeline(&mut self, module: &'static Module, constants: &[(u32, u32)]) -> u32 {
        let mut constants = constants.to_vec();
        constants.sort_unstable();
        let spec = PipelineSpec { module, constants };
        let next = self.pipelines.len() as u32;
        *self.pipeline_index.entry(spec).or_insert_with_key(|spec| {
            self.pipelines.push(spec.clone());
            next
        })
    }
}

/// Folds a flat count into a grid of at least as many groups, wasting less than one row and one plane.
fn fold_groups(count: u64, limit: [u32; 3]) -> Option<[u32; 3]> {
    let count = count.max(1);
    let x = count.min(u64::from(limit[0]));
    let rows = count.div_ceil(x);
    let y = rows.min(u64::from(limit[1]));
    let z = rows.div_ceil(y);
    (z <= u64::from(limit[2])).then_some([x as u32, y as u32, z as u32])
}

#[cfg(test)]
mod tests {
    use super::fold_groups;

    #[test]
    fn folding_covers_the_count_within_the_limits() {
        let limit = [65_535; 3];
        for count in [0, 1, 65_535, 65_536, 1 << 31, 65_535 * 65_535 + 1] {
            let grid = fold_groups(count, limit).unwrap();
            let total: u64 = grid.iter().map(|&g| u64::from(g)).product();
            assert!(total >= count, "{count} folded to {grid:?}");
            assert!(grid.iter().zip(limit).all(|(&g, l)| g <= l));
        }
        assert_eq!(fold_groups(u64::MAX, limit), None);
    }
}
