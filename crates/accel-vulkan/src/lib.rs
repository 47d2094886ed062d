//! Runs a plan on a Vulkan device.
