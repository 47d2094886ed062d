//! Layers of ResNet-18 and MobileNetV2, each beside the MATMUL of its extents.

use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};

use super::matmul::product;
use crate::case::{Arithmetic, Case};
use crate::graph::{noise, short};

/// A layer: input edge and channels, kernel edge, stride, channels out; 0 of these is a depthwise one.
struct Layer {
    network: &'static str,
    edge: i32,
    channels: i32,
    kernel: i32,
    stride: i32,
    out: i32,
}

const fn layer(network: &'static str, edge: i32, channels: i32, kernel: i32, stride: i32, out: i32) -> Layer {
    Layer { network, edge, channels, kernel, stride, out }
}

const LAYERS: [Layer; 19] = [
    layer("resnet18", 224, 3, 7, 2, 64),
    layer("resnet18", 56, 64, 3, 1, 64),
    layer("resnet18", 56, 64, 3, 2, 128),
    layer("resnet18", 28, 64, 1, 1, 128),
    layer("resnet18", 28, 128, 3, 1, 128),
    layer("resnet18", 28, 128, 3, 2, 256),
    layer("resnet18", 14, 256, 3, 1, 256),
    layer("resnet18", 7, 512, 3, 1, 512),
    layer("mobilenetv2", 224, 3, 3, 2, 32),
    layer("mobilenetv2", 112, 96, 3, 2, 0),
    layer("mobilenetv2", 56, 24, 1, 1, 144),
    layer("mobilenetv2", 56, 144, 3, 1, 0),
    layer("mobilenetv2", 56, 144, 1, 1, 24),
    layer("mobilenetv2", 14, 64, 1, 1, 384),
    layer("mobilenetv2", 14, 384, 3, 1, 0),
    layer("mobilenetv2", 14, 384, 1, 1, 96),
    layer("mobilenetv2", 7, 960, 3, 1, 0),
    layer("mobilenetv2", 7, 160, 1, 1, 960),
    layer("mobilenetv2", 7, 320, 1, 1, 1280),
];

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for batch in [1, 32] {
        for dtype in [Fp16, Int8] {
            cases.extend(LAYERS.iter().map(|layer| layer.case(batch, dtype)));
        }
    }
    cases
}

impl Layer {
    fn name(&self, batch: i32, dtype: DType) -> String {
        let Self { network, edge, channels, kernel, stride, out } = self;
        let out = if *out == 0 { "depthwise".to_owned() } else { out.to_string() };
        format!(
            "{network}/{}/{batch}x{edge}x{edge}x{channels}-{kernel}x{kernel}s{stride}-{out}",
            short(dtype)
        )
    }

    fn out_edge(&self) -> i32 {
        self.edge / self.stride
    }

    /// Batch, rows, depth and columns of the product that the layer is.
    fn extents(&self, batch: i32) -> [i32; 4] {
        [
            1,
            batch * self.out_edge() * self.out_edge(),
            self.kernel * self.kernel * self.channels,
            self.out.max(1),
        ]
    }

    fn case(&'static self, batch: i32, dtype: DType) -> Case {
        let operations = 2 * self.extents(batch).iter().map(|&extent| extent as u64).product::<u64>();
        let arithmetic = match (self.out, dtype) {
            // Depthwise layers have nothing to multiply as matrices.
            (0, _) => Arithmetic::F32,
            (_, Int8) => Arithmetic::I8,
            _ => Arithmetic::F16,
        };
        let name = format!("conv/{}", self.name(batch, dtype));
        let case = Case::operations(name, (operations, arithmetic), move || self.graph(batch, dtype));
        if self.out == 0 {
            return case;
        }
        let types = if dtype == Int8 { (Int8, Int32) } else { (dtype, dtype) };
        case.beside(product("conv", types, self.extents(batch)))
    }

    fn graph(&self, batch: i32, dtype: DType) -> Writer {
        let Self { edge, channels, kernel, stride, .. } = *self;
        let (weight, out) = if self.out == 0 {
            ([kernel, kernel, channels, 1], channels)
        } else {
            ([self.out, kernel, kernel, channels], self.out)
        };
        // As much as lets the extents come out even: the stride's rest is padded at the end less.
        let pad = (self.out_edge() - 1) * stride + kernel - edge;
        let (before, after) = (pad / 2, pad - pad / 2);
        let shape = [batch, self.out_edge(), self.out_edge(), out];
        let (sums, accumulator) = if dtype == Int8 { (Int32, Int32) } else { (Fp16, Fp32) };
        let count = weight.iter().product::<i32>() as usize;
        let zeros = [0; 4];
        let zero = |dtype: DType| &zeros[..dtype.bytes().unwrap_or(1)];
        let mut w = Writer::new();
        w.input("x", dtype, &[batch, edge, edge, channels]);
        w.constant("weight", dtype, &weight, &noise(dtype, count));
        w.constant("bias", sums, &[1], zero(sums));
        w.constant("x_zp", dtype, &[1], zero(dtype));
        w.constant("w_zp", dtype, &[1], zero(dtype));
        let attribute = Attribute::Conv {
            pad: vec![before, after, before, after],
            stride: vec![stride; 2],
            dilation: vec![1; 2],
            acc_type: accumulator,
        };
        let name = if self.out == 0 { "DEPTHWISE_CONV2D" } else { "CONV2D" };
        w.op(name, attribute, &["x", "weight", "bias", "x_zp", "w_zp"], "sums", sums, &shape);
        if dtype != Int8 {
            w.output("sums");
            return w;
        }
        // As quantized networks go on.
        w.constant("multiplier", Int32, &[1], &(1_i32 << 30).to_le_bytes());
        w.constant("shift", Int8, &[1], &[40]);
        w.constant("sums_zp", Int32, &[1], zero(Int32));
        w.constant("y_zp", Int8, &[1], &[0]);
        let attribute = Attribute::Rescale {
            scale32: true,
            rounding: 1,
            per_channel: false,
            input_unsigned: false,
            output_unsigned: false,
        };
        w.op("RESCALE", attribute, &["sums", "multiplier", "shift", "sums_zp", "y_zp"], "y", Int8, &shape);
        w.output("y");
        w
    }
}
