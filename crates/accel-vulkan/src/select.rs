//! Lists devices and chooses one.

use std::fmt;
use std::str::FromStr;

use accel_kernels::DeviceKind;
use ash::vk;

use crate::Error;
use crate::features::{Features, Properties};
use crate::instance::Instance;

/// Which device to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// The best: discrete before integrated before CPU, the lower index among equals.
    #[default]
    Best,
    /// Position in [`devices`].
    Index(usize),
    /// The first CPU implementation.
    Cpu,
    /// The first device whose name contains this, in any case.
    Name(String),
}

impl FromStr for Selector {
    type Err = std::convert::Infallible;

    /// Empty or `auto` is the best, `cpu` a CPU implementation, digits an index, anything else part of a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "" | "auto" => Self::Best,
            "cpu" => Self::Cpu,
            _ => text.parse().map_or_else(|_| Self::Name(text.into()), Self::Index),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("auto"),
            Self::Index(index) => write!(f, "{index}"),
            Self::Cpu => f.write_str("cpu"),
            Self::Name(part) => f.write_str(part),
        }
    }
}

/// A Vulkan device of this machine.
#[derive(Clone, Debug)]
pub struct DeviceSummary {
    /// Position, for [`Selector::Index`].
    pub index: usize,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: DeviceKind,
    /// Name and version of the driver.
    pub driver: String,
    /// Vulkan version, for example `1.3.281`.
    pub api_version: String,
    /// Stable id of the physical device.
    pub uuid: [u8; 16],
    /// PCI-style vendor id.
    pub vendor_id: u32,
    /// Device id.
    pub device_id: u32,
    /// Why the device cannot be used: a clause that goes on after "because".
    pub unsuitable: Option<String>,
}

/// A physical device and what is known of it.
pub(crate) struct Candidate {
    pub(crate) handle: vk::PhysicalDevice,
    pub(crate) features: Features,
    pub(crate) properties: Properties,
    /// Compute family, and a transfer-only family where there is one.
    pub(crate) families: Option<(Family, Option<u32>)>,
}

/// A queue family that computes.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    pub(crate) index: u32,
    pub(crate) timestamp_bits: u32,
}

impl Candidate {
    /// All devices in the loader's order.
    pub(crate) fn all(instance: &Instance) -> Result<Vec<Self>, Error> {
        // SAFETY: the instance is alive.
        let handles = unsafe { instance.raw.enumerate_physical_devices() }
            .map_err(Error::of("vkEnumeratePhysicalDevices"))?;
        Ok(handles
            .into_iter()
            .map(|handle| {
                let features = Features::query(&instance.raw, handle);
                let properties = Properties::query(instance, handle, &features);
                let families = families(&instance.raw, handle);
                Self { handle, features, properties, families }
            })
            .collect())
    }

    fn unsuitable(&self) -> Option<String> {
        if let Some(reason) = self.properties.unsuitable {
            return Some(reason.into());
        }
        if let Some(feature) = self.features.missing() {
            return Some(format!("it lacks the feature {feature}"));
        }
        self.families.is_none().then(|| "it has no queue for compute".into())
    }

    fn summary(&self, index: usize) -> DeviceSummary {
        let p = &self.properties;
        let version = p.api_version;
        DeviceSummary {
            index,
            name: p.caps.name.clone(),
            kind: p.caps.kind,
            driver: p.driver.clone(),
            api_version: format!(
                "{}.{}.{}",
                vk::api_version_major(version),
                vk::api_version_minor(version),
                vk::api_version_patch(version)
            ),
            uuid: p.uuid,
            vendor_id: p.vendor_id,
            device_id: p.device_id,
            unsuitable: self.unsuitable(),
        }
    }
}

/// Lists the Vulkan devices of this machine, unusable ones with the reason.
///
/// # Errors
/// [`Error::Loader`] without a Vulkan loader, [`Error::Vulkan`] when the driver fails.
pub fn devices() -> Result<Vec<DeviceSummary>, Error> {
    let instance = Instance::new(false)?;
    Ok(Candidate::all(&instance)?.iter().enumerate().map(|(index, c)| c.summary(index)).collect())
}

