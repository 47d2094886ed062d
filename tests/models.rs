//! Real networks through the daemon's socket, against what the TOSA reference model makes of them.

use std::path::Path;

use accel_guest::{Client, Error, Transport};
use vhost_device_accel_workspace::{Daemon, Element, Result, Tensor, compare, data_entries, run};

/// A folder with model.tosa, in0.npy and so on, and for each output what the reference model gives in its normal
/// precision (ref0.npy) and, for networks with floats, in double precision (ref_fp640.npy).
fn check<T: Transport>(client: &Client<T>, folder: &Path) -> Result<String> {
    let artifact = std::fs::read(folder.join("model.tosa"))?;
    let numbered = |stem: &str, number: usize| folder.join(format!("{stem}{number}.npy"));
    let inputs: Vec<Tensor> = (0..)
        .map(|number| numbered("in", number))
        .take_while(|path| path.exists())
        .map(|path| Tensor::load(&path))
        .collect::<Result<_>>()?;
    let outputs = match run(client, &artifact, &inputs) {
        Err(error) if needs_bf16(&inputs) => return refused_for_bf16(&*error),
        outputs => outputs?,
    };
    if outputs.is_empty() {
        return Err("it has no outputs".into());
    }
    for (number, output) in outputs.iter().enumerate() {
        let precise = numbered("ref_fp64", number);
        let reference =
            if output.element.is_float() && precise.exists() { precise } else { numbered("ref", number) };
        compare(output, &Tensor::load(&reference)?).map_err(|error| format!("output {number}: {error}"))?;
    }
    Ok("right".into())
}

fn needs_bf16(inputs: &[Tensor]) -> bool {
    inputs.iter().any(|input| input.element == Element::Bf16)
}

/// A network that needs BF16 may be refused, but only for that.
fn refused_for_bf16(error: &(dyn std::error::Error + 'static)) -> Result<String> {
    let reason = error.downcast_ref::<Error>().and_then(Error::load_failure);
    match reason {
        Some(reason) if reason.message.contains("BF16") => Ok(format!("refused: {}", reason.message)),
        _ => Err(format!("it may be refused for BF16 only, but: {error}").into()),
    }
}

#[test]
fn every_model_gives_what_the_reference_model_gives() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let folders = data_entries("models")?;
    assert!(folders.len() >= 6, "the repository's own six models are missing");
    let client = daemon.connect()?;
    println!("on {}", client.device_name()?);
    let mut wrong = Vec::new();
    for folder in folders {
        match check(&client, &folder) {
            Ok(said) => println!("{}: {said}", folder.display()),
            Err(error) => wrong.push(format!("{}: {error}", folder.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
