//! Tensors and the .npy files that hold them, with the conventions of tosa-tools for types that NumPy lacks.

use std::path::Path;

use half::{bf16, f16};

use crate::Result;

/// Element types that tests compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// One byte, 0 or 1.
    Bool,
    /// Signed byte.
    I8,
    /// Signed 16-bit.
    I16,
    /// Signed 32-bit.
    I32,
    /// Signed 64-bit.
    I64,
    /// IEEE binary16.
    F16,
    /// bfloat16, which .npy files call a two-byte void.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64, of references only.
    F64,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 => 1,
            Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether results of this type are rounded.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// By TOSA's name.
    ///
    /// # Errors
    /// A type that tests do not know.
    pub fn of_tosa(name: &str) -> Result<Self> {
        Ok(match name {
            "BOOL" => Self::Bool,
            "INT8" => Self::I8,
            "INT16" => Self::I16,
            "INT32" => Self::I32,
            "FP16" => Self::F16,
            "BF16" => Self::Bf16,
            "FP32" => Self::F32,
            other => return Err(format!("tests do not know the type {other}").into()),
        })
    }

    fn of_npy(name: &str) -> Result<Self> {
        Ok(match name.trim_start_matches(['<', '|', '=']) {
            "b1" => Self::Bool,
            "i1" => Self::I8,
            "i2" => Self::I16,
            "i4" => Self::I32,
            "i8" => Self::I64,
            "f2" => Self::F16,
            "V2" => Self::Bf16,
            "f4" => Self::F32,
            "f8" => Self::F64,
            other => return Err(format!("tests do not know the .npy type {other}").into()),
        })
    }
}

/// A tensor in row-major order, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Of numbers, each rounded to the element type (floats to nearest even; integers must fit).
    pub fn from_f64(element: Element, shape: &[usize], values: impl IntoIterator<Item = f64>) -> Self {
        let mut bytes = Vec::new();
        for value in values {
            match element {
                Element::Bool => bytes.push(u8::from(value != 0.0)),
                Element::I8 => bytes.extend((value as i8).to_le_bytes()),
                Element::I16 => bytes.extend((value as i16).to_le_bytes()),
                Element::I32 => bytes.extend((value as i32).to_le_bytes()),
                Element::I64 => bytes.extend((value as i64).to_le_bytes()),
                Element::F16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
                Element::Bf16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
                Element::F32 => bytes.extend((value as f32).to_le_bytes()),
                Element::F64 => bytes.extend(value.to_le_bytes()),
            }
        }
        Self { element, shape: shape.to_vec(), bytes }
    }

    /// Every element as a number; exact but for 64-bit integers beyond 2^53.
    pub fn to_f64(&self) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|&chunk| number(chunk)).collect()
        }
        let bytes = &self.bytes;
        match self.element {
            Element::Bool => each(bytes, |[byte]| f64::from(byte)),
            Element::I8 => each(bytes, |raw| i8::from_le_bytes(raw).into()),
            Element::I16 => each(bytes, |raw| i16::from_le_bytes(raw).into()),
            Element::I32 => each(bytes, |raw| i32::from_le_bytes(raw).into()),
            Element::I64 => each(bytes, |raw| i64::from_le_bytes(raw) as f64),
            Element::F16 => each(bytes, |raw| f16::from_le_bytes(raw).into()),
            Element::Bf16 => each(bytes, |raw| bf16::from_le_bytes(raw).into()),
            Element::F32 => each(bytes, |raw| f32::from_le_bytes(raw).into()),
            Element::F64 => each(bytes, f64::from_le_bytes),
        }
    }

    /// Reads a .npy file.
    ///
    /// # Errors
    /// It cannot be read, or is no .npy file of a known type in C order.
    pub fn load(path: &Path) -> Result<Self> {
        let file = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        parse(&file).map_err(|error| format!("{}: {error}", path.display()).into())
    }
}

/// Version 1.0 of the format: magic, version, header length, a Python dictionary, the elements.
fn parse(file: &[u8]) -> Result<Tensor> {
    let rest = file.strip_prefix(b"\x93NUMPY\x01\x00").ok_or("this is no .npy file of version 1.0")?;
    let (length, rest) = rest.split_first_chunk().ok_or("the file ends early")?;
    let (header, bytes) =
        rest.split_at_checked(u16::from_le_bytes(*length).into()).ok_or("the file ends early")?;
    let header = std::str::from_utf8(header)?;
    if header.contains("'fortran_order': True") {
        return Err("column-major arrays are not read".into());
    }
    let after = |key: &str, open: char, close: char| {
        let value = &header[header.find(key)? + key.len()..];
        let value = &value[value.find(open)? + 1..];
        Some(&value[..value.find(close)?])
    };
    let element = Element::of_npy(after("'descr':", '\'', '\'').ok_or("the header lacks descr")?)?;
    let shape = after("'shape':", '(', ')').ok_or("the header lacks shape")?;
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    if shape.iter().product::<usize>() * element.bytes() != bytes.len() {
        return Err(format!("{} bytes do not hold the shape {shape:?} of {element:?}", bytes.len()).into());
    }
    Ok(Tensor { element, shape, bytes: bytes.to_vec() })
}
