//! Networks that keep their past in variables: inputs in a row through one loaded program, over the daemon's socket.

use std::path::Path;

use accel_guest::{Client, Transport};
use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};
use vhost_device_accel_workspace::{Daemon, Element, Result, Tensor, data_entries, run_steps};

const STEPS: usize = 20;

/// The tensors that an array holds one after the other along its first dimension.
fn steps(array: &Tensor) -> Vec<Tensor> {
    let (count, shape) = (array.shape[0], array.shape[1..].to_vec());
    let slices = array.bytes.chunks_exact(array.bytes.len() / count);
    slices
        .map(|bytes| Tensor { element: array.element, shape: shape.clone(), bytes: bytes.to_vec() })
        .collect()
}

/// The arrays `stem`0.npy, `stem`1.npy and so on, as the tensors of each step.
fn load(folder: &Path, stem: &str) -> Result<Vec<Vec<Tensor>>> {
    let paths = (0..).map(|number| folder.join(format!("{stem}{number}.npy")));
    let arrays = paths.take_while(|path| path.exists()).map(|path| Ok(steps(&Tensor::load(&path)?)));
    let arrays: Vec<Vec<Tensor>> = arrays.collect::<Result<_>>()?;
    let count = arrays.first().ok_or_else(|| format!("there is no {stem}0.npy"))?.len();
    Ok((0..count).map(|step| arrays.iter().map(|array| array[step].clone()).collect()).collect())
}

/// A folder with model.tosa, in0.npy and so on, and ref0.npy and so on; all must be equal bit for bit.
fn check<T: Transport>(client: &Client<T>, folder: &Path) -> Result<()> {
    let artifact = std::fs::read(folder.join("model.tosa"))?;
    let (inputs, expected) = (load(folder, "in")?, load(folder, "ref")?);
    let found = run_steps(client, &artifact, &inputs)?;
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.len(), expected.len());
        for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found != expected {
                return Err(format!("output {number} of step {step} differs").into());
            }
        }
    }
    println!("{}: {} steps are equal", folder.display(), found.len());
    Ok(())
}

#[test]
fn streams_give_what_the_reference_model_gives() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    for folder in data_entries("streams")? {
        check(&client, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(())
}

/// The sum of all inputs so far.
fn accumulator() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", DType::Fp32, &[3]);
    w.variable("sum", DType::Fp32, &[3], &[]);
    w.op("VARIABLE_READ", Attribute::None, &["sum"], "before", DType::Fp32, &[3]);
    w.op("ADD", Attribute::None, &["before", "x"], "after", DType::Fp32, &[3]);
    w.raw("VARIABLE_WRITE", Attribute::None, &["after"], &["sum"]);
    w.output("after");
    w.finish()
}

#[test]
fn a_variable_lives_as_long_as_its_program() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let tensor = |values: [f64; 3]| Tensor::from_f64(Element::F32, &[3], values);
    let inputs: Vec<_> = (0..STEPS).map(|step| vec![tensor([1.0, step as f64, -7.0])]).collect();
    // The second program begins anew.
    for _ in 0..2 {
        let found = run_steps(&client, &accumulator(), &inputs)?;
        for (step, outputs) in found.iter().enumerate() {
            let (count, sum) = ((step + 1) as f64, (step * (step + 1) / 2) as f64);
            assert_eq!(*outputs, [tensor([count, sum, -7.0 * count])], "step {step}");
        }
    }
    Ok(())
}
