//! Data movement against index arithmetic: every element size, odd extents, operands that share words.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_tosa::DType::{self, Fp16, Fp32, Int8, Int16, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run_both as run};

/// Types of each element size.
const TYPES: [DType; 3] = [Int8, Fp16, Int32];

fn ints(shape: &[usize]) -> Vec<i32> {
    shape.iter().map(|&extent| extent as i32).collect()
}

fn longs(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| extent as i64).collect()
}

fn data(seed: u32, dtype: DType, shape: &[usize]) -> Vec<u8> {
    let count = shape.iter().product::<usize>() * dtype.bytes().unwrap();
    noise(seed, count).iter().map(|&x| (x >> 24) as u8).collect()
}

/// The coordinates of a shape in order.
fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product()).map(move |mut at: usize| {
        let mut coordinate = vec![0; shape.len()];
        for (c, extent) in coordinate.iter_mut().zip(shape).rev() {
            *c = at % extent;
            at /= extent;
        }
        coordinate
    })
}

/// The elements of `source` at the coordinates that `place` names; where it names none, `fill`.
fn gather(
    source: &[u8],
    dtype: DType,
    from: &[usize],
    to: &[usize],
    fill: &[u8],
    place: impl Fn(&[usize]) -> Option<Vec<usize>>,
) -> Vec<u8> {
    let size = dtype.bytes().unwrap();
    let mut result = Vec::new();
    for coordinate in coordinates(to) {
        result.extend(match place(&coordinate) {
            Some(place) => {
                let at = place.iter().zip(from).fold(0, |at, (c, extent)| at * extent + c);
                &source[at * size..(at + 1) * size]
            }
            None => fill,
        });
    }
    result
}

/// One operator on `x`, whose shape operands `w` already has.
fn check(
    mut w: Writer,
    (name, attribute): (&str, Attribute),
    operands: &[&str],
    dtype: DType,
    [from, to]: [&[usize]; 2],
    fill: &[u8],
    place: impl Fn(&[usize]) -> Option<Vec<usize>>,
) {
    w.input("x", dtype, &ints(from));
    let operands: Vec<&str> = std::iter::once("x").chain(operands.iter().copied()).collect();
    w.op(name, attribute, &operands, "y", dtype, &ints(to));
    w.output("y");
    let x = data(1, dtype, from);
    let Some(y) = run(&w, &[&x]) else { return };
    assert!(y[0] == gather(&x, dtype, from, to, fill, place), "{name} of {dtype} from {from:?} to {to:?}");
}

#[test]
fn transpose_moves_every_element() {
    let cases: [(&[usize], &[usize]); 13] = [
        (&[1, 1], &[1, 0]),
        (&[5, 3], &[1, 0]),
        (&[67, 45], &[1, 0]),
        (&[64, 96], &[1, 0]),
        (&[136, 260], &[1, 0]),
        (&[2, 10, 130, 9], &[0, 1, 3, 2]),
        (&[2, 40, 33, 4], &[0, 2, 1, 3]),
        (&[2, 11, 9, 35], &[0, 3, 1, 2]),
        (&[3, 8, 16, 12], &[3, 1, 0, 2]),
        (&[2, 3, 1, 4, 2, 17], &[5, 3, 1, 0, 2, 4]),
        // Whole vectors of every type: several tiles with a part of one at either edge, few rows, slices.
        (&[144, 304], &[1, 0]),
        (&[3, 16, 272], &[0, 2, 1]),
        (&[2, 48, 3, 32], &[3, 2, 0, 1]),
    ];
    for (from, perms) in cases {
        let to: Vec<usize> = perms.iter().map(|&p| from[p]).collect();
        for dtype in TYPES {
            let attribute = Attribute::Transpose(ints(perms));
            check(Writer::new(), ("TRANSPOSE", attribute), &[], dtype, [from, &to], &[], |c| {
                let mut place = vec![0; c.len()];
                perms.iter().zip(c).for_each(|(&p, &c)| place[p] = c);
                Some(place)
            });
        }
    }
}

