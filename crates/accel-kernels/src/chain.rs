//! Chains of pointwise stages: their operands, how broadcasts are read, and their launch.

use accel_tosa::{DType, Refusal, TensorId};
use half::f16;

use crate::builder::{Builder, Launch, Value};
use crate::epilogue::{self, Epilogue};
use crate::lower::movers::magic;
use crate::stage::{Code, Element, Source, Stage};
use crate::{DeviceCaps, DeviceKind};

/// A variant of `shaders/pointwise/pointwise.comp`.
struct Variant {
    module: &'static str,
    stages: usize,
    operands: usize,
    /// Most quads of elements an invocation: each repeats the code of all stages.
    quads: u32,
    /// Runs of those on GPUs, whose loads are all on their way before the first is waited for.
    repeat: u32,
}

const SHORT: Variant = Variant { module: "pointwise.short", stages: 2, operands: 3, quads: 4, repeat: 2 };
const LONG: Variant = Variant { module: "pointwise.long", stages: 8, operands: 6, quads: 2, repeat: 1 };
/// Immediates of either.
const MAX_IMMEDIATES: usize = 15;
/// Bits of an operand's word: an invocation's elements lie in one run, or are one element.
const RUN: u32 = 1 << 12;
const ONE: u32 = 1 << 13;
/// Bits of the output's word: BF16 holds the numbers, or FP16 what rounds to the same FP8; FP16 becomes FP8 as it is.
const SHORT_NUMBERS: u32 = 1 << 4;
const DIRECT: u32 = 1 << 5;

/// A tensor that a chain reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operand {
    tensor: TensorId,
    element: Element,
    /// The stage indexes the operand itself (TABLE).
    indexed: bool,
}

/// The operand in register form where it is one number that is known now.
pub(crate) fn number(builder: &Builder<'_>, tensor: TensorId, element: Element) -> Option<u32> {
    match (element, builder.constant(tensor)?) {
        (Element::I8, &[byte]) => Some(i32::from(byte as i8) as u32),
        (Element::I16, &[a, b]) => Some(i32::from(i16::from_le_bytes([a, b])) as u32),
        (Element::I32 | Element::F32, &[a, b, c, d]) => Some(u32::from_le_bytes([a, b, c, d])),
        (Element::F16, &[a, b]) => Some(f16::from_le_bytes([a, b]).to_f32().to_bits()),
        _ => None,
    }
}

impl Operand {
    fn number(&self, builder: &Builder<'_>) -> Option<u32> {
        if self.indexed { None } else { number(builder, self.tensor, self.element) }
    }
}

/// A chain under construction. The register starts with operand 0.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    operands: Vec<Operand>,
    stages: Vec<Stage>,
    /// The tensor that the register holds.
    current: TensorId,
    /// Whether the register is no longer what a load of `current` would give (an unsigned result).
    closed: bool,
    /// Names of the operators.
    operators: Vec<&'static str>,
    /// Where the register starts with the sums of a product instead of a load: the type of what is multiplied.
    product: Option<Element>,
}

impl Chain {
    /// A chain that starts by loading `tensor` as `element`.
    pub fn load(tensor: TensorId, element: Element) -> Self {
        Self {
            operands: vec![Operand { tensor, element, indexed: false }],
            stages: Vec::new(),
            current: tensor,
            closed: false,
            operators: Vec::new(),
            product: None,
        }
    }

