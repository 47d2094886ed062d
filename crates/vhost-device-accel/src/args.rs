//! Command line and configuration file.

use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use accel_kernels::Tuning;
use accel_vulkan::Selector;
use clap::{Args, Parser, ValueEnum};
use serde::{Deserialize, Deserializer};

use crate::error::Error;
use crate::vhu_accel::MAX_QUEUES;

/// Queues of a device unless told otherwise.
const DEFAULT_QUEUES: u16 = 2;
/// Virtio id unless told otherwise: video decoder, which has no driver in mainline Linux.
const DEFAULT_VIRTIO_ID: u8 = 31;

/// Gives virtual machines a neural-network accelerator that runs on this host's GPU.
///
/// Start it before the VM, with one socket for each guest, and attach the socket to the VM with the
/// line that --print-vmm shows. The guest's memory must be shared with this process. No GPU needs to be
/// passed through, and a host without one can compute on its CPU (Mesa's lavapipe).
#[derive(Debug, Parser)]
#[command(name = "vhost-device-accel", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// Options that the configuration file knows too.
    #[command(flatten)]
    pub options: Options,

    /// Read options from this TOML file: keys are option names without dashes in front; the command line wins.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// List the devices that --device chooses from, and exit.
    #[arg(long)]
    pub list_devices: bool,

    /// With --list-devices: as JSON.
    #[arg(long, requires = "list_devices")]
    pub json: bool,

    /// Print the options that attach each socket to a guest of this VMM, and exit.
    #[arg(long, value_name = "VMM")]
    pub print_vmm: Option<Vmm>,
}

const AFTER_HELP: &str = "\
Examples:
  vhost-device-accel --socket-path /run/accel.sock
  vhost-device-accel --socket-path /run/a.sock --socket-path /run/b.sock --device radeon --memory-limit 4G
  vhost-device-accel --socket-path /run/accel.sock --print-vmm qemu

The daemon stays in the foreground and serves one guest after another on each socket until SIGINT or
SIGTERM. Its log goes to standard error; RUST_LOG=debug shows more.

Exit codes: 0 ended as asked, 1 the system refused something, 2 an option is wrong, 3 no usable device.";

/// Options that may stand on the command line and in the configuration file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Socket to serve a guest on; repeat it to serve several guests, which share the device.
    #[arg(long, value_name = "PATH")]
    #[serde(deserialize_with = "one_or_many")]
    pub socket_path: Vec<PathBuf>,

    /// Device to compute on: its number or a part of its name in --list-devices, or `cpu` [default: the best one].
    #[arg(long, value_name = "DEVICE")]
    #[serde(deserialize_with = "selector")]
    pub device: Option<Selector>,

    /// Device memory that each guest may hold, such as 512M or 4G [default: 4G].
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<Size>,

    /// Virtqueues of each guest's device, 1 to 16; the VMM's number must not be larger [default: 2].
    #[arg(long, value_name = "N")]
    pub queues: Option<u16>,

    /// Exit when the first front-end of each socket has disconnected.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub once: Option<bool>,

    /// Virtio device id for --print-vmm [default: 31].
    #[arg(long, value_name = "ID")]
    pub virtio_id: Option<u8>,

    /// Directory that keeps compiled pipelines [default: vhost-device-accel in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    pub pipeline_cache: Option<PathBuf>,

    /// Run Vulkan's validation layer, to find defects; slow.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub validation: Option<bool>,

    /// Leave the device's matrix units (cooperative matrices) alone.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_coopmat: Option<bool>,

    /// Figures that decide between kernels, to try others than the tables': matrix.least=1 has every product that can run on matrix units, however small.
    #[arg(long, value_name = "NAME=NUMBER,...")]
    #[serde(deserialize_with = "tuning")]
    pub tuning: Option<Tuning>,
}

/// VMMs that --print-vmm knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Vmm {
    /// QEMU 10.2 or later.
    Qemu,
    /// cloud-hypervisor 52 or later.
    CloudHypervisor,
    /// crosvm.
    Crosvm,
}

/// Options with every default filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// One a guest, each once; may be empty where no guest is to be served.
    pub socket_paths: Vec<PathBuf>,
    /// Device to compute on.
    pub device: Selector,
    /// Bytes for each guest, `None` for the device model's default.
    pub memory_limit: Option<u64>,
    /// 1 to 16.
    pub queues: u16,
    /// Exit after the first front-end.
    pub once: bool,
    /// Virtio device id.
    pub virtio_id: u8,
    /// Where pipelines are kept; `None` where the user has no cache directory.
    pub pipeline_cache: Option<PathBuf>,
    /// Validation layer wanted.
    pub validation: bool,
    /// Matrix units unwanted.
    pub no_coopmat: bool,
    /// For experiments.
    pub tuning: Tuning,
}

impl Cli {
    /// Reads the configuration file, if one is given, and fills in the defaults.
    ///
    /// # Errors
    /// The file cannot be read or has an unknown key or a wrong value; a value is out of range.
    pub fn settings(self) -> Result<Settings, Error> {
        let file = self.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
        self.options.or(file).settings()
    }
}