#[test]
fn slices_pads_tiles_and_reversals_of_every_element_size() {
    for dtype in TYPES {
        let size = dtype.bytes().unwrap();
        let from: &[usize] = &[3, 5, 7, 4];
        for (start, to) in
            [([0, 1, 2, 0], [3, 3, 5, 4]), ([1, 2, 0, 3], [1, 3, 7, 1]), ([2, 0, 0, 0], [1, 5, 7, 4])]
        {
            let mut w = Writer::new();
            w.shape("start", &longs(&start));
            w.shape("size", &longs(&to));
            check(w, ("SLICE", Attribute::None), &["start", "size"], dtype, [from, &to], &[], |c| {
                Some(c.iter().zip(start).map(|(c, s)| c + s).collect())
            });
        }
        for pads in [[0, 0, 1, 2, 0, 3, 0, 0], [1, 0, 0, 0, 2, 1, 3, 0], [0; 8]] {
            let to: Vec<usize> = from.iter().zip(pads.chunks(2)).map(|(d, p)| d + p[0] + p[1]).collect();
            let value = &[0x81, 0x42, 0x24, 0x18][..size];
            let mut w = Writer::new();
            w.shape("pads", &longs(&pads));
            w.constant("value", dtype, &[1], value);
            check(w, ("PAD", Attribute::None), &["pads", "value"], dtype, [from, &to], value, |c| {
                let inside =
                    |((c, d), p): ((&usize, &usize), &[usize])| c.checked_sub(p[0]).filter(|c| c < d);
                c.iter().zip(from).zip(pads.chunks(2)).map(inside).collect()
            });
        }
        for times in [[1, 1, 1, 3], [2, 1, 3, 1], [1, 2, 1, 1]] {
            let to: Vec<usize> = from.iter().zip(times).map(|(d, t)| d * t).collect();
            let mut w = Writer::new();
            w.shape("times", &longs(&times));
            check(w, ("TILE", Attribute::None), &["times"], dtype, [from, &to], &[], |c| {
                Some(c.iter().zip(from).map(|(c, d)| c % d).collect())
            });
        }
        for axis in 0..4 {
            let attribute = Attribute::Axis { axis: axis as i32, nan_mode: 0 };
            check(Writer::new(), ("REVERSE", attribute), &[], dtype, [from, from], &[], |c| {
                let mut place = c.to_vec();
                place[axis] = from[axis] - 1 - c[axis];
                Some(place)
            });
        }
    }
}

#[test]
fn operands_of_a_concatenation_share_words() {
    // More than one launch takes; extents that are no multiple of a word, so that words have several owners.
    for (rows, extents, inner) in [
        (5, vec![1, 2, 3], 1),
        (3, vec![4, 8], 2),
        (1, vec![3, 1, 2], 7),
        (4, (1..=21).map(|i| i % 3 + 1).collect::<Vec<usize>>(), 1),
        (2, vec![1; 64], 1),
    ] {
        for dtype in [Int8, Int16, Fp32] {
            let mut w = Writer::new();
            let names: Vec<String> = (0..extents.len()).map(|i| format!("x{i}")).collect();
            let mut inputs = Vec::new();
            for (i, (name, &extent)) in names.iter().zip(&extents).enumerate() {
                w.input(name, dtype, &ints(&[rows, extent, inner]));
                inputs.push(data(i as u32, dtype, &[rows, extent, inner]));
            }
            let operands: Vec<&str> = names.iter().map(String::as_str).collect();
            let total = extents.iter().sum::<usize>();
            let attribute = Attribute::Axis { axis: 1, nan_mode: 0 };
            w.op("CONCAT", attribute, &operands, "y", dtype, &ints(&[rows, total, inner]));
            w.output("y");
            let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let Some(y) = run(&w, &slices) else { return };
            let run = |row: usize, i: usize| {
                let bytes = extents[i] * inner * dtype.bytes().unwrap();
                &inputs[i][row * bytes..(row + 1) * bytes]
            };
            let expected: Vec<u8> = (0..rows)
                .flat_map(|row| (0..extents.len()).map(move |i| (row, i)))
                .flat_map(|(row, i)| run(row, i).to_vec())
                .collect();
            assert!(y[0] == expected, "{dtype} {rows} rows of {extents:?} x {inner}");
        }
    }
}

