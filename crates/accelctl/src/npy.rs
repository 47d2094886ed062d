//! NumPy's `.npy` files as a header and raw bytes.
//!
//! The crate `ndarray-npy` maps element types of Rust and refuses the void types in which TOSA's tools keep BF16
//! and FP8 (`<V2`, `<V1`). Here all types take one path, and [`crate::tensor`] gives the bytes their meaning.

use std::path::Path;

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array in C order, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Npy {
    /// NumPy's type without its byte order, such as `f4`, `i1`, `V2`.
    pub kind: String,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Elements.
    pub data: Vec<u8>,
}

impl Npy {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no array that this tool understands.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::File {
            what: "read the array",
            path: path.into(),
            source,
        })?;
        Self::parse(&bytes).map_err(|what| Error::Content { path: path.into(), what })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.encode()).map_err(|source| Error::File {
            what: "write the array",
            path: path.into(),
            source,
        })
    }

    /// Reads the bytes of a file; the error is a sentence.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is no .npy file; save it with numpy.save")?;
        let short = "the file ends within its header";
        // Version 1 has a 16-bit header length, versions 2 and 3 a 32-bit one.
        let (length, rest) = match rest {
            [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
            [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
            [1..=3, ..] | [] => return Err(short.into()),
            [version, ..] => {
                return Err(format!("it has version {version} of the .npy format, and 1 to 3 are known"));
            }
        };
        let (header, data) = rest.split_at_checked(length).ok_or(short)?;
        let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
        let descr = field(header, "descr")?;
        let descr = descr
            .strip_prefix(['\'', '"'])
            .and_then(|text| text.split(['\'', '"']).next())
            .ok_or("it has a structured type; save each field as an array of its own")?;
        let kind = match descr.split_at_checked(1) {
            Some(("<" | "|", kind)) => kind,
            Some((">", kind)) if kind.ends_with('1') => kind,
            _ => return Err(format!("its type {descr} is not little-endian; convert it with astype")),
        };
        let shape = shape(field(header, "shape")?).ok_or("its shape cannot be read")?;
        if field(header, "fortran_order")?.starts_with("True")
            && shape.iter().filter(|&&d| d != 1).count() > 1
        {
            return Err("it is in Fortran order; save numpy.ascontiguousarray of it".into());
        }
        let size: u64 = kind
            .get(1..)
            .and_then(|size| size.parse().ok())
            .ok_or_else(|| format!("its type {descr} is unknown"))?;
        let wanted = shape.iter().try_fold(size, |bytes, &dimension| bytes.checked_mul(dimension));
        if wanted != Some(data.len() as u64) {
            return Err(format!(
                "its header promises {kind} of shape {shape:?} and {} bytes follow",
                data.len()
            ));
        }
        Ok(Self { kind: kind.into(), shape, data: data.into() })
    }

    /// The bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        // A byte has no order, but TOSA's verifier knows FP8E4M3 by this name only.
        let order = if self.kind.ends_with('1') && self.kind != "V1" { '|' } else { '<' };
        let shape: String = self.shape.iter().map(|dimension| format!("{dimension}, ")).collect();
        // A tuple of one keeps its comma; the others lose the last one.
        let shape = match self.shape.len() {
            1 => shape.trim_end().into(),
            _ => shape.trim_end_matches(", ").to_owned(),
        };
        let mut header =
            format!("{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({shape}), }}", self.kind);
        // Magic, version, length, header and a line feed together are a multiple of 64.
        let unpadded = MAGIC.len() + 4 + header.len() + 1;
        header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
        header.push('\n');
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        // A rank that TOSA allows cannot make a header of 64 KiB.
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(&self.data);
        bytes
    }
}

/// Text behind a key of the header's dictionary.
fn field<'a>(header: &'a str, key: &str) -> std::result::Result<&'a str, String> {
    let at = header.find(&format!("'{key}'")).ok_or_else(|| format!("its header has no {key}"))?;
    let text = &header[at + key.len() + 2..];
    Ok(text.trim_start().strip_prefix(':').unwrap_or(text).trim_start())
}

fn shape(text: &str) -> Option<Vec<u64>> {
    let inside = text.strip_prefix('(')?.split_once(')')?.0;
    inside.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(kind: &str, shape: &[u64], size: usize) -> Npy {
        let elements: u64 = shape.iter().product();
        Npy { kind: kind.into(), shape: shape.into(), data: vec![7; elements as usize * size] }
    }

    #[test]
    fn every_rank_and_type_survives() {
        for (kind, size) in
            [("b1", 1), ("i1", 1), ("u1", 1), ("i8", 8), ("f2", 2), ("V2", 2), ("V1", 1), ("f8", 8)]
        {
            for shape in [&[][..], &[5], &[2, 3], &[1, 2, 3, 4, 5, 6], &[0]] {
                let before = array(kind, shape, size);
                let bytes = before.encode();
                assert_eq!((bytes.len() - before.data.len()) % 64, 0);
                assert_eq!(Npy::parse(&bytes).unwrap(), before);
            }
        }
    }

    #[test]
    fn the_header_is_what_numpy_writes() {
        let bytes = array("f4", &[3], 4).encode();
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(&bytes[10..10 + text.len()], text.as_bytes());
        assert_eq!(bytes[127], b'\n');
        for (kind, descr) in [("u1", "'|u1'"), ("V1", "'<V1'")] {
            let bytes = array(kind, &[3], 1).encode();
            assert!(String::from_utf8_lossy(&bytes).contains(descr));
        }
    }

    fn with_header(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn other_writers_headers_are_read() {
        let header = "{\"x\": 0, 'shape':(2,2), 'fortran_order':False, 'descr':'<V2'}\n";
        let array = Npy::parse(&with_header(2, header, &[0; 8])).unwrap();
        assert_eq!((array.kind.as_str(), &array.shape[..]), ("V2", &[2, 2][..]));
        // One dimension has no order.
        let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (1, 4), }";
        assert!(Npy::parse(&with_header(3, header, &[0; 4])).is_ok());
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_mend() {
        let cases = [
            (b"PK\x03\x04".to_vec(), "numpy.save"),
            (MAGIC.to_vec(), "within its header"),
            (with_header(9, "", &[]), "version 9"),
            (with_header(1, "{'descr': '<f4', 'fortran_order': False}", &[]), "no shape"),
            (with_header(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", &[0; 4]), "astype"),
            (
                with_header(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", &[0; 4]),
                "structured",
            ),
            (
                with_header(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", &[0; 16]),
                "ascontiguous",
            ),
            (
                with_header(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", &[0; 4]),
                "4 bytes follow",
            ),
            (
                with_header(
                    1,
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999, 9)}",
                    &[],
                ),
                "0 bytes follow",
            ),
        ];
        for (bytes, part) in cases {
            let error = Npy::parse(&bytes).unwrap_err();
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
}