impl Options {
    /// These options, and the other ones where these say nothing.
    fn or(self, other: Self) -> Self {
        Self {
            socket_path: if self.socket_path.is_empty() { other.socket_path } else { self.socket_path },
            device: self.device.or(other.device),
            memory_limit: self.memory_limit.or(other.memory_limit),
            queues: self.queues.or(other.queues),
            once: self.once.or(other.once),
            virtio_id: self.virtio_id.or(other.virtio_id),
            pipeline_cache: self.pipeline_cache.or(other.pipeline_cache),
            validation: self.validation.or(other.validation),
            no_coopmat: self.no_coopmat.or(other.no_coopmat),
            tuning: self.tuning.or(other.tuning),
        }
    }

    fn settings(self) -> Result<Settings, Error> {
        let queues = self.queues.unwrap_or(DEFAULT_QUEUES);
        if !(1..=MAX_QUEUES).contains(&queues) {
            return Err(Error::Queues { queues });
        }
        for (index, path) in self.socket_path.iter().enumerate() {
            if self.socket_path[..index].contains(path) {
                return Err(Error::SocketTwice { path: path.clone() });
            }
        }
        Ok(Settings {
            socket_paths: self.socket_path,
            device: self.device.unwrap_or_default(),
            memory_limit: self.memory_limit.map(|size| size.0),
            queues,
            once: self.once.unwrap_or_default(),
            virtio_id: self.virtio_id.unwrap_or(DEFAULT_VIRTIO_ID),
            pipeline_cache: self.pipeline_cache.or_else(default_cache),
            validation: self.validation.unwrap_or_default(),
            no_coopmat: self.no_coopmat.unwrap_or_default(),
            tuning: self.tuning.unwrap_or_default(),
        })
    }
}

fn read_config(path: &Path) -> Result<Options, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::ReadConfig { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|source| Error::ParseConfig { path: path.to_owned(), source: Box::new(source) })
}

fn default_cache() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .map(|caches| caches.join("vhost-device-accel"))
}

/// A number of bytes, written with or without a binary unit: `4096`, `512K`, `4G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::Size { text: text.into() };
        let (digits, shift) = match text.char_indices().next_back() {
            Some((end, unit)) if !unit.is_ascii_digit() => {
                let shift = match unit.to_ascii_uppercase() {
                    'K' => 10,
                    'M' => 20,
                    'G' => 30,
                    'T' => 40,
                    _ => return Err(refused()),
                };
                (&text[..end], shift)
            }
            _ => (text, 0),
        };
        let count: u64 = digits.parse().map_err(|_: ParseIntError| refused())?;
        count.checked_mul(1 << shift).filter(|bytes| *bytes > 0).map(Self).ok_or_else(refused)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number of bytes or a string such as \"4G\"")]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

fn selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Selector>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a device's number, a part of its name, or \"cpu\"")]
    enum Written {
        Number(usize),
        Text(String),
    }
    Ok(Some(match Written::deserialize(deserializer)? {
        Written::Number(index) => Selector::Index(index),
        Written::Text(text) => text.parse().unwrap_or_default(),
    }))
}

fn tuning<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tuning>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(serde::de::Error::custom)
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a path or a list of paths")]
    enum Written {
        One(PathBuf),
        Many(Vec<PathBuf>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::One(path) => vec![path],
        Written::Many(paths) => paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let size = |text: &str| text.parse::<Size>().ok().map(|size| size.0);
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("512K"), Some(512 << 10));
        assert_eq!(size("3m"), Some(3 << 20));
        assert_eq!(size("4G"), Some(4 << 30));
        assert_eq!(size("1T"), Some(1 << 40));
        for text in ["", "0", "G", "4GB", "-1", "4.5G", "16777217T", "99999999999999999999", "4µ"] {
            assert_eq!(size(text), None, "{text:?}");
        }
    }

    #[test]
    fn defaults() {
        let settings = Cli::parse_from(["", "--socket-path", "a"]).settings().unwrap();
        assert_eq!((settings.queues, settings.virtio_id, settings.once), (2, 31, false));
        assert_eq!(settings.memory_limit, None);
    }

    #[test]
    fn every_option_may_stand_in_the_file_and_the_line_may_contradict_it() {
        let file: Options = toml::from_str(
            "socket-path = [\"a\", \"b\"]\ndevice = \"cpu\"\nmemory-limit = 4096\nqueues = 4\nonce = true\n\
             virtio-id = 40\npipeline-cache = \"/c\"\nvalidation = true\nno-coopmat = true\n\
             tuning = \"skinny=0\"\n",
        )
        .unwrap();
        let line = Cli::parse_from(["", "--once=false", "--device", "1"]).options;
        let expected = Settings {
            socket_paths: vec!["a".into(), "b".into()],
            device: Selector::Index(1),
            memory_limit: Some(4096),
            queues: 4,
            once: false,
            virtio_id: 40,
            pipeline_cache: Some("/c".into()),
            validation: true,
            no_coopmat: true,
            tuning: "skinny=0".parse().unwrap(),
        };
        assert_eq!(line.or(file).settings().unwrap(), expected);
    }
}
