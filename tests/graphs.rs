//! Graphs built here, through the daemon's socket, against the oracle in double precision.

use accel_tosa::DType;
use vhost_device_accel_workspace::{
    Daemon, Element, Result, Tensor, compare, data_entries, graphs, oracle, run,
};

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

/// Weights that no frame can carry: the artifact goes through a buffer (LOAD_PROGRAM_FROM_BUFFER).
#[test]
fn an_artifact_beyond_one_frame() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let artifact = graphs::add_constant(5 << 20);
    assert!(artifact.len() as u64 > client.info().max_artifact_bytes.get());
    let input = Tensor::from_f64(Element::I32, &[5 << 20], (0..5 << 20).map(f64::from));
    let sums = run(&client, &artifact, &[input])?;
    assert!(
        (0..5 << 20).zip(sums[0].to_f64()).all(|(index, sum)| sum == f64::from(index * 2 % 1009 + index))
    );
    Ok(())
}

/// A loop whose length the host decides, round by round.
#[test]
fn a_loop() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    for rounds in [0, 1, 100] {
        let x = Tensor::from_f64(Element::I32, &[3], [1.0, -2.0, 1e6]);
        let sum = Tensor::from_f64(Element::I32, &[3], [5.0, 0.0, -7.0]);
        let sums = run(&client, &graphs::countdown(rounds, 1), &[x, sum])?;
        let wanted = [(1.0, 5.0), (-2.0, 0.0), (1e6, -7.0)].map(|(x, sum)| x * f64::from(rounds) + sum);
        assert_eq!(sums[0].to_f64(), wanted);
    }
    Ok(())
}