    /// A chain that starts with the sums of a product of `factors`, which are `tensor`.
    pub fn after(tensor: TensorId, element: Element, factors: Element) -> Self {
        Self { product: Some(factors), ..Self::load(tensor, element) }
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The tensor of an operand.
    pub fn tensor(&self, number: u32) -> TensorId {
        self.operands[number as usize].tensor
    }

    /// Whether the operators are those of a product and its epilogue.
    pub fn is_product(&self) -> bool {
        self.product.is_some()
    }

    /// Whether a stage may follow.
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// No stage may follow.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the kernel can run it.
    pub fn fits(&self, builder: &Builder<'_>) -> bool {
        if self.is_product() { self.epilogue(builder).is_some() } else { self.variant(builder).is_some() }
    }

    /// The smallest variant that can run it.
    fn variant(&self, builder: &Builder<'_>) -> Option<Variant> {
        let extents = self.modes(builder).iter().filter(|mode| mode.extent().is_some()).count();
        let immediates = self.stages.iter().map(|s| s.immediates.len()).sum::<usize>() + 2 * extents;
        [SHORT, LONG].into_iter().find(|v| {
            self.stages.len() <= v.stages && self.operands.len() <= v.operands && immediates <= MAX_IMMEDIATES
        })
    }

    /// The source that gives `tensor`.
    pub fn source(&mut self, tensor: TensorId, element: Element) -> Source {
        if tensor == self.current { Source::Chain } else { self.operand(tensor, element, false) }
    }

    /// The source that gives the address of `tensor`.
    pub fn table(&mut self, tensor: TensorId, element: Element) -> Source {
        self.operand(tensor, element, true)
    }

    fn operand(&mut self, tensor: TensorId, element: Element, indexed: bool) -> Source {
        let operand = Operand { tensor, element, indexed };
        let number = self.operands.iter().position(|o| *o == operand).unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        Source::Operand(number as u32)
    }

    /// Appends a stage whose result the next stages see.
    pub fn stage(&mut self, code: Code, sources: &[Source], immediates: &[u32], element: Element) {
        self.stages.push(Stage { code, sources: sources.to_vec(), immediates: immediates.to_vec(), element });
    }

    /// Ends an operator: the register now holds `tensor`.
    pub fn holds(&mut self, tensor: TensorId, operator: &'static str) {
        self.current = tensor;
        self.operators.push(operator);
    }

    /// A store to `element` rounds and wraps to it by itself.
    fn drop_last_rounding(&mut self, element: Element) {
        let stores = |stage: &Stage| {
            stage.element == element
                && matches!(
                    stage.code,
                    Code::RoundF16 | Code::RoundBf16 | Code::RoundE4M3 | Code::RoundE5M2 | Code::Wrap
                )
        };
        if self.stages.last().is_some_and(stores) {
            self.stages.pop();
        }
    }

    /// The stages' specialization constants, from `first` on, and their immediates.
    fn stage_words(&self, first: u32) -> (Vec<(u32, u32)>, Vec<u32>) {
        let mut constants = Vec::new();
        let mut immediates = Vec::new();
        for (number, stage) in (first..).zip(&self.stages) {
            constants.push((number, stage.word(immediates.len())));
            immediates.extend_from_slice(&stage.immediates);
        }
        (constants, immediates)
    }

    /// The chain as the epilogue of its product; `None` where the kernels cannot run it: it is too long, reads an
    /// operand in an uncommon way, or has results of less than a word that rows do not divide into.
    pub fn epilogue(&self, builder: &Builder<'_>) -> Option<Epilogue> {
        let mut chain = self.clone();
        let output = builder.graph.tensor(chain.current);
        let stored = Element::of(output.dtype)?;
        chain.drop_last_rounding(stored);
        let columns = *output.shape.last()?;
        // An invocation has the columns of a word of the product, which are those of a word of the factors or more.
        let fits_words =
            stored.bytes() >= chain.product?.bytes() && (columns * stored.bytes()).is_multiple_of(4);
        // The sums are operand 0; those in memory follow, then the single numbers.
        let mut operands = Vec::new();
        let mut scalars = Vec::new();
        let numbers: Vec<u32> = (0..)
            .zip(&chain.operands)
            .map(|(at, operand)| match operand.number(builder) {
                _ if at == 0 => 0,
                Some(number) => {
                    scalars.push(number);
                    (epilogue::OPERANDS + scalars.len()) as u32
                }
                None => {
                    operands.push(*operand);
                    operands.len() as u32
                }
            })
            .collect();
        for source in chain.stages.iter_mut().flat_map(|stage| &mut stage.sources) {
            if let Source::Operand(number) = source {
                *number = numbers[*number as usize];
            }
        }
        let (mut constants, mut words) = chain.stage_words(epilogue::FIRST_CONSTANT);
        if !fits_words
            || chain.operators.len() < 2
            || chain.stages.len() > epilogue::STAGES
            || operands.len() > epilogue::OPERANDS
            || scalars.len() > epilogue::SCALARS
            || words.len() > epilogue::IMMEDIATES
        {
            return None;
        }
        let first = epilogue::FIRST_CONSTANT + epilogue::STAGES as u32;
        for (number, operand) in (first..).zip(&operands) {
            let shape = &builder.graph.tensor(operand.tensor).shape;
            let mode = if operand.indexed { Mode::Indexed } else { Mode::of(shape, &output.shape) };
            match mode {
                Mode::Same | Mode::Scalar | Mode::Indexed => {}
                Mode::Row(extent) if extent == columns => {}
                Mode::Row(_) | Mode::Column(_) | Mode::Strided => return None,
            }
            constants.push((number, operand.element as u32 | mode.number() << 4));
        }
        constants.push((first + epilogue::OPERANDS as u32, stored as u32));
        words.resize(epilogue::IMMEDIATES, 0);
        words.extend(scalars);
        words.resize(epilogue::IMMEDIATES + epilogue::SCALARS, 0);
        Some(Epilogue {
            output: chain.current,
            constants,
            operands: operands.iter().map(|o| builder.tensor(o.tensor)).collect(),
            words,
            operators: chain.operators.join("+"),
        })
    }

    /// Records the launch that writes the tensor that the register holds.
    ///
    /// # Errors
    /// An unsupported-refusal when the chain has more stages, operands or immediates than the kernel takes.
    pub fn launch(mut self, builder: &mut Builder<'_>) -> Result<(), Refusal> {
        let output = builder.graph.tensor(self.current);
        let element = element(builder, output.dtype)?;
        self.drop_last_rounding(element);
        let variant = self.variant(builder).ok_or_else(|| {
            builder.unsupported("the operator needs more operands than the pointwise kernel has")
        })?;
        let (mut constants, mut immediates) = self.stage_words(0);
        let shapes: Vec<&[u32]> =
            self.operands.iter().map(|o| builder.graph.tensor(o.tensor).shape.as_slice()).collect();
        let broadcast = Broadcast::new(&output.shape, &shapes);
        let modes = self.modes(builder);
        let quads = self.quads(&modes, element, builder.caps).min(variant.quads);
        for (number, (operand, mode)) in self.operands.iter().zip(&modes).enumerate() {
            let mut word = operand.element as u32 | mode.number() << 4;
            word |= mode.shared(&broadcast, number, 4 * quads);
            if let Some(extent) = mode.extent() {
                let (magic, shift) = magic(extent);
                word |= (immediates.len() as u32) << 8 | shift << 16;
                immediates.extend([extent, magic]);
            }
            constants.push((8 + number as u32, word));
        }
        let lanes = builder.caps.stream_lanes();
        let repeat = if builder.caps.kind == DeviceKind::Cpu { 1 } else { variant.repeat };
        constants.extend([
            (14, element as u32 | self.shortness(element)),
            (15, quads),
            (16, repeat),
            (31, lanes),
        ]);
        let strided = modes.contains(&Mode::Strided);
        let mut reads: Vec<Value> = self.operands.iter().map(|o| builder.tensor(o.tensor)).collect();
        // The kernel's parameter block has places for all operands: the unused ones repeat the first.
        reads.resize(variant.operands, reads[0]);
        let block = if strided { builder.words(&broadcast.words()) } else { reads[0] };
        reads.push(block);
        let count = output.elements();
        let detail = if self.operators.len() > 1 { self.operators.join("+") } else { String::new() };
        let mut params = vec![count as u32];
        params.extend(immediates);
        let half = if builder.caps.exact_half { "_half" } else { "" };
        builder.launch(&Launch {
            module: &format!("{}{half}", variant.module),
            constants: &constants,
            writes: &[Value::Tensor(self.current)],
            reads: &reads,
            params: &params,
            groups: count.div_ceil(u64::from(4 * quads * lanes * repeat)),
            detail: &detail,
        })
    }

    /// How each operand is read.
    fn modes(&self, builder: &Builder<'_>) -> Vec<Mode> {
        let shape = |tensor| builder.graph.tensor(tensor).shape.as_slice();
        let output = shape(self.current);
        let mode = |operand: &Operand| {
            if operand.indexed { Mode::Indexed } else { Mode::of(shape(operand.tensor), output) }
        };
        self.operands.iter().map(mode).collect()
    }

    /// How many bits the numbers have that are stored: those of the operand that a cast alone reads.
    fn shortness(&self, output: Element) -> u32 {
        use Element::{Bf16, Bool, E4M3, E5M2, F16, I8};
        let first = self.operands[0].element;
        let stages: Vec<Code> = self.stages.iter().map(|stage| stage.code).collect();
        match (output, first, &*stages) {
            (E4M3 | E5M2, F16, []) => SHORT_NUMBERS | DIRECT,
            (E4M3 | E5M2, Bf16 | E4M3 | E5M2, []) => SHORT_NUMBERS,
            (Bf16, Bf16 | E4M3 | E5M2, []) => SHORT_NUMBERS,
            (Bf16, I8 | Bool, [Code::IntToFloat]) => SHORT_NUMBERS,
            _ => 0,
        }
    }

    /// Quads of elements an invocation: as many as make 16 bytes of the widest tensor that is read along the output.
    fn quads(&self, modes: &[Mode], output: Element, caps: &DeviceCaps) -> u32 {
        if caps.kind == DeviceKind::Cpu {
            return 1;
        }
        let streamed =
            self.operands.iter().zip(modes).filter(|(_, mode)| !matches!(mode, Mode::Scalar | Mode::Indexed));
        let widest = streamed.map(|(operand, _)| operand.element.bytes()).fold(output.bytes(), u32::max);
        4 / widest
    }
}

/// The element of a tensor's type.
///
/// # Errors
/// An unsupported-refusal for the types that no pointwise kernel reads.
pub(crate) fn element(builder: &Builder<'_>, dtype: DType) -> Result<Element, Refusal> {
    Element::of(dtype).ok_or_else(|| {
        builder.unsupported(format!(
            "{dtype} is not supported; FP32, FP16, BF16, FP8, INT8, INT16, INT32 and BOOL are"
        ))
    })
}

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Shaped like the output.
    Same,
    /// One element.
    Scalar,
    /// Repeated every so many elements.
    Row(u32),
    /// Each element repeated so many times.
    Column(u32),
    /// Broadcast in some other way.
    Strided,
    /// By a stage.
    Indexed,
}

