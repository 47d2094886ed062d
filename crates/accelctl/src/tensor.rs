//! Between arrays of NumPy and tensors as a device binds them.

use accel_guest::SlotInfo;
use accel_tosa::DType;
use half::{bf16, f16};

use crate::npy::Npy;

const TYPES: [DType; 18] = [
    DType::Bool,
    DType::Int4,
    DType::Int8,
    DType::Int16,
    DType::Int32,
    DType::Int48,
    DType::Fp32,
    DType::Fp16,
    DType::Bf16,
    DType::Shape,
    DType::Fp8E4M3,
    DType::Fp8E5M2,
    DType::Fp6E2M3,
    DType::Fp6E3M2,
    DType::Fp4E2M1,
    DType::Fp8UE8M0,
    DType::Int64,
    DType::MxInt8,
];

/// A slot with its type understood.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Tensor name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Bytes as bound.
    pub bytes: u64,
    /// Written by the program.
    pub output: bool,
}

impl Slot {
    /// Understands a slot of the device; the error is a sentence.
    pub fn new(slot: SlotInfo) -> Result<Self, String> {
        let dtype = TYPES.into_iter().find(|dtype| dtype.name() == slot.dtype).ok_or_else(|| {
            format!("slot {} has the type {}, which this program does not know", slot.name, slot.dtype)
        })?;
        let shape = slot.shape.into_iter().map(u64::from).collect();
        Ok(Self { name: slot.name, dtype, shape, bytes: slot.bytes, output: slot.output })
    }

    /// `name FP32 [1, 2]`, for messages.
    pub fn describe(&self) -> String {
        format!("{} {} {:?}", self.name, self.dtype, self.shape)
    }

    /// The array's elements as the device binds them; the error is a sentence.
    pub fn to_device(&self, array: &Npy) -> Result<Vec<u8>, String> {
        let kinds = kinds(self.dtype);
        if !kinds.contains(&array.kind.as_str()) {
            let wanted = kinds.join(" or ");
            return Err(format!(
                "input {} takes NumPy type {wanted}, and the array is {}",
                self.describe(),
                array.kind
            ));
        }
        if array.shape != self.npy_shape() {
            return Err(format!(
                "input {} has another shape than the array's {:?}",
                self.describe(),
                array.shape
            ));
        }
        Ok(match self.dtype {
            DType::Int4 => pack_nibbles(&array.data),
            DType::Int48 => array.data.chunks_exact(8).flat_map(|value| &value[..6]).copied().collect(),
            _ => array.data.clone(),
        })
    }

    /// Bytes of the device as an array.
    pub fn to_npy(&self, bytes: &[u8]) -> Npy {
        let data = match self.dtype {
            DType::Int4 => {
                let nibbles = unpack_nibbles(bytes);
                nibbles[..nibbles.len().min(self.elements())].iter().map(|&value| value as u8).collect()
            }
            DType::Int48 => bytes.chunks_exact(6).flat_map(|value| int48(value).to_le_bytes()).collect(),
            _ => bytes.to_vec(),
        };
        Npy { kind: kinds(self.dtype)[0].into(), shape: self.npy_shape(), data }
    }

    /// The array's shape: the tools keep FP6 and FP4 packed, so that the last dimension counts bytes.
    fn npy_shape(&self) -> Vec<u64> {
        let mut shape = self.shape.clone();
        if let (DType::Fp6E2M3 | DType::Fp6E3M2 | DType::Fp4E2M1, Some(last)) = (self.dtype, shape.last_mut())
        {
            *last = (*last * self.dtype.bits() as u64).div_ceil(8);
        }
        shape
    }

    fn elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }
}

/// NumPy types that hold a TOSA type, the one that is written first.
fn kinds(dtype: DType) -> &'static [&'static str] {
    match dtype {
        DType::Bool => &["b1"],
        // Unsigned data of RESCALE has a signed type in TOSA and either in NumPy.
        DType::Int4 | DType::Int8 => &["i1", "u1"],
        DType::Int16 => &["i2", "u2"],
        DType::Int32 => &["i4", "u4"],
        DType::Int48 | DType::Int64 | DType::Shape => &["i8"],
        DType::Fp32 => &["f4"],
        DType::Fp16 => &["f2"],
        DType::Bf16 => &["V2"],
        DType::Fp8E4M3 | DType::Fp8UE8M0 => &["V1", "u1"],
        // MXINT8's bytes, and those that FP6 and FP4 share. No slot has a block-scaled type, whose values and scales have slots each.
        DType::Fp6E2M3 | DType::Fp6E3M2 | DType::Fp4E2M1 | DType::MxInt8 => &["u1"],
        DType::Bs32Fp8E4M3
        | DType::Bs32Fp8E5M2
        | DType::Bs32Fp6E2M3
        | DType::Bs32Fp6E3M2
        | DType::Bs32Fp4E2M1
        | DType::Bs32MxInt8 => &[],
        // `f1` is how ml_dtypes saves this type.
        DType::Fp8E5M2 => &["u1", "V1", "f1"],
    }
}

