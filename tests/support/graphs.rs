//! Graphs that the tests build for themselves.

use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};

use crate::{Element, Result, Tensor};

/// Evenly spread numbers in -1..1, the same for the same seed.
pub fn random(seed: u64, count: usize) -> impl Iterator<Item = f64> {
    // SplitMix64 (Steele, Lea, Flood 2014).
    (1..=count as u64).map(move |at| {
        let mut z = seed.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as i64 as f64 / (1u64 << 63) as f64
    })
}

/// A tensor of random numbers: floats below `scale` in magnitude, INT8 over its whole range.
///
/// # Errors
/// A type that tests do not know.
pub fn tensor(seed: u64, dtype: DType, shape: &[usize], scale: f64) -> Result<Tensor> {
    let element = Element::of_tosa(dtype.name())?;
    let scale = if element.is_float() { scale } else { 127.0 };
    Ok(Tensor::from_f64(element, shape, random(seed, shape.iter().product()).map(|number| number * scale)))
}

/// MATMUL of two square matrices without zero points, `a` and `b`.
pub fn matmul(dtype: DType, side: i32) -> Vec<u8> {
    let accumulator = if dtype == DType::Int8 { DType::Int32 } else { dtype };
    let mut w = Writer::new();
    let shape = [1, side, side];
    w.input("a", dtype, &shape);
    w.input("b", dtype, &shape);
    w.constant("zero", dtype, &[1], &vec![0; dtype.bytes().unwrap_or(1)]);
    w.op("MATMUL", Attribute::None, &["a", "b", "zero", "zero"], "product", accumulator, &shape);
    w.output("product");
    w.finish()
}

/// Adds 1 to each of `count` INT32 elements.
pub fn add_one(count: i32) -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", DType::Int32, &[count]);
    w.constant("one", DType::Int32, &[1], &1_i32.to_le_bytes());
    w.op("ADD", Attribute::None, &["x", "one"], "sum", DType::Int32, &[count]);
    w.output("sum");
    w.finish()
}

/// Counts `from` down to 0 in steps of `step`, and adds `x` to `sum` each time: `sum` at the end. From 1 with a step of 0
/// it never ends.
pub fn countdown(from: i32, step: i32) -> Vec<u8> {
    let inputs = [("i", [1].as_slice()), ("x", &[3]), ("sum", &[3])];
    let block = || {
        let mut w = Writer::new();
        inputs.iter().for_each(|(name, shape)| w.input(name, DType::Int32, shape));
        w
    };
    let mut test = block();
    test.constant("zero", DType::Int32, &[1], &0_i32.to_le_bytes());
    test.op("GREATER", Attribute::None, &["i", "zero"], "more", DType::Bool, &[1]);
    test.output("more");
    let mut body = block();
    body.constant("step", DType::Int32, &[1], &step.to_le_bytes());
    body.op("SUB", Attribute::None, &["i", "step"], "less", DType::Int32, &[1]);
    body.op("ADD", Attribute::None, &["sum", "x"], "total", DType::Int32, &[3]);
    body.outputs = ["less", "x", "total"].map(String::from).into();
    let mut w = Writer::new();
    w.input("x", DType::Int32, &[3]);
    w.input("sum", DType::Int32, &[3]);
    w.constant("from", DType::Int32, &[1], &from.to_le_bytes());
    w.tensor("i'", DType::Int32, &[1]);
    w.tensor("x'", DType::Int32, &[3]);
    w.tensor("sum'", DType::Int32, &[3]);
    let graphs = Attribute::Graphs { first: "test".into(), second: "body".into() };
    w.raw("WHILE_LOOP", graphs, &["from", "x", "sum"], &["i'", "x'", "sum'"]);
    w.output("sum'");
    w.regions = vec![("test".into(), test), ("body".into(), body)];
    w.finish()
}

/// Adds a constant of `count` INT32 elements: `index * 2 % 1009` at each index.
pub fn add_constant(count: i32) -> Vec<u8> {
    let mut w = Writer::new();
    let weights: Vec<u8> = (0..count).flat_map(|index| (index * 2 % 1009).to_le_bytes()).collect();
    w.input("x", DType::Int32, &[count]);
    w.constant("weights", DType::Int32, &[count], &weights);
    w.op("ADD", Attribute::None, &["x", "weights"], "sum", DType::Int32, &[count]);
    w.output("sum");
    w.finish()
}

