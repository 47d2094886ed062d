//! COND_IF and WHILE_LOOP: the host decides, the data stays where it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use accel_kernels::DeviceKind::Cpu;
use accel_tosa::DType::{self, Bool, Fp16, Fp32, Int8, Int32};
use accel_tosa::writer::{Attribute, Writer};
use common::{run, submissions};

fn graphs(first: &str, second: &str) -> Attribute {
    Attribute::Graphs { first: first.into(), second: second.into() }
}

type Input<'a> = (&'a str, DType, &'a [i32]);

fn region(inputs: &[Input<'_>]) -> Writer {
    let mut w = Writer::new();
    inputs.iter().for_each(|(name, dtype, shape)| w.input(name, *dtype, shape));
    w
}

fn op(w: &mut Writer, name: &str, inputs: &[&str], output: &str, dtype: DType, shape: &[i32]) {
    let attribute = if name == "MAXIMUM" { Attribute::Mode(1) } else { Attribute::None };
    w.op(name, attribute, inputs, output, dtype, shape);
}

fn integer(w: &mut Writer, name: &str, value: i32) {
    w.constant(name, Int32, &[], &value.to_le_bytes());
}

/// One submission's outputs for each list of inputs; `None` without a device.
fn each(w: &Writer, inputs: &[Vec<Vec<u8>>]) -> Option<Vec<Vec<Vec<u8>>>> {
    let inputs: Vec<Vec<&[u8]>> =
        inputs.iter().map(|list| list.iter().map(Vec::as_slice).collect()).collect();
    let inputs: Vec<&[&[u8]]> = inputs.iter().map(Vec::as_slice).collect();
    submissions(Cpu, w, &inputs)
}

/// `c ? (d ? x + x : 0 - x) : x`, with operators before and behind.
#[test]
fn conditions_nest() {
    let shape: &[i32] = &[5];
    let mut w = region(&[("c", Bool, &[1]), ("d", Bool, &[]), ("x", Fp32, shape)]);
    op(&mut w, "ABS", &["x"], "size", Fp32, shape);
    op(&mut w, "COND_IF", &["c", "d", "size"], "chosen", Fp32, shape);
    w.operators.last_mut().unwrap().attribute = graphs("outer", "same");
    op(&mut w, "ADD", &["chosen", "size"], "y", Fp32, shape);
    w.output("y");
    w.output("chosen");
    let inputs: &[Input<'_>] = &[("d", Bool, &[]), ("x", Fp32, shape)];
    let mut outer = region(inputs);
    outer.op("COND_IF", graphs("twice", "negative"), &["d", "x"], "out", Fp32, shape);
    outer.output("out");
    let mut same = region(inputs);
    same.output("x");
    let mut twice = region(&inputs[1..]);
    op(&mut twice, "ADD", &["x", "x"], "out", Fp32, shape);
    twice.output("out");
    let mut negative = region(&inputs[1..]);
    op(&mut negative, "SUB", &["x", "x"], "zero", Fp32, shape);
    op(&mut negative, "SUB", &["zero", "x"], "out", Fp32, shape);
    negative.output("out");
    let regions = [("outer", outer), ("same", same), ("twice", twice), ("negative", negative)];
    w.regions = regions.map(|(name, region)| (name.into(), region)).into();

    let x = [1.0_f32, -2.0, 0.5, -0.25, 8.0];
    let ways = [(0, 0, 1.0), (0, 1, 1.0), (1, 0, -1.0), (1, 1, 2.0), (1, 0, -1.0)];
    let inputs: Vec<_> = ways.iter().map(|&(c, d, _)| vec![vec![c], vec![d], bytes!(x)]).collect();
    let Some(found) = each(&w, &inputs) else { return };
    for ((c, d, factor), outputs) in ways.iter().zip(&found) {
        assert_eq!(numbers!(f32, outputs[1]), x.map(|x| x.abs() * factor), "{c} {d}");
        assert_eq!(numbers!(f32, outputs[0]), x.map(|x| x.abs() * factor + x.abs()), "{c} {d}");
    }
}

/// A graph may have an output twice, a constant, its input, or what another has as well.
#[test]
fn branches_hand_over_whatever_they_have() {
    let mut w = region(&[("c", Bool, &[1]), ("x", Int8, &[3])]);
    for name in ["a", "b", "d"] {
        w.tensor(name, Int8, &[3]);
        w.output(name);
    }
    w.raw("COND_IF", graphs("then", "else"), &["c", "x"], &["a", "b", "d"]);
    let mut then = region(&[("x", Int8, &[3])]);
    op(&mut then, "BITWISE_NOT", &["x"], "not", Int8, &[3]);
    then.outputs = vec!["not".into(), "not".into(), "x".into()];
    let mut otherwise = region(&[("x", Int8, &[3])]);
    otherwise.constant("k", Int8, &[3], &[7, 8, 9]);
    op(&mut otherwise, "IDENTITY", &["x"], "same", Int8, &[3]);
    otherwise.outputs = vec!["same".into(), "k".into(), "k".into()];
    w.regions = vec![("then".into(), then), ("else".into(), otherwise)];
    let inputs = [1, 0].map(|c| vec![vec![c], vec![1, 2, 3]]);
    let Some(found) = each(&w, &inputs) else { return };
    assert_eq!(found[0], [vec![254, 253, 252], vec![254, 253, 252], vec![1, 2, 3]]);
    assert_eq!(found[1], [vec![1, 2, 3], vec![7, 8, 9], vec![7, 8, 9]]);
}

/// `while (limit > x) x += x`, counting the rounds.
fn doubling() -> Writer {
    let inputs: &[Input<'_>] = &[("x", Int32, &[]), ("n", Int32, &[]), ("limit", Int32, &[])];
    let mut w = region(&[("x", Int32, &[]), ("limit", Int32, &[])]);
    integer(&mut w, "zero", 0);
    for name in ["y", "rounds", "same"] {
        w.tensor(name, Int32, &[]);
        w.output(name);
    }
    w.raw("WHILE_LOOP", graphs("test", "step"), &["x", "zero", "limit"], &["y", "rounds", "same"]);
    let mut test = region(inputs);
    op(&mut test, "GREATER", &["limit", "x"], "more", Bool, &[]);
    test.output("more");
    let mut step = region(inputs);
    integer(&mut step, "one", 1);
    op(&mut step, "ADD", &["x", "x"], "next", Int32, &[]);
    op(&mut step, "ADD", &["n", "one"], "count", Int32, &[]);
    step.outputs = vec!["next".into(), "count".into(), "limit".into()];
    w.regions = vec![("test".into(), test), ("step".into(), step)];
    w
}

#[test]
fn data_tells_how_often_a_loop_goes_round() {
    let cases = [(1, 1000, 1024, 10), (5, 5, 5, 0), (3, 4, 6, 1), (9, -3, 9, 0), (1, 1 << 20, 1 << 20, 20)];
    let inputs: Vec<_> = cases
        .iter()
        .map(|&(x, limit, ..): &(i32, i32, i32, i32)| vec![bytes!([x]), bytes!([limit])])
        .collect();
    let Some(found) = each(&doubling(), &inputs) else { return };
    for ((_, limit, y, rounds), outputs) in cases.into_iter().zip(found) {
        let outputs: Vec<i32> = outputs.iter().flat_map(|bytes| numbers!(i32, bytes)).collect();
        assert_eq!(outputs, [y, rounds, limit]);
    }
}

/// A loop over `inputs`, the first of which is an INT32 that counts down to 0; the body has the others' outputs.
fn countdown(inputs: &[Input<'_>], mut body: Writer) -> Writer {
    let mut w = region(inputs);
    let names: Vec<&str> = inputs.iter().map(|(name, ..)| *name).collect();
    let results: Vec<String> = names.iter().map(|name| format!("{name}'")).collect();
    for (result, (_, dtype, shape)) in results.iter().zip(inputs) {
        w.tensor(result, *dtype, shape);
        w.output(result);
    }
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    w.raw("WHILE_LOOP", graphs("test", "step"), &names, &results);
    let mut test = region(inputs);
    integer(&mut test, "zero", 0);
    op(&mut test, "GREATER", &[names[0], "zero"], "more", Bool, &[]);
    test.output("more");
    integer(&mut body, "one", 1);
    op(&mut body, "SUB", &[names[0], "one"], "less", Int32, &[]);
    body.outputs.insert(0, "less".into());
    w.regions = vec![("test".into(), test), ("step".into(), body)];
    w
}

/// What goes round changes places: each reads what the other was, not what it has become.
#[test]
fn values_that_swap_places_are_not_mixed_up() {
    let inputs: &[Input<'_>] =
        &[("i", Int32, &[]), ("a", Fp16, &[3]), ("b", Fp16, &[3]), ("c", Fp16, &[3]), ("sum", Fp16, &[3])];
    let mut body = region(inputs);
    op(&mut body, "ADD", &["sum", "a"], "more", Fp16, &[3]);
    body.outputs = ["b", "c", "a", "more"].map(String::from).into();
    let w = countdown(inputs, body);
    let numbers = |k: f32| bytes!([1.0, 2.0, 3.0].map(|x: f32| half::f16::from_f32(x * k)));
    let rounds = [0, 1, 2, 3, 4, 7];
    let given: Vec<_> = rounds
        .iter()
        .map(|&i: &i32| vec![bytes!([i]), numbers(1.0), numbers(10.0), numbers(100.0), numbers(0.0)])
        .collect();
    let Some(found) = each(&w, &given) else { return };
    for (rounds, outputs) in rounds.into_iter().zip(found) {
        let (mut values, mut sum) = ([1.0, 10.0, 100.0], 0.0);
        for _ in 0..rounds {
            sum += values[0];
            values.rotate_left(1);
        }
        let wanted: Vec<_> = values.iter().chain([&sum]).map(|&k| numbers(k)).collect();
        assert_eq!(outputs[1..], wanted, "{rounds} rounds");
    }
}

/// A loop in a loop, both counted by data: i * j additions. The inner one begins anew in each round of the outer one.
#[test]
fn loops_nest() {
    let inputs: &[Input<'_>] = &[("i", Int32, &[]), ("j", Int32, &[]), ("x", Int8, &[5]), ("y", Int8, &[5])];
    // The inner loop counts its first operand down, so j stands first there, and i goes along unchanged.
    let inner_inputs: &[Input<'_>] =
        &[("j", Int32, &[]), ("i", Int32, &[]), ("x", Int8, &[5]), ("y", Int8, &[5])];
    let mut step = region(inner_inputs);
    op(&mut step, "BITWISE_XOR", &["x", "y"], "mixed", Int8, &[5]);
    op(&mut step, "BITWISE_NOT", &["mixed"], "out", Int8, &[5]);
    step.outputs = ["i", "y", "out"].map(String::from).into();
    let nested = countdown(inner_inputs, step);
    let mut body = region(inputs);
    for (name, dtype, shape) in inner_inputs {
        body.tensor(&format!("{name}'"), *dtype, shape);
    }
    body.raw(
        "WHILE_LOOP",
        graphs("inner test", "inner step"),
        &["j", "i", "x", "y"],
        &["j'", "i'", "x'", "y'"],
    );
    body.outputs = ["j", "x'", "y'"].map(String::from).into();
    let mut w = countdown(inputs, body);
    let inner = nested.regions.into_iter().map(|(name, region)| (format!("inner {name}"), region));
    w.regions.extend(inner);
    let cases = [(3, 4), (0, 5), (5, 0), (1, 1), (4, 3)];
    let (x, y) = ([1, 2, 3, 250, 5_u8], [9, 8, 7, 6, 100_u8]);
    let given: Vec<_> = cases
        .iter()
        .map(|&(i, j): &(i32, i32)| vec![bytes!([i]), bytes!([j]), x.to_vec(), y.to_vec()])
        .collect();
    let Some(found) = each(&w, &given) else { return };
    for ((i, j), outputs) in cases.into_iter().zip(found) {
        let (mut left, mut right) = (x, y);
        for _ in 0..i * j {
            let mut out = left;
            out.iter_mut().zip(right).for_each(|(x, y)| *x = !(*x ^ y));
            (left, right) = (right, out);
        }
        assert_eq!(outputs[2..], [left.to_vec(), right.to_vec()], "{i} x {j}");
    }
}

/// Weights that go round unchanged are constants for the body, and what was made before the loop outlives it.
#[test]
fn a_loop_multiplies_with_constant_weights() {
    let inputs: &[Input<'_>] =
        &[("i", Int32, &[]), ("x", Fp32, &[1, 1, 4]), ("w", Fp32, &[1, 4, 4]), ("bias", Fp32, &[1, 1, 4])];
    let mut body = region(inputs);
    body.constant("zp", Fp32, &[1], &[0; 4]);
    op(&mut body, "MATMUL", &["x", "w", "zp", "zp"], "product", Fp32, &[1, 1, 4]);
    op(&mut body, "ADD", &["product", "bias"], "next", Fp32, &[1, 1, 4]);
    body.outputs = ["next", "w", "bias"].map(String::from).into();
    let mut w = countdown(inputs, body);
    w.inputs.retain(|name| name != "w" && name != "bias");
    let weights: Vec<f32> = (0..16).map(|i| if i % 5 == 0 { 0.5 } else { 0.0 }).collect();
    w.tensors.retain(|tensor| tensor.name != "w" && tensor.name != "bias");
    let loops = w.operators.remove(0);
    w.constant("w", Fp32, &[1, 4, 4], &bytes!(weights));
    op(&mut w, "ABS", &["x"], "bias", Fp32, &[1, 1, 4]);
    w.operators.push(loops);
    w.outputs = vec!["x'".into(), "bias'".into()];
    let x = [8.0_f32, -4.0, 2.0, 0.0];
    let given: Vec<_> = [0, 1, 3].iter().map(|&i: &i32| vec![bytes!([i]), bytes!(x)]).collect();
    let Some(found) = each(&w, &given) else { return };
    for (rounds, outputs) in [0, 1, 3].into_iter().zip(found) {
        let wanted = x.map(|x| (0..rounds).fold(x, |next, _| next * 0.5 + x.abs()));
        assert_eq!(numbers!(f32, outputs[0]), wanted, "{rounds} rounds");
        assert_eq!(numbers!(f32, outputs[1]), x.map(f32::abs));
    }
}

/// A body may change a variable, which a later submission finds.
#[test]
fn variables_live_through_loops() {
    let inputs: &[Input<'_>] = &[("i", Int32, &[]), ("x", Fp32, &[2])];
    let mut body = region(inputs);
    body.tensor("v", Fp32, &[2]).variable = true;
    op(&mut body, "VARIABLE_READ", &["v"], "old", Fp32, &[2]);
    op(&mut body, "ADD", &["old", "x"], "new", Fp32, &[2]);
    body.raw("VARIABLE_WRITE", Attribute::None, &["new"], &["v"]);
    body.outputs = vec!["x".into()];
    let mut w = countdown(inputs, body);
    w.variable("v", Fp32, &[2], &bytes!([100.0_f32, 0.5]));
    op(&mut w, "VARIABLE_READ", &["v"], "y", Fp32, &[2]);
    w.outputs = vec!["y".into()];
    let given =
        [(3, 1.0), (0, 50.0), (2, 0.25_f32)].map(|(i, x): (i32, f32)| vec![bytes!([i]), bytes!([x, -x])]);
    let Some(found) = each(&w, &given) else { return };
    let values: Vec<Vec<f32>> = found.iter().map(|outputs| numbers!(f32, outputs[0])).collect();
    assert_eq!(values, [[103.0, -2.5], [103.0, -2.5], [103.5, -3.0]]);
}

/// Six graphs in one another, the most that the level allows, loops and conditions in turn: each adds its own amount.
#[test]
fn six_deep() {
    let inputs: &[Input<'_>] = &[("i", Int32, &[]), ("c", Bool, &[1]), ("x", Int32, &[2])];
    let mut regions: Vec<(String, Writer)> = Vec::new();
    let block = |depth: i32| {
        let mut w = region(inputs);
        w.constant("amount", Int32, &[1], &(1_i32 << (4 * depth)).to_le_bytes());
        op(&mut w, "ADD", &["x", "amount"], "more", Int32, &[2]);
        let inner = depth + 1;
        match depth {
            6 => {
                w.outputs = ["i", "c", "more"].map(String::from).into();
                return w;
            }
            depth if depth % 2 == 0 => {
                for (name, dtype, shape) in inputs {
                    w.tensor(&format!("{name}'"), *dtype, shape);
                }
                let attribute = graphs(&format!("graph {inner}"), "same");
                w.raw("COND_IF", attribute, &["c", "i", "c", "more"], &["i'", "c'", "x'"]);
            }
            _ => {
                // Goes round twice: the counter comes from a constant, and goes on as it was.
                w.constant("two", Int32, &[], &2_i32.to_le_bytes());
                for name in ["left", "i'"] {
                    w.tensor(name, Int32, &[]);
                }
                w.tensor("c'", Bool, &[1]);
                w.tensor("x'", Int32, &[2]);
                let attribute = graphs("test", &format!("step {inner}"));
                w.raw("WHILE_LOOP", attribute, &["two", "i", "c", "more"], &["left", "i'", "c'", "x'"]);
            }
        }
        w.outputs = ["i'", "c'", "x'"].map(String::from).into();
        w
    };
    let mut w = block(0);
    w.outputs = vec!["x'".into()];
    for depth in 1..=6 {
        if depth % 2 == 1 {
            regions.push((format!("graph {depth}"), block(depth)));
            continue;
        }
        // The body of a loop has the counter in front.
        let mut step = block(depth);
        step.tensor("left", Int32, &[]);
        step.inputs.insert(0, "left".into());
        integer(&mut step, "one", 1);
        op(&mut step, "SUB", &["left", "one"], "less", Int32, &[]);
        step.outputs.insert(0, "less".into());
        regions.push((format!("step {depth}"), step));
    }
    let mut same = region(inputs);
    same.outputs = ["i", "c", "x"].map(String::from).into();
    regions.push(("same".into(), same));
    let carried: &[Input<'_>] =
        &[("left", Int32, &[]), ("i", Int32, &[]), ("c", Bool, &[1]), ("x", Int32, &[2])];
    let mut test = region(carried);
    integer(&mut test, "zero", 0);
    op(&mut test, "GREATER", &["left", "zero"], "more", Bool, &[]);
    test.output("more");
    regions.push(("test".into(), test));
    w.regions = regions;
    let given = [1, 0].map(|c| vec![bytes!([0_i32]), vec![c], bytes!([0, 1_i32 << 30])]);
    let Some(found) = each(&w, &given) else { return };
    // Depths 0, 1 once; 2, 3 twice; 4, 5 four times; 6 eight times.
    let sum = 0x8_44_22_11;
    assert_eq!(numbers!(i32, found[0][0]), [sum, (1 << 30) + sum]);
    assert_eq!(numbers!(i32, found[1][0]), [1, (1 << 30) + 1], "the first condition ends it");
}

/// A condition that is known when the program is loaded costs nothing; what it chose goes on as if it stood there.
#[test]
fn a_known_condition_is_no_decision() {
    for (condition, wanted) in [(1, [3.0_f32, 5.0]), (0, [-1.0, -1.0])] {
        let mut w = region(&[("a", Fp32, &[2]), ("b", Fp32, &[2])]);
        w.constant("c", Bool, &[], &[condition]);
        w.op("COND_IF", graphs("then", "else"), &["c", "a", "b"], "y", Fp32, &[2]);
        w.output("y");
        for (name, operator) in [("then", "ADD"), ("else", "SUB")] {
            let mut branch = region(&[("a", Fp32, &[2]), ("b", Fp32, &[2])]);
            op(&mut branch, operator, &["a", "b"], "out", Fp32, &[2]);
            branch.output("out");
            w.regions.push((name.into(), branch));
        }
        let graph = accel_tosa::read(w.finish()).unwrap();
        let plan = accel_kernels::lower(&graph, &accel_kernels::DeviceCaps::baseline()).unwrap();
        assert_eq!((plan.dispatches.len(), plan.segments.len(), plan.decisions), (1, 1, 0));
        let Some(outputs) = run(&w, &[&bytes!([1.0_f32, 2.0]), &bytes!([2.0_f32, 3.0])]) else { return };
        assert_eq!(numbers!(f32, outputs[0]), wanted);
    }
}
