//! Networks that leave dimensions of their inputs open, through the daemon's socket.

use std::path::{Path, PathBuf};

use accel_tosa::bind::bind_shapes;
use accel_tosa::writer::opened;
use accel_tosa::{DType, Rule};
use vhost_device_accel_workspace::{Daemon, Element, Result, Tensor, graphs, run};

/// The shape of a tensor as the graph wants it.
fn shape(tensor: &Tensor) -> Vec<u32> {
    tensor.shape.iter().map(|&extent| extent as u32).collect()
}

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(name)
}

/// A convolutional network that does not know the size of its images gives at two sizes what the ones that do give.
#[test]
fn a_network_of_any_size_equals_the_one_of_that_size() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let open = opened(&graphs::convnet(DType::Fp32, 96)?, &[1, 2])?;
    for side in [96, 64] {
        let image = graphs::tensor(7, DType::Fp32, &[1, side, side, 3], 1.0)?;
        let bound = bind_shapes(&open, &[shape(&image)])?;
        let found = run(&client, &bound, std::slice::from_ref(&image))?;
        let known = run(&client, &graphs::convnet(DType::Fp32, side)?, &[image])?;
        assert_eq!((&found[0].shape, &found[0].bytes), (&known[0].shape, &known[0].bytes), "{side}");
    }
    Ok(())
}

/// Real networks whose batch is open: bound to one they are what they were, and several inputs at once give what each alone gives.
#[test]
fn batches_of_real_networks() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    for (name, batch) in [("et_mlp_fp", 5), ("et_mlp_int8", 3), ("et_mbv2_int8", 2)] {
        let artifact = std::fs::read(model(name).join("model.tosa"))?;
        let open = opened(&artifact, &[0])?;
        let input = Tensor::load(&model(name).join("in0.npy"))?;
        let bound = accel_tosa::read(bind_shapes(&open, &[shape(&input)])?)?;
        assert_eq!(bound.nodes, accel_tosa::read(artifact.clone())?.nodes, "{name}");
        let alone = match batch {
            // It takes long to compile, and is exact.
            2 => vec![Tensor::load(&model(name).join("ref0.npy"))?],
            _ => run(&client, &artifact, std::slice::from_ref(&input))?,
        };

        let mut many = input.clone();
        many.shape[0] = batch;
        many.bytes = input.bytes.repeat(batch);
        let many_out = run(&client, &bind_shapes(&open, &[shape(&many)])?, &[many])?;
        assert_eq!(many_out[0].shape[0], batch, "{name}");
        // Sums of floats may be split otherwise for more rows.
        if alone[0].element == Element::I8 {
            assert_eq!(many_out[0].bytes, alone[0].bytes.repeat(batch), "{name}");
        } else {
            let limit = 1e-5;
            let expected = alone[0].to_f64().into_iter().cycle();
            let near = many_out[0].to_f64().into_iter().zip(expected).all(|(a, b)| (a - b).abs() <= limit);
            assert!(near, "{name}");
        }
    }
    Ok(())
}

/// The device says what is missing to a guest that loads an open artifact as it is.
#[test]
fn an_open_artifact_is_refused_until_it_is_bound() -> Result<()> {
    let Some(daemon) = Daemon::start()? else { return Ok(()) };
    let client = daemon.connect()?;
    let open = opened(&graphs::convnet(DType::Fp32, 32)?, &[1, 2])?;
    let image = graphs::tensor(7, DType::Fp32, &[1, 32, 32, 3], 1.0)?;
    let error = run(&client, &open, &[image]).expect_err("its shape is not known");
    let message = error.to_string();
    assert!(message.contains("[1, -1, -1, 3]") && message.contains("must be bound"), "{message}");
    let refusal = bind_shapes(&open, &[vec![1, 32, 31, 3]]).expect_err("the image is not even");
    assert_eq!(refusal.rule, Rule::ErrorIf, "{refusal}");
    Ok(())
}
