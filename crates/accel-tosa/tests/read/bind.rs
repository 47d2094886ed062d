//! Dimensions that a file leaves open.

use accel_tosa::bind::{Input, bind_shapes, inputs};
use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, Graph, Rule, read};

use crate::common::{accepted, last, refused, shape, tensor};

/// All tensors' shapes by name.
fn shapes(graph: &Graph) -> Vec<(&str, &[u32])> {
    graph.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect()
}

fn bound(w: &Writer, shapes: &[&[u32]]) -> Vec<u8> {
    let shapes: Vec<_> = shapes.iter().map(|shape| shape.to_vec()).collect();
    bind_shapes(&w.finish(), &shapes).expect("the shapes fit the graph")
}

#[track_caller]
fn unbound(w: &Writer, shapes: &[&[u32]], rule: Rule, part: &str) {
    let shapes: Vec<_> = shapes.iter().map(|shape| shape.to_vec()).collect();
    let refusal = bind_shapes(&w.finish(), &shapes).expect_err("the shapes do not fit the graph");
    assert_eq!(refusal.rule, rule, "{refusal}");
    assert!(refusal.message.contains(part), "{refusal:?} does not say {part:?}");
    assert!(refusal.message.ends_with('.'), "{refusal:?} is no sentence");
}

/// A graph that is open along its batch and its width, and closed at `n` and `width`, through operators of every kind of
/// shape rule.
fn net(n: i32, width: i32) -> Writer {
    let mut w = Writer::new();
    let f = DType::Fp32;
    let known = |extent: i32, derived: i32| if extent < 0 { -1 } else { derived };
    let (half, area) = (known(width, width / 2), known(width, 4 * (width / 2)));
    w.input("x", f, &[n, 8, width, 3]);
    w.input("s", f, &[n, 8, width, 1]);
    for name in ["zp", "wzp"] {
        w.constant(name, f, &[1], &[0; 4]);
    }
    w.constant("one", f, &[1, 1, 1, 1], &1f32.to_le_bytes());
    w.op("ADD", Attribute::None, &["x", "s"], "sum", f, &[n, 8, width, 3]);
    w.constant("weight", f, &[4, 3, 3, 3], &[0; 4 * 27 * 4]);
    w.constant("bias", f, &[4], &[0; 16]);
    let conv = Attribute::Conv { pad: vec![1; 4], stride: vec![1; 2], dilation: vec![1; 2], acc_type: f };
    w.op("CONV2D", conv, &["sum", "weight", "bias", "zp", "wzp"], "conv", f, &[n, 8, width, 4]);
    let pool = Attribute::Pool { kernel: vec![2, 2], stride: vec![2, 2], pad: vec![0; 4], last: 1 };
    w.op("MAX_POOL2D", pool, &["conv"], "pooled", f, &[n, 4, half, 4]);
    w.op("TRANSPOSE", Attribute::Transpose(vec![0, 3, 1, 2]), &["pooled"], "turned", f, &[n, 4, 4, half]);
    w.shape("flat", &[i64::from(n), 4, i64::from(area)]);
    w
}

/// The rest of [`net`], which closes one of the two open numbers of its RESHAPE.
fn tail(mut w: Writer, n: i32, width: i32) -> Writer {
    let f = DType::Fp32;
    let area = if width < 0 { -1 } else { 4 * (width / 2) };
    w.op("RESHAPE", Attribute::None, &["turned", "flat"], "rows", f, &[n, 4, area]);
    w.op("REDUCE_SUM", Attribute::Axis { axis: 2, nan_mode: 0 }, &["rows"], "sums", f, &[n, 4, 1]);
    let double = if area < 0 { -1 } else { 2 * area };
    w.op("CONCAT", Attribute::Axis { axis: 2, nan_mode: 0 }, &["rows", "rows"], "joined", f, &[n, 4, double]);
    w.constant("a", f, &[1, 2, 4], &[0; 32]);
    w.op("IDENTITY", Attribute::None, &["sums"], "again", f, &[n, 4, 1]);
    w.op("ARGMAX", Attribute::Axis { axis: 2, nan_mode: 1 }, &["joined"], "most", DType::Int32, &[n, 4]);
    w.output("again");
    w.output("most");
    w.output("joined");
    w
}

