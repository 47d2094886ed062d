//! Damaged and hostile files: an error, in bounded time and memory, and never a panic.

use std::time::{Duration, Instant};

use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, Rule, read};

/// A small file with lists, shapes, constants and several attribute tables.
fn sample() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", DType::Int8, &[1, 4, 4, 1]);
    w.constant("w", DType::Int8, &[2, 3, 3, 1], &[1; 18]);
    w.constant("b", DType::Int32, &[2], &[0; 8]);
    w.constant("z", DType::Int8, &[1], &[3]);
    let conv =
        Attribute::Conv { pad: vec![0; 4], stride: vec![1, 1], dilation: vec![1, 1], acc_type: DType::Int32 };
    w.op("CONV2D", conv, &["x", "w", "b", "z", "z"], "c", DType::Int32, &[1, 2, 2, 2]);
    w.shape("s", &[2, 4]);
    w.op("RESHAPE", Attribute::None, &["c", "s"], "r", DType::Int32, &[2, 4]);
    w.op("TRANSPOSE", Attribute::Transpose(vec![1, 0]), &["r"], "y", DType::Int32, &[4, 2]);
    w.output("y");
    w.finish()
}

#[test]
fn every_truncation_is_refused() {
    let file = sample();
    read(&file[..]).expect("the whole file is right");
    for length in 0..file.len() {
        // Only the padding at the end can be missed.
        if let Ok(graph) = read(&file[..length]) {
            assert!(
                file.len() - length < 8,
                "{length} bytes were enough for {} operators",
                graph.nodes.len()
            );
        }
    }
}

#[test]
fn every_bit_flip_is_survived() {
    let mut file = sample();
    let (mut refused, start) = (0, Instant::now());
    for byte in 0..file.len() {
        for bit in 0..8 {
            file[byte] ^= 1 << bit;
            if let Err(refusal) = read(&file[..]) {
                refused += 1;
                assert!(!refusal.message.is_empty());
            }
            file[byte] ^= 1 << bit;
        }
    }
    assert!(refused > file.len(), "only {refused} of {} flips were noticed", 8 * file.len());
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn every_word_replaced_by_extremes_is_survived() {
    let file = sample();
    for at in (0..file.len() - 3).step_by(4) {
        for word in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, u32::MAX - 3, file.len() as u32] {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let _ = read(file);
        }
    }
}

#[test]
fn things_that_are_no_flatbuffer() {
    for bytes in
        [&b""[..], b"TOSA", b"\0\0\0\0TOSA", b"\xff\xff\xff\xffTOSA", &[0; 4096], b"{\"version\": 1}"]
    {
        assert_eq!(read(bytes).unwrap_err().rule, Rule::Malformed);
    }
}

/// A file whose root table is followed by raw words, for shapes that no writer makes.
struct Raw(Vec<u8>);

impl Raw {
    fn word(&mut self, value: u32) -> usize {
        self.0.extend(value.to_le_bytes());
        self.0.len() - 4
    }