#[test]
fn rows_are_gathered_and_scattered_and_indices_never_leave_the_values() {
    for dtype in TYPES {
        for columns in [1, 3, 8] {
            let (values, rows) = ([2, 5, columns], 2 * 4);
            let x = data(2, dtype, &values);
            let row = columns * dtype.bytes().unwrap();
            let mut w = Writer::new();
            w.input("x", dtype, &ints(&values));
            w.input("at", Int32, &[2, 4]);
            w.op("GATHER", Attribute::None, &["x", "at"], "y", dtype, &ints(&[2, 4, columns]));
            w.output("y");
            let at = [4, 0, 1, 1, i32::MIN, 5, i32::MAX, 2];
            let Some(y) = run(&w, &[&x, &bytes!(at)]) else { return };
            for i in 0..rows {
                let from = i / 4 * 5 + at[i].clamp(0, 4) as usize;
                assert_eq!(y[0][i * row..(i + 1) * row], x[from * row..(from + 1) * row], "{dtype} row {i}");
            }

            let mut w = Writer::new();
            w.input("x", dtype, &ints(&values));
            w.input("at", Int32, &[2, 4]);
            w.input("new", dtype, &ints(&[2, 4, columns]));
            w.op("SCATTER", Attribute::None, &["x", "at", "new"], "y", dtype, &ints(&values));
            w.output("y");
            let new = data(3, dtype, &[2, 4, columns]);
            let at = [4, 0, 2, 1, -1, 5, 3, i32::MIN];
            let y = run(&w, &[&x, &bytes!(at), &new]).unwrap();
            let mut expected = x.clone();
            for (i, &at) in at.iter().enumerate().filter(|(_, at)| (0..5).contains(*at)) {
                let to = i / 4 * 5 + at as usize;
                expected[to * row..(to + 1) * row].copy_from_slice(&new[i * row..(i + 1) * row]);
            }
            assert_eq!(y[0], expected, "{dtype}");
        }
    }
}

#[test]
fn resize_samples_in_exact_integers() {
    // 3 rows to 5 by 2/1, 4 columns to 7 by 2/1: n = 2, d = 1.
    let (from, to) = ([1, 3, 4, 3], [1, 5, 7, 3]);
    let x: Vec<i8> = noise(5, 36).iter().map(|&x| x as i8).collect();
    let graph = |mode: u32, dtype: DType| {
        let mut w = Writer::new();
        w.input("x", Int8, &from);
        w.shape("scale", &[2, 1, 2, 1]);
        w.shape("offset", &[0, 0]);
        w.shape("border", &[0, 0]);
        w.op("RESIZE", Attribute::Mode(mode), &["x", "scale", "offset", "border"], "y", dtype, &to);
        w.output("y");
        w
    };
    let pixel = |y: usize, x_: usize, c: usize| i32::from(x[(y.min(2) * 4 + x_.min(3)) * 3 + c]);
    let Some(nearest) = run(&graph(1, Int8), &[&bytes!(x)]) else { return };
    let bilinear = numbers!(i32, run(&graph(2, Int32), &[&bytes!(x)]).unwrap()[0]);
    for (i, c) in coordinates(&[5, 7, 3]).enumerate() {
        let (y, x_, c) = (c[0], c[1], c[2]);
        assert_eq!(i32::from(nearest[0][i] as i8), pixel(y.div_ceil(2), x_.div_ceil(2), c));
        let (fy, fx) = (y as i32 % 2, x_ as i32 % 2);
        let sum = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(dy, dx)| {
            let part = |d: usize, f: i32| if d == 1 { f } else { 2 - f };
            pixel(y / 2 + dy, x_ / 2 + dx, c) * part(dy, fy) * part(dx, fx)
        });
        assert_eq!(bilinear[i], sum.iter().sum::<i32>());
    }
}

