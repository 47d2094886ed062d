//! Rules of the format that no single vector shows.

use accel_proto::tosa::{self, Target, TargetError};
use accel_proto::*;

#[test]
fn an_oversized_request_is_told_by_its_header_alone() {
    let frame = encode_request(Opcode::WriteBuffer, 7, &[&[0; 200]]);
    let error = decode_request(&frame[..16], frame.len() as u64, 100).unwrap_err();
    assert_eq!(error, FrameError::TooLarge { readable: 216, limit: 100 });
    assert_eq!(error.status(), Some(Status::ResourceLimit));
}

#[test]
fn statuses_round_trip_and_unknown_ones_are_kept() {
    for status in Status::ALL {
        assert_eq!(Status::try_from(u16::from(status)), Ok(status));
    }
    assert_eq!(Status::try_from(12), Err(12));
    assert_eq!(Status::OutOfMemory.to_string(), "OUT_OF_MEMORY");
}

#[test]
fn access_follows_usage() {
    let (input, output, state) = (Usage::PROGRAM_INPUT, Usage::PROGRAM_OUTPUT, Usage::MUTABLE_STATE);
    for (access, allowed) in [
        (Access::Read, [true, false, true]),
        (Access::Write, [false, true, true]),
        (Access::ReadWrite, [false, false, true]),
    ] {
        assert_eq!([input, output, state].map(|usage| access.allowed_by(usage)), allowed, "{access:?}");
    }
    assert!(!Access::ReadWrite.allowed_by(input | output));
    assert_eq!(Usage::from_bits(1 << 5), None);
}

#[test]
fn responses_that_contradict_their_request_are_refused() {
    let mut frame = encode_response(Status::Ok, 5, &[1, 2]);
    assert_eq!(decode_response(&frame, 6), Err(ResponseError::RequestId { got: 5, wanted: 6 }));
    assert_eq!(decode_response(&frame[..17], 5), Err(ResponseError::Length { said: 2, used: 17 }));
    assert_eq!(decode_response(&frame[..9], 5), Err(ResponseError::NoHeader(9)));
    frame[2] = 1;
    assert_eq!(decode_response(&frame, 5), Err(ResponseError::Flags(1)));
}

#[test]
fn a_plain_device_announces_no_extensions() {
    assert_eq!(ExtensionBlock::default().announced(), Extensions::NONE);
    assert_eq!(ExtensionBlock::default().queues(), 1);
}

#[test]
fn target_words_are_checked_one_by_one() {
    let good = Target { profiles: tosa::PROFILE_INTEGER, level: tosa::LEVEL_8K, extensions: tosa::EXT_INT16 };
    assert_eq!(Target::from_words(&good.words()), Ok(good));
    for (word, value, error) in [
        (0, 1, TargetError::Format(1)),
        (1, 2, TargetError::Abi(2)),
        (3, 1, TargetError::Version(1, 1, 0)),
        (5, 0, TargetError::Profiles(0)),
        (5, 4, TargetError::Profiles(4)),
        (5, 2, TargetError::ProfileMissing(1)),
        (6, 2, TargetError::Level(2)),
        (7, 1 << 11, TargetError::Extensions(1 << 11)),
        (7, 4, TargetError::ProfileMissing(4)),
        (8, 1, TargetError::Extensions(1 << 32 | 1)),
        (11, 1, TargetError::Reserved),
    ] {
        let mut words = good.words();
        words[word] = value;
        assert_eq!(Target::from_words(&words), Err(error), "word {word}");
    }
}