    /// Makes the offset at `from` point to the end of the file.
    fn point(&mut self, from: usize) {
        let distance = (self.0.len() - from) as u32;
        self.0[from..from + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Starts a table with `fields` 4-byte fields of the schema (`None` is absent); returns where each one is.
    fn table(&mut self, fields: &[bool]) -> Vec<usize> {
        let vtable = self.0.len();
        let present = fields.iter().filter(|&&field| field).count() as u16;
        let mut vtable_words = vec![4 + 2 * fields.len() as u16, 4 + 4 * present];
        let mut offset = 4;
        for field in fields {
            vtable_words.push(if *field { offset } else { 0 });
            offset += if *field { 4 } else { 0 };
        }
        if vtable_words.len() % 2 == 1 {
            vtable_words.push(0);
        }
        self.0.extend(vtable_words.iter().flat_map(|word| word.to_le_bytes()));
        let table = self.0.len();
        self.word((table - vtable) as u32);
        (0..present).map(|_| self.word(0)).collect()
    }
}

/// A graph of one block whose operator list has `operators` entries that all point to one operator, whose operand
/// list has `operands` entries that all point to one name.
fn shared_offsets(operators: u32, operands: u32) -> Vec<u8> {
    let mut raw = Raw(b"\0\0\0\0TOSA".to_vec());
    // A vtable stands before its table, so the offset at byte 0 is set once the table's place is known.
    let root = raw.table(&[true, true]);
    let at = (root[0] - 4) as u32;
    raw.0[..4].copy_from_slice(&at.to_le_bytes());
    let pointed = |raw: &mut Raw, from: usize, fields: &[bool]| {
        let places = raw.table(fields);
        let table = places.first().map_or(raw.0.len() - 4, |first| first - 4);
        raw.0[from..from + 4].copy_from_slice(&((table - from) as u32).to_le_bytes());
        places
    };
    pointed(&mut raw, root[0], &[]);
    let list_of_one = |raw: &mut Raw, from: usize| {
        raw.point(from);
        raw.word(1);
        raw.word(0)
    };
    let region = list_of_one(&mut raw, root[1]);
    let region = pointed(&mut raw, region, &[false, true]);
    let block = list_of_one(&mut raw, region[0]);
    let block = pointed(&mut raw, block, &[false, true]);
    raw.point(block[0]);
    raw.word(operators);
    let list: Vec<usize> = (0..operators).map(|_| raw.word(0)).collect();
    let operator = pointed(&mut raw, list[0], &[false, false, false, true]);
    let table = operator[0] - 4;
    for entry in list {
        raw.0[entry..entry + 4].copy_from_slice(&((table - entry) as u32).to_le_bytes());
    }
    raw.point(operator[0]);
    raw.word(operands);
    let names: Vec<usize> = (0..operands).map(|_| raw.word(0)).collect();
    for name in names {
        raw.point(name);
    }
    raw.word(1);
    raw.word(u32::from(b'x'));
    raw.0
}

#[test]
fn offsets_that_share_a_target_do_not_multiply_the_work() {
    // Small enough: the reader gets past the verifier to the version stamp, which holds no numbers.
    let refusal = read(shared_offsets(1, 1)).unwrap_err();
    assert!(refusal.message.contains("TOSA -1.-1.-1"), "{refusal}");
    // 160 KB that would expand to 400 million operand names.
    let start = Instant::now();
    let refusal = read(shared_offsets(20_000, 20_000)).unwrap_err();
    assert_eq!(refusal.rule, Rule::Malformed);
    assert!(refusal.message.contains("pparent size"), "{refusal}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn many_names_are_read_in_linear_time() {
    let mut w = Writer::new();
    w.input("x0", DType::Fp32, &[1]);
    for i in 0..20_000 {
        let (from, to) = (format!("x{i}"), format!("x{}", i + 1));
        w.op("ABS", Attribute::None, &[&from], &to, DType::Fp32, &[1]);
    }
    w.output("x20000");
    let file = w.finish();
    let start = Instant::now();
    assert_eq!(read(file).unwrap().nodes.len(), 20_000);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_constant_that_serves_many_operators_is_checked_once() {
    let channels = 1 << 20;
    let mut w = Writer::new();
    w.input("x0", DType::Int32, &[1, channels]);
    w.constant("m", DType::Int32, &[channels], &vec![1; 4 << 20]);
    w.constant("s", DType::Int8, &[channels], &vec![30; 1 << 20]);
    w.constant("z", DType::Int32, &[1], &[0; 4]);
    for i in 0..10_000 {
        let attribute = Attribute::Rescale {
            scale32: true,
            rounding: 1,
            per_channel: true,
            input_unsigned: false,
            output_unsigned: false,
        };
        let (from, to) = (format!("x{i}"), format!("x{}", i + 1));
        w.op("RESCALE", attribute, &[&from, "m", "s", "z", "z"], &to, DType::Int32, &[1, channels]);
    }
    w.output("x10000");
    let file = w.finish();
    let start = Instant::now();
    assert_eq!(read(file).unwrap().nodes.len(), 10_000);
    assert!(start.elapsed() < Duration::from_secs(5));
}
