//! Graphs built here, through the daemon's socket, against the oracle in double precision.

use accel_tosa::DType;
use vhost_device_accel_workspace::{Daemon, Result, compare, data_entries, graphs, oracle, run};

/// Runs a graph on random inputs and compares every output.
fn check(artifact: &[u8]) -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let graph = accel_tosa::read(artifact)?;
    let mut inputs = Vec::new();
    for (seed, &id) in (1..).zip(&graph.inputs) {
        let tensor = graph.tensor(id);
        let shape: Vec<usize> = tensor.shape.iter().map(|&extent| extent as usize).collect();
        inputs.push(graphs::tensor(seed, tensor.dtype, &shape, 1.0)?);
    }
    let references = oracle::evaluate(&graph, &inputs)?;
    let outputs = run(&daemon.connect()?, artifact, &inputs)?;
    assert_eq!(outputs.len(), references.len());
    for (output, reference) in outputs.iter().zip(&references) {
        compare(output, reference)?;
    }
    Ok(())
}

#[test]
fn matmul_512_fp32() -> Result<()> {
    check(&graphs::matmul(DType::Fp32, 512))
}

#[test]
fn matmul_512_fp16() -> Result<()> {
    check(&graphs::matmul(DType::Fp16, 512))
}

#[test]
fn matmul_512_int8() -> Result<()> {
    check(&graphs::matmul(DType::Int8, 512))
}

#[test]
fn convnet_fp32() -> Result<()> {
    check(&graphs::convnet(DType::Fp32, 96)?)
}

#[test]
fn convnet_fp16() -> Result<()> {
    check(&graphs::convnet(DType::Fp16, 96)?)
}

/// Graphs of the folder that ACCEL_TEST_DATA names; the repository itself holds none.
#[test]
fn given_graphs() -> Result<()> {
    for path in data_entries("graphs")? {
        check(&std::fs::read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}: right", path.display());
    }
    Ok(())
}
