//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Drives the accelerator: a vhost-device-accel daemon from the host, or the device of a virtual machine from inside.
#[derive(Debug, Parser)]
#[command(name = "accelctl", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// Where the device is.
    #[command(flatten)]
    pub target: Target,

    /// Print JSON instead of words.
    #[arg(long, global = true)]
    pub json: bool,

    /// Show the log, and the daemon's with --spawn.
    #[arg(short, long, global = true)]
    pub verbose: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Without --socket, --char-device or --uio a private daemon is started and stopped again (--spawn).

Exit codes: 0 ran, 1 unpredictable (or, for verify, different), 2 refused by the rules of TOSA, 3 anything else.";

/// Where the device is.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Socket of a running vhost-device-accel.
    #[arg(long, value_name = "PATH", global = true, conflicts_with_all = ["spawn", "daemon", "device"])]
    pub socket: Option<PathBuf>,

    /// In a virtual machine: the node of the kernel module virtio_accel, /dev/accel/accel0 or /dev/vaccel0.
    #[arg(long, value_name = "NODE", global = true, conflicts_with_all = ["socket", "uio", "spawn", "daemon", "device"])]
    pub char_device: Option<PathBuf>,

    /// In a virtual machine: drive the device over uio_pci_generic, without the kernel module. Needs root and huge pages.
    #[arg(long, global = true, conflicts_with_all = ["socket", "spawn", "daemon", "device"])]
    pub uio: bool,

    /// Start a private daemon; the default without --socket.
    #[arg(long, global = true)]
    pub spawn: bool,

    /// The daemon's program to start [default: vhost-device-accel beside this program, or in PATH].
    #[arg(long, value_name = "PATH", global = true)]
    pub daemon: Option<PathBuf>,

    /// Device for the private daemon: its number, a part of its name, or `cpu`.
    #[arg(long, value_name = "DEVICE", global = true)]
    pub device: Option<String>,
}

/// Extents, outermost first.
#[derive(Clone, Debug)]
pub struct Shape(pub Vec<u32>);

fn shape(text: &str) -> Result<Shape, String> {
    let extents = text.split('x').map(|extent| extent.parse().ok().filter(|&extent| extent > 0));
    extents
        .collect::<Option<_>>()
        .map(Shape)
        .ok_or_else(|| "write extents with x between them, such as 1x37x80".into())
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the device: name, limits, extensions, operators.
    Info,
    /// Say whether a model would run. Needs no device.
    Check {
        /// Model.
        model: PathBuf,
        /// A shape for an input of a model that leaves it open, in the model's order, such as 1x37x80.
        #[arg(long, value_name = "SHAPE", num_args = 1.., value_parser = shape)]
        shape: Vec<Shape>,
        /// List the kernels that it becomes.
        #[arg(long)]
        plan: bool,
    },
    /// Write a model that leaves dimensions of its inputs open with those and all that follow from them. Needs no device.
    Bind {
        /// Model.
        model: PathBuf,
        /// A shape for each input, in the model's order, such as 1x37x80.
        #[arg(long, value_name = "SHAPE", num_args = 1.., required = true, value_parser = shape)]
        shape: Vec<Shape>,
        /// The file to write.
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Run a model and write its outputs. Dimensions that it leaves open are those of the inputs.
    Run {
        /// Model.
        model: PathBuf,
        /// An input as FILE.npy, in the model's order, or NAME=FILE.npy.
        #[arg(long, value_name = "[NAME=]FILE.npy", num_args = 1..)]
        input: Vec<String>,
        /// Write every output there as NAME.npy.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
        /// Run so often, and report the shortest and the middle time.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
    },
    /// Run conformance tests: read desc.json, write the outputs that it names.
    Sut {
        /// The test's desc.json.
        #[arg(required_unless_present = "batch")]
        desc: Option<PathBuf>,
        /// Run many tests over one connection: a folder with desc.json files somewhere below, or a file that lists
        /// them, one a line; from standard input when absent.
        #[arg(long, value_name = "DIR|LIST", num_args = 0..=1, default_missing_value = "-", conflicts_with = "desc")]
        batch: Option<PathBuf>,
        /// Write outputs there instead of beside desc.json.
        #[arg(long, value_name = "DIR", conflicts_with = "batch")]
        output_dir: Option<PathBuf>,
    },
    /// Run a model and compare its outputs with expected ones; exit code 1 when they differ.
    ///
    /// Integers and booleans must be equal. Floats may differ by a fraction of the expected tensor's largest magnitude.
    Verify {
        /// Model.
        model: PathBuf,
        /// An input as FILE.npy, in the model's order, or NAME=FILE.npy.
        #[arg(long, value_name = "[NAME=]FILE.npy", num_args = 1..)]
        input: Vec<String>,
        /// The expected outputs, in the model's order; float64 is accepted for any float type.
        #[arg(long, value_name = "FILE.npy", num_args = 1.., required = true)]
        expect: Vec<PathBuf>,
        /// The fraction [default: 1e-4 for FP32, 1e-2 for FP16, 5e-2 for BF16, 0.25 for FP8].
        #[arg(long, value_name = "X")]
        rtol: Option<f64>,
    },
}