impl Mode {
    fn of(operand: &[u32], output: &[u32]) -> Self {
        let elements = |shape: &[u32]| shape.iter().map(|&d| u64::from(d)).product::<u64>();
        if elements(operand) == elements(output) {
            return Self::Same;
        }
        if elements(operand) == 1 {
            return Self::Scalar;
        }
        let alone = Broadcast::new(output, &[operand]);
        match (&*alone.strides[0], &*alone.dimensions) {
            ([0, 1], [_, extent]) => Self::Row(*extent),
            ([1, 0], [_, extent]) => Self::Column(*extent),
            _ => Self::Strided,
        }
    }

    /// How the `step` elements of an invocation lie in operand `number`: [`RUN`], [`ONE`], or anyhow.
    fn shared(self, broadcast: &Broadcast, number: usize, step: u32) -> u32 {
        let fits = |extent: u32| extent.is_multiple_of(step);
        match self {
            Self::Same => RUN,
            Self::Scalar => ONE,
            Self::Row(extent) if fits(extent) => RUN,
            Self::Column(extent) if fits(extent) => ONE,
            Self::Strided => match (broadcast.dimensions.last(), broadcast.strides[number].last()) {
                (Some(&extent), Some(1)) if fits(extent) => RUN,
                (Some(&extent), Some(0)) if fits(extent) => ONE,
                _ => 0,
            },
            Self::Row(_) | Self::Column(_) | Self::Indexed => 0,
        }
    }

