//! What the host lets a device be.

use accel_proto::{
    Capabilities, ConfigSpace, DeviceInfo, Extensions, MAX_BINDINGS, MAX_CHAIN_DESCRIPTORS, MAX_FRAME_BYTES,
    MIN_CHAIN_DESCRIPTORS, MIN_REQUEST_BYTES, MIN_RESPONSE_BYTES,
};

use crate::backend::BackendInfo;

/// Header and LOAD_PROGRAM head: bytes of a request that are not artifact.
const LOAD_OVERHEAD: u64 = 96;

/// Limits of a device. Values outside what the protocol allows are moved to the nearest that it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Descriptors of a chain, readable and writable together: 2 to 256.
    pub max_chain_descriptors: u16,
    /// Bytes of a request with its header: 97 to 16 MiB.
    pub max_request_bytes: u32,
    /// Bytes of a response with its header: 92 to 16 MiB.
    pub max_response_bytes: u32,
    /// Command virtqueues that the device is served on, at least 1.
    pub command_queues: u16,
    /// Living contexts.
    pub max_contexts: u32,
    /// Living buffers of a context.
    pub max_buffers_per_context: u32,
    /// Living programs of a context.
    pub max_programs_per_context: u32,
    /// Living execution queues of a context.
    pub max_queues_per_context: u32,
    /// Living events of a context, running EXECUTE requests included.
    pub max_events_per_context: u32,
    /// Bindings of a submission: 1 to 4096.
    pub max_bindings_per_submission: u32,
    /// Bytes of a LOAD_PROGRAM artifact: at most `max_request_bytes` less 96.
    pub max_artifact_bytes: u64,
    /// Bytes that all buffers and programs of the guest may hold together.
    pub memory_limit_bytes: u64,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            max_chain_descriptors: MAX_CHAIN_DESCRIPTORS,
            max_request_bytes: MAX_FRAME_BYTES,
            max_response_bytes: MAX_FRAME_BYTES,
            command_queues: 1,
            max_contexts: 16,
            max_buffers_per_context: 4096,
            max_programs_per_context: 256,
            max_queues_per_context: 16,
            max_events_per_context: 1024,
            max_bindings_per_submission: MAX_BINDINGS,
            max_artifact_bytes: u64::MAX,
            memory_limit_bytes: 4 << 30,
        }
    }
}

/// Extensions that the device model serves over any backend.
const EXTENSIONS: Extensions = Extensions::EXECUTE
    .union(Extensions::WAIT_EVENT)
    .union(Extensions::LOAD_PROGRAM_FROM_BUFFER)
    .union(Extensions::QUERY)
    .union(Extensions::COPY_BUFFER);

impl DeviceConfig {
    /// The same with every value inside the protocol's range.
    pub(crate) fn sanitized(self) -> Self {
        let max_request_bytes = self.max_request_bytes.clamp(MIN_REQUEST_BYTES, MAX_FRAME_BYTES);
        let frame_artifact = u64::from(max_request_bytes) - LOAD_OVERHEAD;
        Self {
            max_chain_descriptors: self
                .max_chain_descriptors
                .clamp(MIN_CHAIN_DESCRIPTORS, MAX_CHAIN_DESCRIPTORS),
            max_request_bytes,
            max_response_bytes: self.max_response_bytes.clamp(MIN_RESPONSE_BYTES, MAX_FRAME_BYTES),
            command_queues: self.command_queues.max(1),
            max_contexts: self.max_contexts.max(1),
            max_buffers_per_context: self.max_buffers_per_context.max(1),
            max_programs_per_context: self.max_programs_per_context.max(1),
            max_queues_per_context: self.max_queues_per_context.max(1),
            max_events_per_context: self.max_events_per_context.max(1),
            max_bindings_per_submission: self.max_bindings_per_submission.clamp(1, MAX_BINDINGS),
            max_artifact_bytes: self.max_artifact_bytes.clamp(1, frame_artifact),
            memory_limit_bytes: self.memory_limit_bytes.max(1),
        }
    }

    /// Configuration space of the device.
    pub(crate) fn config_space(&self) -> ConfigSpace {
        ConfigSpace::new(
            self.max_chain_descriptors,
            self.max_request_bytes,
            self.max_response_bytes,
            self.command_queues,
            EXTENSIONS,
        )
    }

    /// Answer to GET_DEVICE_INFO over this backend.
    pub(crate) fn device_info(&self, backend: &BackendInfo) -> DeviceInfo {
        let capabilities = backend
            .domains
            .iter()
            .fold(Capabilities::EVENT_CANCELLATION, |set, domain| set | domain.capability());
        DeviceInfo {
            uuid: backend.uuid,
            class: backend.class.into(),
            reserved: 0.into(),
            vendor_id: backend.vendor_id.into(),
            device_id: backend.device_id.into(),
            capabilities: capabilities.bits().into(),
            max_contexts: self.max_contexts.into(),
            max_buffers_per_context: self.max_buffers_per_context.into(),
            max_programs_per_context: self.max_programs_per_context.into(),
            max_queues_per_context: self.max_queues_per_context.into(),
            max_events_per_context: self.max_events_per_context.into(),
            max_bindings_per_submission: self.max_bindings_per_submission.into(),
            max_buffer_bytes: backend.max_buffer_bytes.min(self.memory_limit_bytes).max(1).into(),
            max_artifact_bytes: self.max_artifact_bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_the_protocol_move_inside() {
        let smallest = DeviceConfig {
            max_chain_descriptors: 0,
            max_request_bytes: 0,
            max_response_bytes: 0,
            command_queues: 0,
            max_bindings_per_submission: 0,
            max_artifact_bytes: 0,
            ..DeviceConfig::default()
        };
        assert!(smallest.sanitized().config_space().prefix.is_usable());
        let largest = DeviceConfig {
            max_chain_descriptors: u16::MAX,
            max_request_bytes: u32::MAX,
            max_response_bytes: u32::MAX,
            max_bindings_per_submission: u32::MAX,
            ..DeviceConfig::default()
        }
        .sanitized();
        assert!(largest.config_space().prefix.is_usable());
        assert_eq!(largest.max_bindings_per_submission, 4096);
        assert_eq!(largest.max_artifact_bytes, u64::from(MAX_FRAME_BYTES) - 96);
    }
}
