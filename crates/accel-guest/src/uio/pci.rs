//! Finding the device on the guest's PCI bus, and its registers in configuration space.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVER: &str = "uio_pci_generic";
/// Red Hat's vendor id, which every virtio device has, and the range of modern virtio devices.
const VENDOR: u16 = 0x1af4;
const VIRTIO: std::ops::RangeInclusive<u16> = 0x1040..=0x107f;

const COMMAND: u64 = 4;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
const CAPABILITIES: usize = 0x34;
const VENDOR_SPECIFIC: u8 = 9;

/// A PCI function that `uio_pci_generic` holds.
pub struct Function {
    folder: PathBuf,
    config: File,
}

impl Function {
    /// The virtio device at `address` (as `0000:01:00.0`), or the first that `uio_pci_generic` holds.
    pub fn find(address: Option<&str>) -> Result<Self> {
        let folder = match address {
            Some(address) => Path::new(DEVICES).join(address),
            None => first_bound()?,
        };
        let config = File::options()
            .read(true)
            .write(true)
            .open(folder.join("config"))
            .map_err(system("open the device's PCI configuration space; this needs root"))?;
        Ok(Self { folder, config })
    }

    /// Name of its node, as `uio0`.
    pub fn node(&self) -> Result<String> {
        let nodes = std::fs::read_dir(self.folder.join("uio"))
            .map_err(system("find the device's UIO node; is uio_pci_generic its driver?"))?;
        let first = nodes.filter_map(std::result::Result::ok).next();
        let name = first.map(|node| node.file_name().to_string_lossy().into_owned());
        name.ok_or_else(|| Error::Incompatible(format!("{} has no UIO node", self.folder.display())))
    }

    /// Path of a memory region that can be mapped.
    pub fn bar(&self, bar: u8) -> PathBuf {
        self.folder.join(format!("resource{bar}"))
    }

    /// Where its virtio registers are.
    pub fn capabilities(&self) -> Result<Capabilities> {
        let mut bytes = [0; 256];
        self.config.read_exact_at(&mut bytes, 0).map_err(system("read PCI configuration space"))?;
        Capabilities::parse(&bytes)
    }

    /// Lets the device reach memory and raise its interrupt line. `uio_pci_generic` closes the line at every
    /// interrupt, so this is called before every sleep.
    pub fn enable(&self) -> Result<()> {
        let mut command = [0; 2];
        self.config.read_exact_at(&mut command, COMMAND).map_err(system("read the PCI command register"))?;
        let command = (u16::from_le_bytes(command) | COMMAND_MASTER) & !COMMAND_INTX_DISABLE;
        self.config
            .write_all_at(&command.to_le_bytes(), COMMAND)
            .map_err(system("write the PCI command register"))
    }
}

fn first_bound() -> Result<PathBuf> {
    let entries = std::fs::read_dir(DEVICES).map_err(system("list PCI devices"))?;
    let mut folders: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    folders.sort();
    let number = |folder: &Path, file| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let bound = |folder: &Path| {
        let driver = std::fs::read_link(folder.join("driver")).ok();
        driver.as_deref().and_then(Path::file_name).is_some_and(|name| name == DRIVER)
    };
    let ours = folders.into_iter().find(|folder| {
        number(folder, "vendor") == Some(VENDOR)
            && number(folder, "device").is_some_and(|device| VIRTIO.contains(&device))
            && bound(folder)
    });
    ours.ok_or_else(|| {
        Error::Incompatible(
            "no virtio device of this machine is bound to uio_pci_generic: load that module, write its name to the device's \
             driver_override in /sys/bus/pci/devices, and the device's address to /sys/bus/pci/drivers_probe"
                .into(),
        )
    })
}

/// A range of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Number of the region.
    pub bar: u8,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
}

/// The four virtio structures (virtio 1.3, section 4.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Common configuration.
    pub common: Range,
    /// Notifications.
    pub notify: Range,
    /// Bytes between two queues' notification registers.
    pub notify_step: usize,
    /// Interrupt status.
    pub isr: Range,
    /// The device's own configuration space.
    pub device: Range,
}

impl Capabilities {
    /// Walks the list of capabilities. The first of each type counts, as the standard asks.
    pub fn parse(config: &[u8; 256]) -> Result<Self> {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&config[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let mut found: [Option<Range>; 5] = [None; 5];
        let mut notify_step = 0;
        let mut at = usize::from(config[CAPABILITIES] & !3);
        // A list that returns to itself ends here too: 48 is how many could be.
        for _ in 0..48 {
            if !(0x40..=0xf0).contains(&at) {
                break;
            }
            let kind = usize::from(config[at + 3]);
            if config[at] == VENDOR_SPECIFIC
                && (1..=4).contains(&kind)
                && found[kind].is_none()
                && config[at + 4] < 6
            {
                let (offset, length) = (word(at + 8) as usize, word(at + 12) as usize);
                found[kind] = Some(Range { bar: config[at + 4], offset, length });
                if kind == 2 && at + 20 <= config.len() {
                    notify_step = word(at + 16) as usize;
                }
            }
            at = usize::from(config[at + 1] & !3);
        }
        let [_, Some(common), Some(notify), Some(isr), Some(device)] = found else {
            let text = "it lacks a virtio capability; only modern (non-transitional) virtio is spoken";
            return Err(Error::Incompatible(text.into()));
        };
        Ok(Self { common, notify, notify_step, isr, device })
    }
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(config: &mut [u8; 256], at: usize, next: u8, kind: u8, offset: u32, step: u32) {
        config[at..at + 5].copy_from_slice(&[9, next, 20, kind, 4]);
        config[at + 8..at + 12].copy_from_slice(&offset.to_le_bytes());
        config[at + 12..at + 16].copy_from_slice(&0x1000u32.to_le_bytes());
        config[at + 16..at + 20].copy_from_slice(&step.to_le_bytes());
    }

    fn complete() -> [u8; 256] {
        let mut config = [0; 256];
        config[CAPABILITIES] = 0x40;
        capability(&mut config, 0x40, 0x54, 1, 0, 0);
        capability(&mut config, 0x54, 0x68, 3, 0x1000, 0);
        capability(&mut config, 0x68, 0x7c, 4, 0x2000, 0);
        capability(&mut config, 0x7c, 0x90, 2, 0x3000, 4);
        // Another way to the same registers; not the first, so it does not count.
        capability(&mut config, 0x90, 0, 1, 0x9000, 0);
        config
    }

    #[test]
    fn the_first_capability_of_each_type_is_taken() {
        let found = Capabilities::parse(&complete()).unwrap();
        assert_eq!(found.common, Range { bar: 4, offset: 0, length: 0x1000 });
        assert_eq!(found.notify, Range { bar: 4, offset: 0x3000, length: 0x1000 });
        assert_eq!((found.isr.offset, found.device.offset, found.notify_step), (0x1000, 0x2000, 4));
    }

    #[test]
    fn a_list_that_is_short_circular_or_broken_is_refused() {
        assert!(Capabilities::parse(&[0; 256]).is_err());
        assert!(Capabilities::parse(&[0xff; 256]).is_err());
        let mut circular = complete();
        circular[0x68 + 1] = 0x40;
        assert!(Capabilities::parse(&circular).is_err());
        let mut last = complete();
        last[0x7c + 3] = 1;
        capability(&mut last, 0x90, 0xf0, 1, 0, 0);
        last[0xf0..0xf4].copy_from_slice(&[9, 0, 16, 2]);
        assert_eq!(Capabilities::parse(&last).unwrap().notify_step, 0, "no room for a step at the end");
    }
}