    /// After how many elements something changes.
    fn extent(self) -> Option<u32> {
        match self {
            Self::Row(extent) | Self::Column(extent) => Some(extent),
            Self::Same | Self::Scalar | Self::Strided | Self::Indexed => None,
        }
    }

    /// The shader's number.
    fn number(self) -> u32 {
        match self {
            Self::Same => 1,
            Self::Scalar => 2,
            Self::Strided => 3,
            Self::Indexed => 4,
            Self::Row(_) => 5,
            Self::Column(_) => 6,
        }
    }
}

/// Dimensions of the output with as many of them merged as all operands allow, and the operands' strides.
#[derive(Debug, PartialEq, Eq)]
struct Broadcast {
    dimensions: Vec<u32>,
    /// By operand, then dimension; 0 where the operand is repeated.
    strides: Vec<Vec<u32>>,
}

impl Broadcast {
    fn new(output: &[u32], operands: &[&[u32]]) -> Self {
        let mut merged = Self { dimensions: Vec::new(), strides: vec![Vec::new(); operands.len()] };
        let all: Vec<Vec<u32>> = operands.iter().map(|shape| strides(shape, output.len())).collect();
        for (d, &extent) in output.iter().enumerate() {
            if extent == 1 {
                continue;
            }
            // An outer dimension joins this one when walking on past this one's end is its own step.
            let joins = !merged.dimensions.is_empty()
                && merged.strides.iter().zip(&all).all(|(m, s)| m.last() == Some(&(s[d] * extent)));
            if joins {
                if let Some(last) = merged.dimensions.last_mut() {
                    *last *= extent;
                }
            } else {
                merged.dimensions.push(extent);
            }
            for (m, s) in merged.strides.iter_mut().zip(&all) {
                if joins {
                    m.pop();
                }
                m.push(s[d]);
            }
        }
        merged
    }