#[test]
fn open_dimensions_follow_from_the_inputs() {
    // Only the width is open, or only the batch, since RESHAPE infers one number.
    for (open, given) in [((2, -1), (2, 10)), ((-1, 6), (5, 6)), ((-1, 6), (1, 6))] {
        let graph = tail(net(open.0, open.1), open.0, open.1);
        let (n, width) = (given.0 as u32, given.1 as u32);
        let artifact = bound(&graph, &[&[n, 8, width, 3], &[n, 8, width, 1]]);
        let found = read(artifact.clone()).expect("a bound graph is like any other");
        let static_graph = accepted(&tail(net(given.0, given.1), given.0, given.1));
        assert_eq!(shapes(&found), shapes(&static_graph));
        assert_eq!(found.nodes, static_graph.nodes);
        assert!(inputs(&artifact).unwrap().iter().all(|input| !input.is_open()));
        // Bound once more it stays as it is.
        let shapes = [vec![n, 8, width, 3], vec![n, 8, width, 1]];
        assert_eq!(bind_shapes(&artifact, &shapes).unwrap(), artifact);
    }
    let listed = inputs(&tail(net(2, -1), 2, -1).finish()).unwrap();
    assert_eq!(
        listed[0],
        Input { name: "x".into(), dtype: DType::Fp32, shape: vec![Some(2), Some(8), None, Some(3)] }
    );
    assert_eq!(listed[1].to_string(), "s [2, 8, ?, 1]");
}

/// Where the inputs are known nothing has to be bound.
#[test]
fn open_dimensions_behind_known_inputs_are_inferred() {
    let mut w = tail(net(2, 10), 2, 10);
    let known = accepted(&w);
    for name in ["sum", "conv", "pooled", "turned", "rows", "sums", "joined", "again", "most"] {
        tensor(&mut w, name).shape.fill(-1);
    }
    let found = accepted(&w);
    assert_eq!(shapes(&found), shapes(&known));
    // A rank is never open, and what is given must be right.
    tensor(&mut w, "pooled").shape.pop();
    refused(&w, Rule::ErrorIf, "has rank 3 where 4 is needed");
    tensor(&mut w, "pooled").shape = vec![-1, 4, 6, -1];
    refused(&w, Rule::ErrorIf, "the output's width is 6 where");
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let graph = || tail(net(2, -1), 2, -1);
    let good: [&[u32]; 2] = [&[2, 8, 10, 3], &[2, 8, 10, 1]];
    bound(&graph(), &good);
    unbound(&graph(), &good[..1], Rule::ErrorIf, "1 shapes are given for the graph's 2 inputs");
    unbound(&graph(), &[good[0], &[2, 8, 10]], Rule::ErrorIf, "cannot have [2, 8, 10]");
    unbound(&graph(), &[good[0], &[3, 8, 10, 1]], Rule::ErrorIf, "has the shape [2, 8, -1, 1] in the file");
    unbound(&graph(), &[good[0], &[2, 8, 0, 1]], Rule::ErrorIf, "cannot have [2, 8, 0, 1]");
    // Each fits its input, and they do not fit each other, or an operator behind them.
    unbound(&graph(), &[good[0], &[2, 8, 9, 1]], Rule::ErrorIf, "do not broadcast");
    unbound(&graph(), &[&[2, 8, 11, 3], &[2, 8, 11, 1]], Rule::ErrorIf, "width does not come out even");
    let large: &[u32] = &[2, 8, 1 << 27, 3];
    unbound(&graph(), &[large, good[1]], Rule::Level, "2^31 elements or more");
    unbound(&graph(), &[&[2, 8, u32::MAX, 3], good[1]], Rule::Level, "2^31 elements or more");
    unbound(&Writer::new(), &[], Rule::Malformed, "no output");
    assert_eq!(bind_shapes(b"", &[]).unwrap_err().rule, Rule::Malformed);
    assert_eq!(inputs(b"").unwrap_err().rule, Rule::Malformed);
    // What grows behind the inputs is held against the level too.
    let tiles = |multiple: i64| {
        let mut w = Writer::new();
        w.input("x", DType::Int8, &[-1, 4]);
        w.shape("m", &[multiple, 1]);
        w.op("TILE", Attribute::None, &["x", "m"], "y", DType::Int8, &[-1, 4]);
        w.output("y");
        w
    };
    bound(&tiles(3), &[&[5, 4]]);
    for multiple in [1 << 30, i64::MAX] {
        unbound(&tiles(multiple), &[&[5, 4]], Rule::Level, "2^31 elements or more");
    }
    // Dimensions that nothing determines.
    refused(&graph(), Rule::Unsupported, "must be bound before it is loaded");
    let mut w = graph();
    w.tensor("other", DType::Int8, &[-1]).data = vec![0; 3];
    w.raw("CONST", Attribute::None, &[], &["other"]);
    unbound(&w, &good, Rule::ErrorIf, "unknown dimension (-1)");
    let mut w = graph();
    w.variable("v", DType::Fp32, &[-1], &[]);
    unbound(&w, &good, Rule::Unsupported, "unknown dimension (-1)");
    let mut w = graph();
    tensor(&mut w, "x").unranked = true;
    unbound(&w, &good, Rule::Unsupported, "has no rank");
}

