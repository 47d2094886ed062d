//! Plans of graphs with COND_IF and WHILE_LOOP.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use accel_kernels::{DECISION_BYTES, DeviceCaps, Next, Plan, Region, Segment, lower};
use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{DType, Refusal, Rule, read};

fn plan(w: &Writer) -> Result<Plan, Refusal> {
    lower(&read(w.finish()).unwrap(), &DeviceCaps::baseline())
}

fn graphs(first: &str, second: &str) -> Attribute {
    Attribute::Graphs { first: first.into(), second: second.into() }
}

/// A region with `inputs` of FP32 [64] and the operators that `rest` adds.
fn region(inputs: &[&str], rest: impl FnOnce(&mut Writer)) -> Writer {
    let mut w = Writer::new();
    inputs.iter().for_each(|name| w.input(name, DType::Fp32, &[64]));
    rest(&mut w);
    w
}

fn op(w: &mut Writer, name: &str, inputs: &[&str], output: &str) {
    w.op(name, Attribute::None, inputs, output, DType::Fp32, &[64]);
}

/// The dispatches of a segment, without their positions.
fn names<'p>(plan: &'p Plan, segment: &Segment) -> Vec<&'p str> {
    let range = segment.dispatches.start as usize..segment.dispatches.end as usize;
    plan.dispatches[range].iter().map(|d| d.label.split_once(' ').unwrap().1).collect()
}

#[test]
fn a_plan_without_decisions_is_one_segment() {
    let w = region(&["x"], |w| {
        op(w, "ABS", &["x"], "y");
        w.output("y");
    });
    let plan = plan(&w).unwrap();
    assert_eq!((plan.segments, plan.decisions), (Segment::whole(1), 0));
}

/// `y = |x|; z = c ? y + x : y; y - z`.
fn condition() -> Writer {
    let mut w = region(&["x"], |w| {
        w.input("c", DType::Bool, &[1]);
        op(w, "ABS", &["x"], "y");
        w.op("COND_IF", graphs("then", "else"), &["c", "y", "x"], "z", DType::Fp32, &[64]);
        op(w, "SUB", &["y", "z"], "out");
        w.output("out");
    });
    let then = region(&["y", "x"], |w| {
        op(w, "ADD", &["y", "x"], "sum");
        op(w, "CEIL", &["sum"], "up");
        w.output("up");
    });
    let otherwise = region(&["y", "x"], |w| w.output("y"));
    w.regions = vec![("then".into(), then), ("else".into(), otherwise)];
    w
}

#[test]
fn a_condition_parts_and_meets_again() {
    let plan = plan(&condition()).unwrap();
    let next: Vec<_> = plan.segments.iter().map(|segment| segment.next).collect();
    let decide = Next::Decide { decision: 0, on_true: 1, on_false: 2 };
    assert_eq!(next, [decide, Next::Segment(3), Next::Segment(3), Next::End]);
    let names: Vec<_> = plan.segments.iter().map(|segment| names(&plan, segment)).collect();
    assert_eq!(names[0], ["ABS pointwise.short", "COND_IF copy_bytes"]);
    // The then graph is one launch, which writes where the operator's result is; nothing is copied.
    assert_eq!(names[1], ["CEIL pointwise.short ADD+CEIL"]);
    assert_eq!(names[2], ["COND_IF copy_bytes"]);
    assert_eq!(names[3], ["SUB pointwise.short"]);
    let [_, decision, then, otherwise, _] = &plan.dispatches[..] else { panic!("{:?}", plan.dispatches) };
    assert_eq!((decision.operands[0].region, decision.operands[0].offset), (Region::Decisions, 0));
    assert_eq!(then.operands[0], otherwise.operands[0]);
}

/// The loop reads `y`, made before it, in its body; what the body makes must not lie there, though `y` is read for the
/// last time before that is made.
#[test]
fn what_a_loop_reads_outlives_every_round() {
    let mut w = region(&["x"], |w| {
        op(w, "ABS", &["x"], "y");
        for name in ["x'", "y'"] {
            w.tensor(name, DType::Fp32, &[64]);
        }
        w.raw("WHILE_LOOP", graphs("test", "step"), &["x", "y"], &["x'", "y'"]);
        w.output("x'");
    });
    let test = region(&["x", "y"], |w| {
        w.op("REDUCE_MAX", Attribute::Axis { axis: 0, nan_mode: 1 }, &["x"], "most", DType::Fp32, &[1]);
        w.constant("ten", DType::Fp32, &[1], &10_f32.to_le_bytes());
        w.op("GREATER", Attribute::None, &["ten", "most"], "more", DType::Bool, &[1]);
        w.output("more");
    });
    let step = region(&["x", "y"], |w| {
        op(w, "ADD", &["x", "y"], "sum");
        w.op("REVERSE", Attribute::Axis { axis: 0, nan_mode: 0 }, &["sum"], "turned", DType::Fp32, &[64]);
        op(w, "CEIL", &["turned"], "up");
        w.op("REVERSE", Attribute::Axis { axis: 0, nan_mode: 0 }, &["up"], "back", DType::Fp32, &[64]);
        w.outputs = vec!["back".into(), "y".into()];
    });
    w.regions = vec![("test".into(), test), ("step".into(), step)];
    let plan = plan(&w).unwrap();
    let next: Vec<_> = plan.segments.iter().map(|segment| segment.next).collect();
    let decide = Next::Decide { decision: 0, on_true: 2, on_false: 3 };
    assert_eq!(next, [Next::Segment(1), decide, Next::Segment(1), Next::End]);
    assert_eq!(DECISION_BYTES % 4, 0);
    let arena = |dispatch: &accel_kernels::Dispatch, at: usize| {
        let place = dispatch.operands[at];
        (place.region == Region::Arena).then_some(place.offset)
    };
    let y = arena(&plan.dispatches[0], 0).unwrap();
    let range = plan.segments[1].dispatches.start as usize..plan.segments[2].dispatches.end as usize;
    for dispatch in &plan.dispatches[range] {
        assert_ne!(arena(dispatch, 0), Some(y), "{}", dispatch.label);
    }
}

#[test]
fn too_many_decisions_are_refused() {
    let mut w = region(&["x"], |w| w.input("c", DType::Bool, &[1]));
    for number in 0..1025 {
        let name = format!("y{number}");
        w.op("COND_IF", graphs("same", "same"), &["c", "x"], &name, DType::Fp32, &[64]);
    }
    w.output("y0");
    w.regions = vec![("same".into(), region(&["x"], |w| w.output("x")))];
    let refusal = plan(&w).unwrap_err();
    assert_eq!((refusal.rule, refusal.at), (Rule::Level, Some((1024, "COND_IF"))));
    assert!(refusal.message.contains("more than 1024"), "{refusal}");
}

/// Operators of inner graphs count too, each time that they stand somewhere.
#[test]
fn too_many_operators_are_refused() {
    let mut w = region(&["x"], |w| w.input("c", DType::Bool, &[1]));
    for number in 0..6 {
        let name = format!("y{number}");
        w.op("COND_IF", graphs("long", "long"), &["c", "x"], &name, DType::Fp32, &[64]);
    }
    w.output("y0");
    let long = region(&["x"], |w| {
        (0..1500).for_each(|number| op(w, "ABS", &["x"], &format!("z{number}")));
        w.output("z0");
    });
    w.regions = vec![("long".into(), long)];
    let refusal = plan(&w).unwrap_err();
    assert_eq!(refusal.rule, Rule::Level);
    assert!(refusal.message.contains("18006 operators"), "{refusal}");
}