    /// The kernel's block: rank, six dimensions, what divides by them, six strides an operand.
    fn words(&self) -> Vec<u32> {
        let mut words = vec![self.dimensions.len() as u32];
        let padded =
            |list: &[u32]| list.iter().copied().chain(std::iter::repeat(0)).take(6).collect::<Vec<_>>();
        words.extend(padded(&self.dimensions));
        let (factors, shifts): (Vec<u32>, Vec<u32>) = self.dimensions.iter().map(|&d| magic(d)).unzip();
        words.extend(padded(&factors));
        words.extend(padded(&shifts));
        for strides in &self.strides {
            words.extend(padded(strides));
        }
        words
    }
}

/// Element strides of `shape` aligned to the right of `rank` dimensions, 0 for extent 1.
fn strides(shape: &[u32], rank: usize) -> Vec<u32> {
    let mut strides = vec![0; rank];
    let mut step = 1;
    for (d, &extent) in (0..rank).rev().zip(shape.iter().rev()) {
        if extent != 1 {
            strides[d] = step;
        }
        step *= extent;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_way_to_read_an_operand_is_found() {
        let output = [2, 3, 4, 5];
        assert_eq!(Mode::of(&[2, 3, 4, 5], &output), Mode::Same);
        assert_eq!(Mode::of(&[1, 1, 1, 1], &output), Mode::Scalar);
        assert_eq!(Mode::of(&[5], &output), Mode::Row(5));
        assert_eq!(Mode::of(&[1, 1, 4, 5], &output), Mode::Row(20));
        assert_eq!(Mode::of(&[2, 3, 1, 1], &output), Mode::Column(20));
        assert_eq!(Mode::of(&[1, 3, 1, 1], &output), Mode::Strided);
        assert_eq!(Mode::of(&[2, 1, 4, 5], &output), Mode::Strided);
    }

    #[test]
    fn dimensions_merge_as_far_as_operands_allow() {
        let shapes: [&[u32]; 2] = [&[2, 3, 4, 5], &[4, 5]];
        let merged = Broadcast::new(&[2, 3, 4, 5], &shapes);
        assert_eq!(merged.dimensions, [6, 20]);
        assert_eq!(merged.strides, [[20, 1], [0, 1]]);
        let shapes: [&[u32]; 2] = [&[2, 1, 4, 1], &[2, 3, 4, 5]];
        let merged = Broadcast::new(&[2, 3, 4, 5], &shapes);
        assert_eq!(merged.dimensions, [2, 3, 4, 5]);
        assert_eq!(merged.strides[0], [4, 0, 1, 0]);
        let merged = Broadcast::new(&[1, 1], &[&[1, 1]]);
        assert!(merged.dimensions.is_empty());
    }
}
