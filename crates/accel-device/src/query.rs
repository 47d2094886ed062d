//! QUERY: answers in text, in pieces as large as the driver has room for.

use std::sync::Arc;

use accel_proto::{HEADER_BYTES, IntoBytes, QueryHeader, QueryTopic, Status};
use serde_json::json;

use crate::answer::Answer;
use crate::backend::Backend;
use crate::device::Device;

impl<B: Backend> Device<B> {
    /// `writable` is the room for the whole response, and has it for an empty piece at least.
    pub(crate) fn query(
        &self,
        topic: QueryTopic,
        object: u64,
        offset: u64,
        writable: u64,
    ) -> Result<Answer, Status> {
        let text = self.text(topic, object)?;
        let room = writable.min(u64::from(self.config.max_response_bytes));
        let room = usize::try_from(room).unwrap_or(usize::MAX) - HEADER_BYTES - QueryHeader::BYTES;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let piece = &text.as_bytes()[start..];
        let piece = &piece[..piece.len().min(room)];
        let header = QueryHeader { total_bytes: (text.len() as u64).into() };
        Ok(Answer::of(&[header.as_bytes(), piece]))
    }

    fn text(&self, topic: QueryTopic, object: u64) -> Result<String, Status> {
        let info = self.backend.info();
        Ok(match topic {
            QueryTopic::DeviceName => info.name.clone(),
            QueryTopic::Operators => info.operators_json.clone(),
            QueryTopic::ProgramSlots => {
                let program = Arc::clone(&self.lock().programs.get(object)?.object);
                let slots = self.backend.slots(&program.handle);
                let slots: Vec<_> = slots
                    .iter()
                    .map(|slot| {
                        json!({
                            "name": slot.name,
                            "dtype": slot.dtype,
                            "shape": slot.shape,
                            "bytes": slot.bytes,
                            "output": slot.output,
                        })
                    })
                    .collect();
                json!(slots).to_string()
            }
            QueryTopic::LastLoadError => {
                let state = self.lock();
                let error = state.contexts.get(object)?.last_load_error.as_ref();
                json!({
                    "status": error.map_or(Status::Ok, |error| error.status).code(),
                    "class": error.map_or(0, |error| error.class),
                    "message": error.map_or("", |error| error.message.as_str()),
                })
                .to_string()
            }
            QueryTopic::Limits => json!({
                "max_request_bytes": self.config.max_request_bytes,
                "max_response_bytes": self.config.max_response_bytes,
                "max_chain_descriptors": self.config.max_chain_descriptors,
                "command_queues": self.config.command_queues,
                "max_artifact_bytes": self.config.max_artifact_bytes,
                "max_buffer_bytes": self.info.max_buffer_bytes.get(),
                "max_bindings_per_submission": self.config.max_bindings_per_submission,
                "memory_limit_bytes": self.config.memory_limit_bytes,
                "memory_used_bytes": self.memory_used(),
            })
            .to_string(),
        })
    }
}
