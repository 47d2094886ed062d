//! `accelctl check`.

use std::collections::BTreeMap;
use std::path::Path;

use accel_kernels::{DeviceCaps, Next, Plan, lower};
use accel_tosa::{Graph, Node, Op, Refusal, TensorId, bind, read as read_graph};
use serde_json::{Value, json};

use crate::args::Shape;
use crate::error::{Error, RAN, Result, rule_code};
use crate::session::read;

/// Says what a model is and whether it would run; returns the exit code.
///
/// # Errors
/// The file cannot be read.
pub fn check(model: &Path, shapes: &[Shape], show_plan: bool, json: bool) -> Result<u8> {
    let artifact = read(model)?;
    let refused = |refusal| Error::Refused { path: model.into(), refusal };
    let shapes: Vec<_> = shapes.iter().map(|shape| shape.0.clone()).collect();
    let artifact = match bind::inputs(&artifact) {
        Ok(inputs) if shapes.is_empty() && inputs.iter().any(bind::Input::is_open) => {
            let list = inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let what = format!(
                "its inputs leave dimensions open: {list}; give each a shape with --shape, such as 1x37x80"
            );
            return Err(Error::Content { path: model.into(), what });
        }
        _ if shapes.is_empty() => Ok(artifact),
        _ => bind::bind_shapes(&artifact, &shapes),
    };
    let graph = artifact.and_then(read_graph).map_err(refused);
    let graph = match graph {
        Err(Error::Refused { refusal, .. }) if json => {
            let code = rule_code(refusal.rule);
            println!(
                "{:#}",
                json!({ "model": model, "code": code, "runs": false, "refusal": words(&refusal) })
            );
            return Ok(code);
        }
        other => other?,
    };
    let plan = lower(&graph, &DeviceCaps::baseline());
    if json {
        let mut report = describe(model, &graph);
        match &plan {
            Ok(plan) if show_plan => report["plan"] = plan_json(plan),
            Ok(_) => {}
            Err(refusal) => report["refusal"] = words(refusal),
        }
        let code = plan.as_ref().map_or_else(|refusal| rule_code(refusal.rule), |_| RAN);
        report["code"] = code.into();
        report["runs"] = plan.is_ok().into();
        println!("{report:#}");
        return Ok(code);
    }
    print(&graph);
    let plan = plan.map_err(refused)?;
    println!("every operator runs: {} dispatches", plan.dispatches.len());
    if show_plan {
        print_plan(&plan);
    }
    Ok(RAN)
}

fn print(graph: &Graph) {
    println!("TOSA {}, profile {}", version(graph), profiles(graph).join(" and "));
    for (kind, ids) in [("input", &graph.inputs), ("output", &graph.outputs)] {
        for id in ids {
            let tensor = graph.tensor(*id);
            println!("{kind} {} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
        }
    }
    let mut counts: Vec<_> = histogram(graph).into_iter().collect();
    counts.sort_by_key(|(name, count)| (usize::MAX - count, *name));
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    println!("{total} operators: {}", words.join(", "));
}

fn print_plan(plan: &Plan) {
    for (number, segment) in plan.segments.iter().enumerate() {
        if plan.segments.len() > 1 {
            println!(" segment {number}");
        }
        for dispatch in &plan.dispatches[segment.dispatches.start as usize..segment.dispatches.end as usize] {
            let [x, y, z] = dispatch.groups;
            let barrier = if dispatch.barrier { "  after a barrier" } else { "" };
            println!("  {}  groups {x}x{y}x{z}{barrier}", dispatch.label);
        }
        match segment.next {
            Next::End => {}
            Next::Segment(next) => println!("  then segment {next}"),
            Next::Decide { on_true, on_false, .. } => {
                println!("  then the host decides: segment {on_true} if true, else {on_false}");
            }
        }
    }
    println!(
        "{} pipelines, arena of {} bytes, constants of {} bytes",
        plan.pipelines.len(),
        plan.arena_bytes,
        plan.constants.len()
    );
}

fn describe(model: &Path, graph: &Graph) -> Value {
    let tensors = |ids: &[TensorId]| -> Vec<Value> {
        ids.iter()
            .map(|id| {
                let tensor = graph.tensor(*id);
                json!({ "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape })
            })
            .collect()
    };
    json!({
        "model": model,
        "version": version(graph),
        "profiles": profiles(graph),
        "inputs": tensors(&graph.inputs),
        "outputs": tensors(&graph.outputs),
        "operators": histogram(graph),
    })
}

fn plan_json(plan: &Plan) -> Value {
    let dispatches: Vec<_> = plan
        .dispatches
        .iter()
        .map(|dispatch| {
            json!({ "label": dispatch.label, "groups": dispatch.groups, "barrier": dispatch.barrier })
        })
        .collect();
    let segments: Vec<_> = plan
        .segments
        .iter()
        .map(|segment| {
            let next = match segment.next {
                Next::End => json!(null),
                Next::Segment(next) => json!({ "segment": next }),
                Next::Decide { on_true, on_false, .. } => json!({ "if_true": on_true, "if_false": on_false }),
            };
            json!({ "dispatches": [segment.dispatches.start, segment.dispatches.end], "next": next })
        })
        .collect();
    json!({
        "dispatches": dispatches,
        "segments": segments,
        "pipelines": plan.pipelines.len(),
        "arena_bytes": plan.arena_bytes,
        "constant_bytes": plan.constants.len(),
    })
}

fn words(refusal: &Refusal) -> Value {
    json!({
        "position": refusal.at.map(|at| at.0),
        "operator": refusal.at.map(|at| at.1),
        "rule": format!("{:?}", refusal.rule),
        "message": refusal.message,
    })
}

fn version(graph: &Graph) -> String {
    let version = &graph.version;
    let draft = if version.draft { " draft" } else { "" };
    format!("{}.{}.{}{draft}", version.major, version.minor, version.patch)
}

fn profiles(graph: &Graph) -> Vec<&'static str> {
    let profile = &graph.profile;
    [(profile.integer, "PRO-INT"), (profile.float, "PRO-FP")]
        .into_iter()
        .filter_map(|(used, name)| used.then_some(name))
        .collect()
}

/// Operators by name, those of inner graphs too.
fn histogram(graph: &Graph) -> BTreeMap<&'static str, usize> {
    fn count(nodes: &[Node], counts: &mut BTreeMap<&'static str, usize>) {
        for node in nodes {
            *counts.entry(node.op.name()).or_default() += 1;
            let (Op::CondIf { then_graph: first, else_graph: second }
            | Op::WhileLoop { cond_graph: first, body_graph: second }) = &node.op
            else {
                continue;
            };
            count(&first.nodes, counts);
            count(&second.nodes, counts);
        }
    }
    let mut counts = BTreeMap::new();
    count(&graph.nodes, &mut counts);
    counts
}