#[test]
fn a_new_shape_may_leave_one_number_open() {
    let reshape = |input: &[i32], new: &[i64], output: &[i32]| {
        let mut w = Writer::new();
        w.input("x", DType::Int8, input);
        w.shape("s", new);
        w.op("RESHAPE", Attribute::None, &["x", "s"], "y", DType::Int8, output);
        w.output("y");
        w
    };
    let found = |w: &Writer| read(bound(w, &[&[6, 4]])).unwrap().tensors[1].shape.clone();
    assert_eq!(found(&reshape(&[-1, 4], &[-1, 8], &[-1, 8])), [3, 8]);
    assert_eq!(found(&reshape(&[-1, 4], &[2, -1, 3], &[2, -1, 3])), [2, 4, 3]);
    assert_eq!(found(&reshape(&[-1, 4], &[24], &[-1])), [24]);
    for (new, output) in [
        (&[-1, 7][..], &[-1, 7][..]),
        (&[-1, -1], &[-1, -1]),
        (&[-1, 0], &[-1, -1]),
        (&[-1, 100], &[-1, 100]),
    ] {
        unbound(&reshape(&[-1, 4], new, output), &[&[6, 4]], Rule::ErrorIf, "");
    }
    // In a graph whose shapes are known it is no number.
    refused(&reshape(&[6, 4], &[-1, 8], &[3, 8]), Rule::ErrorIf, "new shape is [-1, 8]");
    // Two operators cannot share an open number that is not the same for both.
    let mut w = reshape(&[-1, 4], &[-1, 2], &[-1, 2]);
    w.input("z", DType::Int8, &[-1, 4]);
    w.op("RESHAPE", Attribute::None, &["z", "s"], "u", DType::Int8, &[-1, 2]);
    w.output("u");
    bound(&w, &[&[6, 4], &[6, 4]]);
    unbound(&w, &[&[6, 4], &[7, 4]], Rule::Unsupported, "would need two shapes");
}

/// Graphs inside of graphs are open where the operator is.
#[test]
fn inner_graphs_follow() {
    let conditional = |extent: i32| {
        let mut inner = Writer::new();
        inner.input("a", DType::Int32, &[extent]);
        inner.op("ABS", Attribute::None, &["a"], "b", DType::Int32, &[extent]);
        inner.output("b");
        let mut w = Writer::new();
        w.input("c", DType::Bool, &[1]);
        w.input("x", DType::Int32, &[extent]);
        w.tensor("y", DType::Int32, &[extent]);
        let graphs = Attribute::Graphs { first: "inner".into(), second: "inner".into() };
        w.raw("COND_IF", graphs, &["c", "x"], &["y"]);
        w.regions = vec![("inner".into(), inner)];
        w.output("y");
        w
    };
    let w = conditional(-1);
    let found = read(bound(&w, &[&[1], &[7]])).unwrap();
    assert_eq!(shapes(&found), shapes(&accepted(&conditional(7))));
    // One region for two operators of different extents.
    let mut w = conditional(-1);
    w.input("z", DType::Int32, &[-1]);
    w.tensor("u", DType::Int32, &[-1]);
    let again = last(&mut w).clone();
    w.raw("COND_IF", again.attribute, &["c", "z"], &["u"]);
    w.output("u");
    bound(&w, &[&[1], &[7], &[7]]);
    unbound(&w, &[&[1], &[7], &[8]], Rule::Unsupported, "would need two shapes");
    // A loop's values keep their shape.
    let mut w = conditional(-1);
    shape_of_inner(&mut w, &[9]);
    unbound(
        &w,
        &[&[1], &[7]],
        Rule::ErrorIf,
        "is INT32 [7] and that of the inputs of its then graph is INT32 [9]",
    );
}

fn shape_of_inner(w: &mut Writer, extents: &[i32]) {
    tensor(&mut w.regions[0].1, "a").shape = extents.to_vec();
}

/// Whatever a damaged file says, binding ends with a file or a refusal.
#[test]
fn damaged_files_are_bound_or_refused() {
    let mut w = tail(net(2, -1), 2, -1);
    *shape(&mut w, "flat") = vec![2, 4, -1];
    let shapes = [vec![2, 8, 10, 3], vec![2, 8, 10, 1]];
    let sound = w.finish();
    for at in 0..sound.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = sound.clone();
            damaged[at] = value;
            if let Ok(bound) = bind_shapes(&damaged, &shapes) {
                let _ = read(bound);
            }
        }
    }
}

/// Files may let tensors share a shape's bytes; a bound one has its own.
#[test]
fn bound_files_are_whole_files() {
    let w = tail(net(2, -1), 2, -1);
    let artifact = bound(&w, &[&[2, 8, 10, 3], &[2, 8, 10, 1]]);
    let original = w.finish();
    assert!(artifact.len() > original.len() && artifact.len() < original.len() + 1024);
    for cut in (0..artifact.len()).step_by(7) {
        assert!(bind_shapes(&artifact[..cut], &[]).is_err());
    }
    let mut w = tail(net(2, -1), 2, -1);
    *shape(&mut w, "flat") = vec![2, 4, -1];
    bound(&w, &[&[2, 8, 10, 3], &[2, 8, 10, 1]]);
}