/// A network as mobile ones begin: a strided convolution, three blocks of depthwise and pointwise convolutions
/// with a residual ADD, then two more convolutions; every one but a block's last is clamped to 0..6. The input is
/// 1 x side x side x 3.
///
/// # Errors
/// A type that tests do not know.
pub fn convnet(dtype: DType, side: usize) -> Result<Vec<u8>> {
    let mut net = Convnet { w: Writer::new(), dtype, last: "x".into(), shape: [1, side, side, 3], count: 0 };
    net.w.input("x", dtype, &dimensions(&net.shape));
    net.w.constant(
        "zero",
        dtype,
        &[1],
        &Tensor::from_f64(Element::of_tosa(dtype.name())?, &[1], [0.0]).bytes,
    );
    net.convolve(3, 32, 2)?;
    net.clamp()?;
    for _ in 0..3 {
        let residual = net.last.clone();
        net.depthwise()?;
        net.clamp()?;
        net.convolve(1, 32, 1)?;
        net.operator("ADD", Attribute::None, &[&net.last.clone(), &residual]);
    }
    net.convolve(3, 64, 2)?;
    net.clamp()?;
    net.convolve(3, 64, 1)?;
    net.clamp()?;
    net.w.output(&net.last);
    Ok(net.w.finish())
}

fn dimensions(shape: &[usize]) -> Vec<i32> {
    shape.iter().map(|&extent| extent as i32).collect()
}

struct Convnet {
    w: Writer,
    dtype: DType,
    /// Name and shape of what was computed last.
    last: String,
    shape: [usize; 4],
    count: u64,
}

impl Convnet {
    fn operator(&mut self, name: &str, attribute: Attribute, operands: &[&str]) {
        self.count += 1;
        let output = format!("{name} {}", self.count);
        self.w.op(name, attribute, operands, &output, self.dtype, &dimensions(&self.shape));
        self.last = output;
    }

    fn weights(&mut self, name: &str, shape: &[usize], scale: f64) -> Result<String> {
        let name = format!("{name} {}", self.count);
        let data = tensor(self.count * 1000 + shape.len() as u64, self.dtype, shape, scale)?;
        self.w.constant(&name, self.dtype, &dimensions(shape), &data.bytes);
        Ok(name)
    }

    fn convolve(&mut self, kernel: usize, channels: usize, stride: usize) -> Result<()> {
        let depth = self.shape[3];
        let scale = (3.0 / (kernel * kernel * depth) as f64).sqrt();
        let weight = self.weights("weight", &[channels, kernel, kernel, depth], scale)?;
        let bias = self.weights("bias", &[channels], 0.1)?;
        self.shape = [1, self.shape[1] / stride, self.shape[2] / stride, channels];
        let (before, after) = if stride == 1 { (kernel / 2, kernel / 2) } else { (0, kernel / 2) };
        let attribute = self.window([before, after, before, after], stride);
        let input = self.last.clone();
        self.operator("CONV2D", attribute, &[&input, &weight, &bias, "zero", "zero"]);
        Ok(())
    }

    fn depthwise(&mut self) -> Result<()> {
        let channels = self.shape[3];
        let weight = self.weights("weight", &[3, 3, channels, 1], 0.5)?;
        let bias = self.weights("bias", &[channels], 0.1)?;
        let attribute = self.window([1; 4], 1);
        let input = self.last.clone();
        self.operator("DEPTHWISE_CONV2D", attribute, &[&input, &weight, &bias, "zero", "zero"]);
        Ok(())
    }

    fn window(&self, pad: [usize; 4], stride: usize) -> Attribute {
        Attribute::Conv {
            pad: dimensions(&pad),
            stride: vec![stride as i32; 2],
            dilation: vec![1, 1],
            acc_type: DType::Fp32,
        }
    }

    fn clamp(&mut self) -> Result<()> {
        let element = Element::of_tosa(self.dtype.name())?;
        let bound = |value| Tensor::from_f64(element, &[1], [value]).bytes;
        let attribute = Attribute::Clamp { min: bound(0.0), max: bound(6.0), nan_mode: 1 };
        let input = self.last.clone();
        self.operator("CLAMP", attribute, &[&input]);
        Ok(())
    }
}
