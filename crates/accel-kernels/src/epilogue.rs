//! The pointwise chain that a MATMUL, CONV2D or DEPTHWISE_CONV2D runs on its sums before it stores them, as
//! `shaders/common/epilogue.glsl` does.

use accel_tosa::{DType, Node, Op, TensorId};

use crate::builder::{Builder, Value};
use crate::chain::Chain;
use crate::lower::conv;
use crate::stage::Element;

/// Stages that the kernels run.
pub(crate) const STAGES: usize = 4;
/// Operands in memory beside the sums.
pub(crate) const OPERANDS: usize = 3;
/// Operands that are one number known while lowering.
pub(crate) const SCALARS: usize = 10;
/// Words that the stages read.
pub(crate) const IMMEDIATES: usize = 8;
/// The first specialization constant of the stages; those of the operands and of the output's type follow.
pub(crate) const FIRST_CONSTANT: u32 = 16;

/// An epilogue ready to launch.
pub(crate) struct Epilogue {
    /// What is stored.
    pub output: TensorId,
    /// Specialization constants.
    pub constants: Vec<(u32, u32)>,
    /// Operands; the push constants have places for [`OPERANDS`] of them.
    pub operands: Vec<Value>,
    /// [`IMMEDIATES`] words that the stages read and [`SCALARS`] operands.
    pub words: Vec<u32>,
    /// The operators, for the label.
    pub operators: String,
}

impl Epilogue {
    /// The operators, to stand before a launch's details.
    pub fn label(&self) -> String {
        format!("{} ", self.operators)
    }

    /// Reads of a kernel: `reads`, the operands, then the block of words.
    pub fn reads(&self, builder: &mut Builder<'_>, reads: &[Value]) -> Vec<Value> {
        let mut all = reads.to_vec();
        all.extend(&self.operands);
        // Places of operands that the chain lacks repeat an address and are not read.
        all.resize(reads.len() + OPERANDS, reads[0]);
        all.push(builder.words(&self.words));
        all
    }
}

/// The chain, empty so far, of an operator whose kernels have variants with an epilogue.
pub(crate) fn start(builder: &Builder<'_>, node: &Node) -> Option<Chain> {
    let known = match node.op {
        Op::MatMul { .. } | Op::MatMulT { .. } => 2,
        Op::Conv2d(_) | Op::DepthwiseConv2d(_) => 3,
        _ => return None,
    };
    if matches!(&node.op, Op::Conv2d(attrs) if !conv::is_product(builder, node, attrs)) {
        return None;
    }
    // More operands are zero points that are read at run time.
    if node.inputs.len() > known {
        return None;
    }
    let dtype = |id| builder.graph.tensor(id).dtype;
    let output = node.outputs[0];
    match (dtype(node.inputs[0]), dtype(node.inputs[1]), dtype(output)) {
        (DType::Fp32, DType::Fp32, DType::Fp32)
        | (DType::Fp16, DType::Fp16, DType::Fp16)
        | (DType::Int8, DType::Int8, DType::Int32) => {}
        _ => return None,
    }
    let input = Element::of(dtype(node.inputs[0]))?;
    let mut chain = Chain::after(output, Element::of(dtype(output))?, input);
    chain.holds(output, node.op.name());
    Some(chain)
}
