//! The list that --device chooses from.

use accel_kernels::DeviceKind;
use accel_vulkan::DeviceSummary;
use serde_json::json;

/// The devices as a table for people.
#[must_use]
pub fn table(devices: &[DeviceSummary]) -> String {
    if devices.is_empty() {
        return "There is no Vulkan device; the package mesa-vulkan-drivers brings one that needs no GPU.\n"
            .into();
    }
    let mut rows = vec![["NUMBER", "NAME", "KIND", "VULKAN", "DRIVER", "USABLE"].map(String::from)];
    rows.extend(devices.iter().map(|device| {
        [
            device.index.to_string(),
            device.name.clone(),
            kind(device.kind).into(),
            device.api_version.clone(),
            device.driver.clone(),
            device.unsuitable.as_ref().map_or_else(|| "yes".into(), |reason| format!("no, because {reason}")),
        ]
    }));
    let widths: Vec<_> =
        (0..6).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 6]| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// The devices as a JSON array for programs.
#[must_use]
pub fn json(devices: &[DeviceSummary]) -> String {
    let list: Vec<_> = devices
        .iter()
        .map(|device| {
            json!({
                "index": device.index,
                "name": device.name,
                "kind": kind(device.kind),
                "vulkan": device.api_version,
                "driver": device.driver,
                "vendor_id": device.vendor_id,
                "device_id": device.device_id,
                "uuid": device.uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                "unsuitable": device.unsuitable,
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::from(list))
}

fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Discrete => "discrete",
        DeviceKind::Integrated => "integrated",
        DeviceKind::Cpu => "cpu",
    }
}