/// The elements of an array that holds a TOSA type, as numbers.
pub fn values(dtype: DType, array: &Npy) -> Vec<f64> {
    let data = &array.data;
    match array.kind.as_str() {
        "f8" => of(data, f64::from_le_bytes),
        "f4" => of(data, |b| f32::from_le_bytes(b).into()),
        "f2" => of(data, |b| f16::from_le_bytes(b).into()),
        "V2" => of(data, |b| bf16::from_le_bytes(b).into()),
        "i8" => of(data, |b| i64::from_le_bytes(b) as f64),
        "i4" => of(data, |b| i32::from_le_bytes(b).into()),
        "u4" => of(data, |b| u32::from_le_bytes(b).into()),
        "i2" => of(data, |b| i16::from_le_bytes(b).into()),
        "u2" => of(data, |b| u16::from_le_bytes(b).into()),
        "i1" => of(data, |b| i8::from_le_bytes(b).into()),
        _ => match dtype {
            DType::Fp8E4M3 => of(data, |[b]| e4m3(b)),
            // E5M2 is the upper half of binary16.
            DType::Fp8E5M2 => of(data, |[b]| f16::from_bits(u16::from(b) << 8).into()),
            DType::Fp6E2M3 => sextets(data).map(|bits| mini(bits, 6, 3)).collect(),
            DType::Fp6E3M2 => sextets(data).map(|bits| mini(bits, 6, 2)).collect(),
            DType::Fp4E2M1 => data.iter().flat_map(|&b| [mini(b & 15, 4, 1), mini(b >> 4, 4, 1)]).collect(),
            DType::Fp8UE8M0 => {
                of(data, |[b]| if b == 255 { f64::NAN } else { 2f64.powi(i32::from(b) - 127) })
            }
            DType::MxInt8 => of(data, |[b]| f64::from(b as i8) / 64.0),
            _ => of(data, |[b]| b.into()),
        },
    }
}

fn of<const N: usize>(data: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    data.as_chunks().0.iter().map(|&bytes| value(bytes)).collect()
}

/// OCP E4M3: no infinities, NaN is all ones.
fn e4m3(bits: u8) -> f64 {
    if bits & 0x7f == 0x7f { f64::NAN } else { mini(bits, 8, 3) }
}

/// A float of `width` bits, `fraction` of them its fraction, of a format whose codes are all numbers.
fn mini(bits: u8, width: u32, fraction: u32) -> f64 {
    let sign = if bits >> (width - 1) & 1 == 0 { 1.0 } else { -1.0 };
    let magnitude = u32::from(bits) & ((1 << (width - 1)) - 1);
    let bias = (1 << (width - fraction - 2)) - 1;
    let (field, part) = (magnitude >> fraction, magnitude & ((1 << fraction) - 1));
    let count = if field > 0 { part | 1 << fraction } else { part };
    sign * f64::from(count) * 2f64.powi(field.max(1) as i32 - bias - fraction as i32)
}

/// Groups of six bits, the first in the lowest.
fn sextets(data: &[u8]) -> impl Iterator<Item = u8> {
    data.as_chunks().0.iter().flat_map(|&[a, b, c]| {
        let word = u32::from_le_bytes([a, b, c, 0]);
        [0, 6, 12, 18].map(|shift| (word >> shift & 63) as u8)
    })
}

fn int48(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    wide[2..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> 16
}

fn pack_nibbles(values: &[u8]) -> Vec<u8> {
    values.chunks(2).map(|pair| pair[0] & 15 | pair.get(1).unwrap_or(&0) << 4).collect()
}

fn unpack_nibbles(bytes: &[u8]) -> Vec<i8> {
    bytes.iter().flat_map(|&byte| [(byte << 4) as i8 >> 4, byte as i8 >> 4]).collect()
}

/// What people want to know of a tensor at a glance. NaN elements count for none of the three numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Smallest element.
    pub min: f64,
    /// Largest element.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// NaN elements.
    pub nan: usize,
    /// First elements.
    pub first: Vec<f64>,
}