/// The candidate that `selector` means.
pub(crate) fn choose(mut candidates: Vec<Candidate>, selector: &Selector) -> Result<Candidate, Error> {
    let summaries: Vec<_> = candidates.iter().enumerate().map(|(index, c)| c.summary(index)).collect();
    match position(&summaries, selector) {
        Some(index) => Ok(candidates.swap_remove(index)),
        None => Err(Error::NoDevice { wanted: selector.to_string(), found: describe(&summaries) }),
    }
}

/// Position of the usable device that `selector` means.
fn position(devices: &[DeviceSummary], selector: &Selector) -> Option<usize> {
    let rank = |kind| match kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Cpu => 2,
    };
    let mut usable = devices.iter().filter(|d| d.unsuitable.is_none());
    let found = match selector {
        Selector::Best => usable.min_by_key(|d| rank(d.kind)),
        Selector::Index(index) => usable.find(|d| d.index == *index),
        Selector::Cpu => usable.find(|d| d.kind == DeviceKind::Cpu),
        Selector::Name(part) => usable.find(|d| d.name.to_lowercase().contains(&part.to_lowercase())),
    };
    found.map(|d| d.index)
}

fn describe(devices: &[DeviceSummary]) -> String {
    if devices.is_empty() {
        return "none, there is no Vulkan driver (mesa-vulkan-drivers brings one that needs no GPU)".into();
    }
    let one = |d: &DeviceSummary| match &d.unsuitable {
        Some(reason) => format!("{} {} (cannot be used because {reason})", d.index, d.name),
        None => format!("{} {}", d.index, d.name),
    };
    devices.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn families(instance: &ash::Instance, device: vk::PhysicalDevice) -> Option<(Family, Option<u32>)> {
    // SAFETY: the instance and its physical devices are alive.
    let families = unsafe { instance.get_physical_device_queue_family_properties(device) };
    let with = |wanted: vk::QueueFlags, unwanted: vk::QueueFlags| {
        families.iter().position(|f| f.queue_flags.contains(wanted) && !f.queue_flags.intersects(unwanted))
    };
    // A family without graphics is the asynchronous compute queue of a GPU.
    let index = with(vk::QueueFlags::COMPUTE, vk::QueueFlags::GRAPHICS)
        .or_else(|| with(vk::QueueFlags::COMPUTE, vk::QueueFlags::empty()))?;
    let bits = families.get(index)?.timestamp_valid_bits;
    let family = Family { index: u32::try_from(index).ok()?, timestamp_bits: bits };
    let transfer = with(vk::QueueFlags::TRANSFER, vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS);
    Some((family, transfer.and_then(|t| u32::try_from(t).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: usize, name: &str, kind: DeviceKind, unsuitable: Option<&str>) -> DeviceSummary {
        DeviceSummary {
            index,
            name: name.into(),
            kind,
            driver: String::new(),
            api_version: "1.3.0".into(),
            uuid: [0; 16],
            vendor_id: 0,
            device_id: 0,
            unsuitable: unsuitable.map(Into::into),
        }
    }

    #[test]
    fn selectors_choose_as_documented() {
        let devices = [
            device(0, "llvmpipe", DeviceKind::Cpu, None),
            device(1, "Old Card", DeviceKind::Discrete, Some("it lacks the feature shaderInt8")),
            device(2, "Iris", DeviceKind::Integrated, None),
            device(3, "Radeon", DeviceKind::Discrete, None),
        ];
        let pick = |text: &str| position(&devices, &text.parse().expect("infallible"));
        assert_eq!(pick(""), Some(3));
        assert_eq!(pick("auto"), Some(3));
        assert_eq!(pick("cpu"), Some(0));
        assert_eq!(pick("2"), Some(2));
        assert_eq!(pick("1"), None, "an unusable device is not chosen");
        assert_eq!(pick("radeon"), Some(3));
        assert_eq!(pick("geforce"), None);
        assert!(
            describe(&devices)
                .contains("1 Old Card (cannot be used because it lacks the feature shaderInt8)")
        );
    }
}
