//! Cooperative matrices: which shapes a device offers, and which of them are right.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};

use accel_kernels::{MatrixProbe, MatrixTuple};
use ash::{khr, vk};

use crate::features::Features;
use crate::instance::Instance;
use crate::{Engine, Error, Finished, MemoryKind, Outcome};

/// The subgroup shapes that the driver lists, each once: same type for both operands, and one for accumulator and
/// result.
pub(crate) fn offered(
    instance: &Instance,
    device: vk::PhysicalDevice,
    features: &Features,
) -> Vec<MatrixTuple> {
    if !features.subgroup_matrices() {
        return Vec::new();
    }
    let functions = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the instance and its physical devices are alive, and the device has the extension.
    let listed = unsafe { functions.get_physical_device_cooperative_matrix_properties(device) };
    let mut seen = HashSet::new();
    let usable = listed.unwrap_or_default().into_iter().filter(|p| {
        p.scope == vk::ScopeKHR::SUBGROUP
            && p.saturating_accumulation == vk::FALSE
            && p.a_type == p.b_type
            && p.c_type == p.result_type
            && (p.a_type.as_raw() != MatrixTuple::BFLOAT16 || features.bfloat16_matrices())
    });
    usable
        .map(|p| MatrixTuple {
            m: p.m_size,
            n: p.n_size,
            k: p.k_size,
            operand: p.a_type.as_raw(),
            result: p.result_type.as_raw(),
        })
        .filter(|tuple| seen.insert(*tuple))
        .collect()
}

/// Shapes by what a test of them said.
#[derive(Default)]
pub(crate) struct Tested {
    /// Those that give the right product, one for each pair of types.
    pub(crate) right: Vec<MatrixTuple>,
    /// Those that do not.
    pub(crate) wrong: Vec<MatrixTuple>,
    /// Whether operands of the right ones can be packed.
    pub(crate) packs: bool,
}

/// Tests those of `offered` that our kernels would use.
pub(crate) fn test(engine: &Engine, offered: &[MatrixTuple]) -> Tested {
    let mut tested = Tested { packs: true, ..Tested::default() };
    for &tuple in offered {
        let known = tested.right.iter().any(|p| p.operand == tuple.operand && p.result == tuple.result);
        let probe = MatrixProbe::new(engine.caps(), tuple, false).filter(|_| !known);
        let Some(probe) = probe else { continue };
        match passes(engine, probe) {
            Ok(true) => {
                tested.right.push(tuple);
                tested.packs &= packs(engine, tuple);
            }
            Ok(false) => {
                log::warn!("the driver multiplies {tuple:?} wrongly: these matrices are not used");
                tested.wrong.push(tuple);
            }
            Err(error) => {
                log::warn!("the driver cannot run {tuple:?}, so these matrices are not used: {error}");
                tested.wrong.push(tuple);
            }
        }
    }
    tested
}

/// Whether a shape that is right gives the right product of packed operands too, as far as kernels would pack them.
fn packs(engine: &Engine, tuple: MatrixTuple) -> bool {
    let Some(probe) = MatrixProbe::new(engine.caps(), tuple, true) else { return true };
    let result = passes(engine, probe);
    if !matches!(result, Ok(true)) {
        log::warn!("operands of {tuple:?} cannot be packed, so products take longer: {result:?}");
    }
    matches!(result, Ok(true))
}

fn passes(engine: &Engine, probe: MatrixProbe) -> Result<bool, Error> {
    let program = Arc::new(engine.load(probe.plan)?);
    let buffer = |bytes: &[u8]| {
        let buffer = engine.allocate(bytes.len() as u64, MemoryKind::Device)?;
        buffer.write(0, bytes)?;
        Ok::<_, Error>((Arc::new(buffer), 0))
    };
    let inputs = [buffer(&probe.inputs[0])?, buffer(&probe.inputs[1])?];
    // Not the zeros that some of the sums are.
    let outputs = [buffer(&vec![0xa5; probe.expected.len()])?];
    let (send, receive) = mpsc::channel();
    let finish = Box::new(move |finished: Finished| {
        // The receiver waits, so it is there.
        let _ = send.send(finished.outcome);
    });
    engine.create_queue()?.submit(&program, &inputs, &outputs, None, finish)?;
    if receive.recv() != Ok(Outcome::Complete) {
        return Ok(false);
    }
    let mut result = vec![0; probe.expected.len()];
    outputs[0].0.read(0, &mut result)?;
    Ok(result == probe.expected)
}
