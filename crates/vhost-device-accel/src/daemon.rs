//! The running daemon: a device and a thread for each socket, until a signal ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use accel_device::{Backend, Device, DeviceConfig};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Settings;
use crate::error::Error;
use crate::server::{Server, Stop};

/// Serves every socket of `settings`, with a device of its own over the shared `backend`, until SIGINT or
/// SIGTERM, or until each has served one front-end where the settings say so.
///
/// # Errors
/// No socket is given, a socket cannot be bound, or the system refuses something.
pub fn run<B: Backend>(settings: &Settings, backend: &Arc<B>) -> Result<(), Error> {
    if settings.socket_paths.is_empty() {
        return Err(Error::NoSocket);
    }
    let stop = Arc::new(Stop::new()?);
    // Before there are socket files that a signal would leave behind.
    stop_on_signals(Arc::clone(&stop))?;
    let servers = settings
        .socket_paths
        .iter()
        .map(|path| {
            let device = Device::new(Arc::clone(backend), device_config(settings));
            Server::bind(path, device, settings.queues, Arc::clone(&stop))
        })
        .collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = servers
            .into_iter()
            .map(|mut server| {
                scope.spawn(move || {
                    let end = server.serve(settings.once);
                    if end.is_err() {
                        stop.stop();
                    }
                    end
                })
            })
            .collect();
        // Joins all before it tells the first failure.
        threads.into_iter().map(join).fold(Ok(()), Result::and)
    })?;
    log::info!("ended");
    Ok(())
}

fn device_config(settings: &Settings) -> DeviceConfig {
    let defaults = DeviceConfig::default();
    DeviceConfig {
        command_queues: settings.queues,
        memory_limit_bytes: settings.memory_limit.unwrap_or(defaults.memory_limit_bytes),
        ..defaults
    }
}

fn join(thread: ScopedJoinHandle<'_, Result<(), Error>>) -> Result<(), Error> {
    thread.join().unwrap_or(Err(Error::Panic))
}

/// Stops the servers at the first signal. The second one ends the process there and then, in case a
/// guest's command takes longer than the user wants to wait.
fn stop_on_signals(stop: Arc<Stop>) -> Result<(), Error> {
    let failed = |source| Error::System { what: "catching signals", source };
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked)).map_err(failed)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                asked.store(true, Ordering::SeqCst);
                log::info!("signal {signal}: ending");
                stop.stop();
            }
        })
        .map_err(failed)?;
    Ok(())
}
