//! What the client does with answers that no sound device gives, over a transport that has them ready.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Mutex;
use std::time::Duration;

use accel_guest::{Client, Context, Error, Event, EventStatus, Result, Token, Transport};
use accel_proto::{
    ConfigSpace, DeviceInfo, Extensions, FromBytes, IntoBytes, QueryTopic, RequestHeader, Status,
    encode_response,
};

type Answer = Box<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// Gives the same answer to everything but the first request, which is GET_DEVICE_INFO.
struct Canned {
    config: ConfigSpace,
    answer: Answer,
    requests: Mutex<Vec<u64>>,
}

impl Transport for Canned {
    fn config(&self) -> &[u8] {
        self.config.as_bytes()
    }

    fn queues(&self) -> usize {
        1
    }

    fn submit(&self, queue: usize, request: &[&[u8]], _: usize) -> Result<Token> {
        let header = RequestHeader::read_from_bytes(&request.concat()[..16]).unwrap();
        let mut requests = self.requests.lock().unwrap();
        requests.push(header.request_id.get());
        Ok(Token { queue, id: requests.len() as u64 - 1 })
    }

    fn wait(&self, token: Token, _: Option<Duration>) -> Result<Vec<u8>> {
        let id = self.requests.lock().unwrap()[token.id as usize];
        Ok(match token.id {
            0 => encode_response(Status::Ok, id, DeviceInfo::default().as_bytes()),
            _ => (self.answer)(id),
        })
    }

    fn forget(&self, _: Token) {}
}

fn client(answer: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> Client<Canned> {
    let config = ConfigSpace::new(16, 4096, 4096, 1, Extensions::ALL);
    Client::new(Canned { config, answer: Box::new(answer), requests: Mutex::default() }).unwrap()
}

fn complaint(answer: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> String {
    let error = client(answer).create_context().unwrap_err();
    assert!(matches!(error, Error::BadAnswer { command: "CREATE_CONTEXT", .. }), "{error}");
    error.to_string()
}

#[test]
fn answers_that_break_the_protocol_are_told_apart() {
    let id = 7u64.to_le_bytes();
    assert!(complaint(|_| Vec::new()).contains("wrote nothing"));
    assert!(complaint(|_| vec![0; 15]).contains("15 bytes"));
    assert!(
        complaint(move |request| encode_response(Status::Ok, request + 1, &id)).contains("answers request")
    );
    assert!(
        complaint(|request| encode_response(Status::Ok, request, &[0; 7])).contains("7 bytes instead of 8")
    );
    assert!(complaint(|request| encode_response(Status::Ok, request, &[0; 8])).contains("id 0"));
    let unknown = complaint(|request| {
        let mut frame = encode_response(Status::Busy, request, &[]);
        frame[0] = 0x77;
        frame
    });
    assert!(unknown.contains("0x0077"), "{unknown}");
}

#[test]
fn a_status_without_payload_is_not_a_bad_answer() {
    let error = client(|id| encode_response(Status::Busy, id, &[])).destroy_context(Context(9)).unwrap_err();
    assert_eq!(error.to_string(), "DESTROY_CONTEXT failed with BUSY (context 0x9)");
}

#[test]
fn a_query_that_never_ends_or_claims_too_much_is_given_up() {
    let query = |payload: Vec<u8>| {
        client(move |id| encode_response(Status::Ok, id, &payload)).query(QueryTopic::Limits, 0)
    };
    assert!(query(u64::MAX.to_le_bytes().to_vec()).unwrap_err().to_string().contains("claims to have"));
    assert!(query(9u64.to_le_bytes().to_vec()).unwrap_err().to_string().contains("stopped after 0 of 9"));
    assert!(query(vec![1; 7]).unwrap_err().to_string().contains("shorter than its head"));
    let not_text = [&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat();
    assert!(query(not_text).unwrap_err().to_string().contains("not UTF-8"));
    assert_eq!(query([&2u64.to_le_bytes()[..], b"{}"].concat()).unwrap(), "{}");
}

#[test]
fn states_of_events_are_read_and_unknown_ones_refused() {
    let state = |bytes: [u8; 8]| {
        client(move |id| encode_response(Status::Ok, id, &bytes))
            .poll_event(Event(5))
            .map_err(|e| e.to_string())
    };
    assert_eq!(state([0; 8]), Ok(EventStatus::Pending));
    assert_eq!(state([1, 0, 0, 0, 0, 0, 0, 0]), Ok(EventStatus::Complete));
    assert_eq!(state([2, 0, 9, 0, 0, 0, 0, 0]), Ok(EventStatus::Failed(Status::DeviceLost)));
    assert_eq!(state([3, 0, 0, 0, 0, 0, 0, 0]), Ok(EventStatus::Cancelled));
    assert!(state([4, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().contains("unknown state 4"));
}

#[test]
fn a_short_configuration_space_is_refused() {
    struct Short;
    impl Transport for Short {
        fn config(&self) -> &[u8] {
            &[1, 0, 0, 0]
        }
        fn queues(&self) -> usize {
            1
        }
        fn submit(&self, _: usize, _: &[&[u8]], _: usize) -> Result<Token> {
            Err(Error::Gone)
        }
        fn wait(&self, _: Token, _: Option<Duration>) -> Result<Vec<u8>> {
            Err(Error::Gone)
        }
        fn forget(&self, _: Token) {}
    }
    assert!(matches!(Client::new(Short), Err(Error::Incompatible(_))));
}