/// FP8 came to RESIZE with TOSA 1.1. The averages of these numbers have few bits, so that every type holds them.
#[test]
fn resize_of_fp8_gives_what_that_of_fp32_does() {
    let numbers: Vec<f32> = noise(6, 36).iter().map(|&x| [0.0, 4.0, 8.0][(x >> 8) as usize % 3]).collect();
    let resized = |dtype: DType, mode: u32, data: &[u8]| {
        let mut w = Writer::new();
        w.version = [1, 1, 0];
        w.input("x", dtype, &[1, 3, 4, 3]);
        w.shape("scale", &[2, 1, 2, 1]);
        w.shape("offset", &[0, 0]);
        w.shape("border", &[0, 0]);
        w.op("RESIZE", Attribute::Mode(mode), &["x", "scale", "offset", "border"], "y", dtype, &[1, 5, 7, 3]);
        w.output("y");
        Some(run(&w, &[data])?.remove(0))
    };
    for mode in [1, 2] {
        let Some(wide) = resized(DType::Fp32, mode, &bytes!(numbers)) else { return };
        for dtype in [DType::Fp8E4M3, DType::Fp8E5M2] {
            // Positive numbers that FP16 shares with both.
            let narrow = |x: &f32| match (half::f16::from_f32(*x).to_bits(), dtype) {
                (0, _) => 0,
                (bits, DType::Fp8E4M3) => ((bits >> 7) - (8 << 3)) as u8,
                (bits, _) => (bits >> 8) as u8,
            };
            let data: Vec<u8> = numbers.iter().map(narrow).collect();
            let wanted: Vec<u8> = numbers!(f32, wide).iter().map(narrow).collect();
            assert_eq!(resized(dtype, mode, &data).unwrap(), wanted, "{dtype} {mode}");
        }
    }
}

#[test]
fn words_of_64_bits_move_in_pairs() {
    let x: Vec<i64> = (0..6).map(|i| (i << 40) - 3 * i).collect();
    let value = -5_i64 << 33;
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.input("x", DType::Int64, &[2, 3]);
    w.shape("padding", &[0, 1, 2, 0]);
    w.constant("value", DType::Int64, &[1], &value.to_le_bytes());
    w.op("PAD", Attribute::None, &["x", "padding", "value"], "p", DType::Int64, &[3, 5]);
    w.op("TRANSPOSE", Attribute::Transpose(vec![1, 0]), &["p"], "t", DType::Int64, &[5, 3]);
    w.op("REVERSE", Attribute::Axis { axis: 0, nan_mode: 0 }, &["t"], "r", DType::Int64, &[5, 3]);
    w.output("r");
    let Some(y) = run(&w, &[&bytes!(x)]) else { return };
    let (a, b) = (&x[..3], &x[3..]);
    let expected =
        [[a[2], b[2], value], [a[1], b[1], value], [a[0], b[0], value], [value; 3], [value; 3]].concat();
    assert_eq!(numbers!(i64, y[0]), expected);
}

#[test]
fn indices_of_64_bits_pick_runs_of_rows_and_stay_inside() {
    let values: Vec<i16> = (0..10).collect();
    let indices = [3_i64, 0, i64::MIN, i64::MAX];
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.input("v", DType::Int16, &[1, 5, 2]);
    w.input("i", DType::Int64, &[1, 4]);
    w.constant("count", DType::Int32, &[1], &2_i32.to_le_bytes());
    w.op("ROW_GATHER", Attribute::None, &["v", "i", "count"], "y", DType::Int16, &[1, 8, 2]);
    w.output("y");
    let Some(y) = run(&w, &[&bytes!(values), &bytes!(indices)]) else { return };
    // Beyond the values the nearest row is read.
    let expected = [6, 7, 8, 9, 0, 1, 2, 3, 0, 1, 0, 1, 8, 9, 8, 9];
    assert_eq!(numbers!(i16, y[0]), expected);
}
