//! INT64 against the host's arithmetic: broadcasts, tails of narrower results, reductions.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_tosa::DType::{self, Bool, Int32, Int64};
use accel_tosa::writer::{Attribute, Writer};
use common::{noise, run};

/// Numbers of every size, some of them equal.
fn values(seed: u32, count: usize) -> Vec<i64> {
    let words = noise(seed, 2 * count);
    words.chunks(2).map(|pair| (i64::from(pair[0]) << 32 | i64::from(pair[1])) >> (pair[0] % 64)).collect()
}

/// The operator on `[3, 1, 5]` and `[3, 7, 1]`.
fn pair(name: &str, attribute: Attribute, to: DType, a: &[i64], b: &[i64]) -> Option<Vec<u8>> {
    let mut w = Writer::new();
    w.version = [1, 1, 0];
    w.input("a", Int64, &[3, 1, 5]);
    w.input("b", Int64, &[3, 7, 1]);
    let mut operands = vec!["a", "b"];
    if name == "MUL" {
        w.constant("shift", DType::Int8, &[1], &[0]);
        operands.push("shift");
    }
    w.op(name, attribute, &operands, "y", to, &[3, 7, 5]);
    w.output("y");
    Some(run(&w, &[&bytes!(a), &bytes!(b)])?.remove(0))
}

fn expected<T>(a: &[i64], b: &[i64], f: impl Fn(i64, i64) -> T) -> Vec<T> {
    (0..3 * 7 * 5).map(|at| f(a[at / 35 * 5 + at % 5], b[at / 5])).collect()
}

#[test]
fn pairs_of_numbers() {
    let (a, b) = (values(1, 15), values(2, 21));
    let small: Vec<i64> = b.iter().map(|x| x & 63).collect();
    let odd: Vec<i64> = b.iter().map(|x| x | 1).collect();
    type Case<'a> = (&'a str, Attribute, &'a [i64], fn(i64, i64) -> i64);
    let cases: [Case<'_>; 9] = [
        ("ADD", Attribute::None, &b, i64::wrapping_add),
        ("SUB", Attribute::None, &b, i64::wrapping_sub),
        ("MUL", Attribute::None, &b, i64::wrapping_mul),
        ("MAXIMUM", Attribute::Mode(1), &b, i64::max),
        ("INTDIV", Attribute::None, &odd, i64::wrapping_div),
        ("BITWISE_XOR", Attribute::None, &b, |a, b| a ^ b),
        ("LOGICAL_LEFT_SHIFT", Attribute::None, &small, |a, b| a << b),
        ("LOGICAL_RIGHT_SHIFT", Attribute::None, &small, |a, b| (a as u64 >> b) as i64),
        ("ARITHMETIC_RIGHT_SHIFT", Attribute::Round(true), &small, |a, b| {
            (a >> b) + if b > 0 { a >> (b - 1) & 1 } else { 0 }
        }),
    ];
    for (name, attribute, b, f) in cases {
        let Some(y) = pair(name, attribute, Int64, &a, b) else { return };
        assert_eq!(numbers!(i64, y), expected(&a, b, f), "{name}");
    }
    let near: Vec<i64> =
        b.iter().enumerate().map(|(at, &x)| if at % 2 == 0 { a[at / 7 * 5] } else { x }).collect();
    type Test = fn(i64, i64) -> bool;
    let tests: [(&str, Test); 2] = [("EQUAL", |a, b| a == b), ("GREATER", |a, b| a > b)];
    for (name, f) in tests {
        let y = pair(name, Attribute::None, Bool, &a, &near).unwrap();
        assert_eq!(y, expected(&a, &near, |a, b| u8::from(f(a, b))), "{name}");
    }
}

#[test]
fn single_numbers_and_casts() {
    let x = [values(3, 9), vec![0, 1, -1, i64::MAX, i64::MIN + 1]].concat();
    let one = |name: &str, from: DType, to: DType, data: &[u8]| {
        let mut w = Writer::new();
        w.version = [1, 1, 0];
        w.input("x", from, &[14]);
        w.op(name, Attribute::None, &["x"], "y", to, &[14]);
        w.output("y");
        Some(run(&w, &[data])?.remove(0))
    };
    let wide = bytes!(x);
    let Some(y) = one("ABS", Int64, Int64, &wide) else { return };
    assert_eq!(numbers!(i64, y), x.iter().map(|x| x.abs()).collect::<Vec<_>>());
    let y = one("CLZ", Int64, Int64, &wide).unwrap();
    assert_eq!(numbers!(i64, y), x.iter().map(|x| i64::from(x.leading_zeros())).collect::<Vec<_>>());
    assert_eq!(
        one("CAST", Int64, Bool, &wide).unwrap(),
        x.iter().map(|&x| u8::from(x != 0)).collect::<Vec<_>>()
    );
    let narrow = one("CAST", Int64, Int32, &wide).unwrap();
    assert_eq!(numbers!(i32, narrow), x.iter().map(|&x| x as i32).collect::<Vec<_>>());
    let y = one("CAST", Int32, Int64, &narrow).unwrap();
    assert_eq!(numbers!(i64, y), x.iter().map(|&x| i64::from(x as i32)).collect::<Vec<_>>());
}

#[test]
fn reductions() {
    let x = values(4, 2 * 9 * 3);
    type Case<'a> = (&'a str, fn(i64, i64) -> i64);
    let cases: [Case<'_>; 3] =
        [("REDUCE_SUM", i64::wrapping_add), ("REDUCE_MAX", i64::max), ("REDUCE_MIN", i64::min)];
    for (name, f) in cases {
        let mut w = Writer::new();
        w.version = [1, 1, 0];
        w.input("x", Int64, &[2, 9, 3]);
        w.op(name, Attribute::Axis { axis: 1, nan_mode: 1 }, &["x"], "y", Int64, &[2, 1, 3]);
        w.output("y");
        let Some(y) = run(&w, &[&bytes!(x)]) else { return };
        let column = |at: usize| (0..9).map(move |i| at / 3 * 27 + i * 3 + at % 3);
        let expected: Vec<i64> = (0..6).map(|at| column(at).map(|i| x[i]).reduce(f).unwrap()).collect();
        assert_eq!(numbers!(i64, y[0]), expected, "{name}");
    }
}

#[test]
fn places_of_the_largest() {
    let x = values(5, 2 * 9 * 3);
    let narrow: Vec<i8> = x.iter().map(|&x| x as i8).collect();
    let place = |x: &[i64], at: usize| {
        let column: Vec<i64> = (0..9).map(|i| x[at / 3 * 27 + i * 3 + at % 3]).collect();
        // The first of equals.
        (0..9).rev().max_by_key(|&i| column[i]).unwrap() as i64
    };
    let wide: Vec<i64> = narrow.iter().map(|&x| x.into()).collect();
    for (dtype, data, x) in [(Int64, bytes!(x), &x), (DType::Int8, bytes!(narrow), &wide)] {
        let mut w = Writer::new();
        w.version = [1, 1, 0];
        w.input("x", dtype, &[2, 9, 3]);
        w.op("ARGMAX", Attribute::Axis { axis: 1, nan_mode: 1 }, &["x"], "y", Int64, &[2, 3]);
        w.output("y");
        let Some(y) = run(&w, &[&data]) else { return };
        assert_eq!(numbers!(i64, y[0]), (0..6).map(|at| place(x, at)).collect::<Vec<_>>(), "{dtype}");
    }
}