/// Summarises numbers.
pub fn summary(values: &[f64]) -> Summary {
    let numbers = || values.iter().copied().filter(|value| !value.is_nan());
    let count = numbers().count();
    Summary {
        min: numbers().fold(f64::INFINITY, f64::min),
        max: numbers().fold(f64::NEG_INFINITY, f64::max),
        mean: numbers().sum::<f64>() / count.max(1) as f64,
        nan: values.len() - count,
        first: values.iter().copied().take(8).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(dtype: DType, shape: &[u64], bytes: u64) -> Slot {
        Slot { name: "t".into(), dtype, shape: shape.into(), bytes, output: false }
    }

    #[test]
    fn every_type_goes_to_the_device_and_back() {
        for dtype in TYPES {
            let kind = kinds(dtype)[0];
            let size: usize = kind[1..].parse().unwrap();
            // Small positive and negative numbers, as each type's own bytes.
            let packed = [DType::Fp6E2M3, DType::Fp6E3M2, DType::Fp4E2M1].contains(&dtype);
            let count = if packed { 8 } else { 5 };
            let data: Vec<u8> = match dtype {
                DType::Int4 => vec![1, 0xf8, 7, 0xff, 3],
                DType::Int48 => {
                    [5i64, -5, 1 << 46, -(1 << 46), 0].iter().flat_map(|v| v.to_le_bytes()).collect()
                }
                _ if packed => (0..dtype.bits() as u8).collect(),
                _ => (0..5 * size as u8).collect(),
            };
            let bytes = (count * dtype.bits() as u64).div_ceil(8);
            let slot = slot(dtype, &[count], bytes);
            let shape = vec![if packed { bytes } else { count }];
            let array = Npy { kind: kind.into(), shape, data };
            let bound = slot.to_device(&array).unwrap();
            assert_eq!(bound.len() as u64, bytes, "{dtype}");
            assert_eq!(slot.to_npy(&bound), array, "{dtype}");
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused_in_words() {
        let slot = slot(DType::Fp32, &[2, 3], 24);
        let array =
            |kind: &str, shape: &[u64]| Npy { kind: kind.into(), shape: shape.into(), data: vec![0; 24] };
        let error = slot.to_device(&array("f8", &[2, 3])).unwrap_err();
        assert_eq!(error, "input t FP32 [2, 3] takes NumPy type f4, and the array is f8");
        let error = slot.to_device(&array("f4", &[3, 2])).unwrap_err();
        assert_eq!(error, "input t FP32 [2, 3] has another shape than the array's [3, 2]");
        let info = SlotInfo { name: "x".into(), dtype: "FP5".into(), shape: vec![], bytes: 1, output: false };
        assert!(Slot::new(info).unwrap_err().contains("FP5"));
    }

    #[test]
    fn numbers_of_narrow_types_are_right() {
        let one = |dtype, kind: &str, data: &[u8]| {
            values(dtype, &Npy { kind: kind.into(), shape: vec![], data: data.into() })[0]
        };
        assert_eq!(one(DType::Fp8E4M3, "V1", &[0x7e]), 448.0);
        assert_eq!(one(DType::Fp8E4M3, "V1", &[0x81]), -(2f64.powi(-9)));
        assert!(one(DType::Fp8E4M3, "V1", &[0xff]).is_nan());
        assert_eq!(one(DType::Fp8E5M2, "u1", &[0x7c]), f64::INFINITY);
        assert_eq!(one(DType::Fp8E5M2, "u1", &[0x3c]), 1.0);
        assert_eq!(one(DType::Bf16, "V2", &[0x80, 0xbf]), -1.0);
        assert_eq!(one(DType::Fp16, "f2", &[0x00, 0x3c]), 1.0);
        assert_eq!(one(DType::Fp6E2M3, "u1", &[0x1f, 0, 0]), 7.5);
        assert_eq!(one(DType::Fp6E3M2, "u1", &[0x3f, 0, 0]), -28.0);
        assert_eq!(one(DType::Fp6E3M2, "u1", &[1, 0, 0]), 0.0625);
        assert_eq!(one(DType::Fp4E2M1, "u1", &[0x0f]), -6.0);
        assert_eq!(one(DType::Fp8UE8M0, "V1", &[128]), 2.0);
        assert!(one(DType::Fp8UE8M0, "V1", &[255]).is_nan());
        assert_eq!(one(DType::MxInt8, "u1", &[0x81]), -127.0 / 64.0);
        assert_eq!(one(DType::Bool, "b1", &[1]), 1.0);
        assert_eq!(one(DType::Int8, "i1", &[0xff]), -1.0);
    }

    #[test]
    fn a_summary_passes_nan_over() {
        let summary = summary(&[1.0, f64::NAN, -3.0]);
        assert_eq!((summary.min, summary.max, summary.mean, summary.nan), (-3.0, 1.0, -1.0, 1));
    }
}
