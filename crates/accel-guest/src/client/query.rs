//! Questions that the device answers with text (extension QUERY).

use accel_proto::{Extensions, FromBytes, IntoBytes, Opcode, Query, QueryHeader, QueryTopic};
use serde::Deserialize;

use super::{Client, Context, Program};
use crate::error::LoadFailure;
use crate::transport::Transport;
use crate::{Error, Result};

/// No answer is anywhere near this; a device that claims more is wrong.
const LONGEST: u64 = 16 << 20;
/// Room for a piece of the answer.
const PIECE: usize = 64 << 10;

/// A slot of a loaded program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SlotInfo {
    /// Tensor name in the artifact.
    pub name: String,
    /// TOSA type name.
    pub dtype: String,
    /// Dimensions.
    pub shape: Vec<u32>,
    /// Exact bytes that a binding must have.
    pub bytes: u64,
    /// Written by the program.
    pub output: bool,
}

#[derive(Deserialize)]
struct LoadFailureText {
    class: u32,
    message: String,
}

impl<T: Transport> Client<T> {
    /// QUERY: the whole answer to a topic, fetched in pieces. `object` is 0 where the topic needs none.
    ///
    /// # Errors
    /// As every call; [`Error::Argument`] where the device lacks QUERY.
    pub fn query(&self, topic: QueryTopic, object: u64) -> Result<String> {
        self.require(Extensions::QUERY, Opcode::Query)?;
        let room = self.response_room(QueryHeader::BYTES).min(PIECE);
        let mut answer = Vec::new();
        loop {
            let request = Query {
                topic: topic.code().into(),
                reserved: 0.into(),
                object_id: object.into(),
                offset: (answer.len() as u64).into(),
            };
            let asked = || format!("topic {topic:?} of object {object:#x}");
            let reply = self.call(Opcode::Query, &[request.as_bytes()], room, asked)?;
            let (head, piece) = QueryHeader::read_from_prefix(reply.payload())
                .map_err(|_| reply.bad("it is shorter than its head".into()))?;
            let total = head.total_bytes.get();
            if total > LONGEST {
                return Err(reply.bad(format!("it claims to have {total} bytes")));
            }
            answer.extend_from_slice(piece);
            if answer.len() as u64 >= total {
                answer.truncate(total as usize);
                break;
            }
            if piece.is_empty() {
                return Err(reply.bad(format!("it stopped after {} of {total} bytes", answer.len())));
            }
        }
        String::from_utf8(answer).map_err(|_| Error::BadAnswer {
            command: Opcode::Query.name(),
            what: format!("topic {topic:?} is not UTF-8"),
        })
    }

    /// The device's name.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn device_name(&self) -> Result<String> {
        self.query(QueryTopic::DeviceName, 0)
    }

    /// Slots of a program, in slot order.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn slots(&self, program: Program) -> Result<Vec<SlotInfo>> {
        parse(&self.query(QueryTopic::ProgramSlots, program.0)?)
    }

    /// Why the last load of a context was refused; `None` when none was.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn last_load_failure(&self, context: Context) -> Result<Option<LoadFailure>> {
        let text = self.query(QueryTopic::LastLoadError, context.0)?;
        if text.is_empty() {
            return Ok(None);
        }
        let LoadFailureText { class, message } = parse(&text)?;
        Ok((class != 0).then_some(LoadFailure { class, message }))
    }
}

fn parse<A: for<'a> Deserialize<'a>>(text: &str) -> Result<A> {
    serde_json::from_str(text)
        .map_err(|error| Error::BadAnswer { command: Opcode::Query.name(), what: error.to_string() })
}
