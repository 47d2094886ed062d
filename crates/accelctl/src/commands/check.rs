//! `accelctl check`.

use std::collections::BTreeMap;
use std::path::Path;

use accel_kernels::{DeviceCaps, Plan, lower};
use accel_tosa::{Graph, Refusal, TensorId, read as read_graph};
use serde_json::{Value, json};

use crate::error::{Error, RAN, Result, rule_code};
use crate::session::read;

/// Says what a model is and whether it would run; returns the exit code.
///
/// # Errors
/// The file cannot be read.
pub fn check(model: &Path, show_plan: bool, json: bool) -> Result<u8> {
    let artifact = read(model)?;
    let refused = |refusal| Error::Refused { path: model.into(), refusal };
    let graph = read_graph(artifact).map_err(refused);
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
    println!("{} operators: {}", graph.nodes.len(), words.join(", "));
}

fn print_plan(plan: &Plan) {
    for dispatch in &plan.dispatches {
        let [x, y, z] = dispatch.groups;
        let barrier = if dispatch.barrier { "  after a barrier" } else { "" };
        println!("  {}  groups {x}x{y}x{z}{barrier}", dispatch.label);
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
    json!({
        "dispatches": dispatches,
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

fn histogram(graph: &Graph) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for node in &graph.nodes {
        *counts.entry(node.op.name()).or_default() += 1;
    }
    counts
}
