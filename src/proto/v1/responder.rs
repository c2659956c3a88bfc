// SPDX-License-Identifier: GPL-2.0

//! Checks of a responder on received calls, and the errors with which it rejects them (RFC 8166,
//! sections 3.4.5, 4.5.1 and 4.5.2).

use super::{
    super::{
        defect::Defect,
        error::RdmaError,
        rpc::direction, //
    },
    header::{
        Body,
        DecodeError,
        Header,
        VERSION, //
    }, //
};

/// Checks the parts of a call that need no more than its header.
///
/// A position beyond the payload, and a call longer than the server accepts, are found when the
/// payload is put together.
///
/// # Errors
///
/// The [`Defect`]; the reply is [`RdmaError::BadHeader`].
pub(crate) fn check(header: &Header<'_>) -> Result<(), Defect> {
    let (chunks, inline) = match &header.body {
        Body::Msg { chunks, payload } => {
            direction(header.xid, payload)?;
            (chunks, true)
        }
        Body::NoMsg { chunks } => (chunks, false),
        // About a call of our own, so there is nothing to check.
        Body::Error(_) => return Ok(()),
    };
    for read in chunks.read.segments() {
        // In a message with an inline payload, position 0 would put a chunk in front of the xid.
        if read.position % 4 != 0 || (inline && read.position == 0) {
            return Err(Defect::Position);
        }
        if read.segment.wraps() {
            return Err(Defect::Wraps);
        }
    }
    if !inline && !chunks.read.segments().any(|read| read.position == 0) {
        return Err(Defect::Position);
    }
    let offered = chunks.write.chunks().chain(chunks.reply);
    if offered
        .flat_map(|chunk| chunk.segments())
        .any(|s| s.wraps())
    {
        return Err(Defect::Wraps);
    }
    Ok(())
}

/// The error with which a responder rejects a message that has no header; `None` to drop it.
pub(crate) fn rejection(error: &DecodeError) -> Option<RdmaError> {
    match error {
        DecodeError::NoPrefix
        | DecodeError::UndecodableError { .. }
        | DecodeError::Defect {
            defect: Defect::Done,
            ..
        } => None,
        DecodeError::Version { .. } => Some(RdmaError::Version {
            low: VERSION,
            high: VERSION,
        }),
        DecodeError::Defect { .. } => Some(RdmaError::BadHeader),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_responder))]
mod tests {
    use super::super::super::vectors::*;
    use super::*;

    // TV-V1-1, 3, 4, 6, 7, 9, 10: nothing wrong.
    #[test]
    fn good_calls() {
        for words in [
            TV_V1_1.as_slice(),
            TV_V1_3.as_slice(),
            TV_V1_4.as_slice(),
            TV_V1_6.as_slice(),
            TV_V1_7.as_slice(),
            TV_V1_9.as_slice(),
            TV_V1_10.as_slice(),
        ] {
            assert_eq!(outcome(&Message::new(words)), Ok(()));
        }
    }

    // TV-M-1..7, 18, V1-15, V1-106, V1-107, V1-114, V1-116: messages without a header.
    #[test]
    fn rejections() {
        let call = Message::new(&TV_V1_1);
        let bad_header = Err(Some(RdmaError::BadHeader));
        assert_eq!(outcome(&call.cut(15)), Err(None));
        assert_eq!(outcome(&call.cut(27)), bad_header);
        let version = RdmaError::Version { low: 1, high: 1 };
        assert_eq!(outcome(&call.put(4, 2)), Err(Some(version)));
        for code in [1, 2, 5] {
            assert_eq!(outcome(&call.put(12, code)), bad_header);
        }
        assert_eq!(outcome(&call.put(12, 3)), Err(None));
        assert_eq!(outcome(&call.put(16, 2)), bad_header);
        assert_eq!(outcome(&Message::new(&TV_V1_9).cut(24)), Err(None));
    }

    // TV-M-8..10, V1-7, V1-71, V1-79: xid and positions.
    #[test]
    fn defects() {
        let call = Message::new(&TV_V1_1).put(28, 0xdead_beef);
        assert_eq!(defect(&call), Some(Defect::XidMismatch));
        assert_eq!(
            defect(&Message::new(&TV_V1_1).cut(35)),
            Some(Defect::ShortPayload)
        );
        let read = Message::new(&TV_V1_3);
        assert_eq!(defect(&read.put(20, 0x82)), Some(Defect::Position));
        assert_eq!(defect(&read.put(44, 0x85)), Some(Defect::Position));
        assert_eq!(defect(&read.put(20, 0).put(44, 0)), Some(Defect::Position));
        assert_eq!(defect(&read.put(44, 0x88)), None);
    }

    // V1-11, V1-48: a Long call has a chunk at position 0, and may have others.
    #[test]
    fn long_calls() {
        let long = Message::new(&TV_V1_7);
        assert_eq!(defect(&long.put(44, 132)), None);
        assert_eq!(defect(&long.put(20, 132)), None);
        assert_eq!(
            defect(&long.put(20, 132).put(44, 132)),
            Some(Defect::Position)
        );
        let reply = Message::new(&TV_V1_8);
        assert_eq!(defect(&reply), Some(Defect::Position));
    }

    // V1-79: segments past the address space, in each list.
    #[test]
    fn wrapping_segments() {
        for (words, at) in [
            (TV_V1_3.as_slice(), 32),
            (TV_V1_4.as_slice(), 108),
            (TV_V1_6.as_slice(), 40),
        ] {
            let message = Message::new(words).put(at, u32::MAX);
            assert_eq!(defect(&message), None);
            let message = message.put(at.wrapping_add(4), u32::MAX);
            assert_eq!(defect(&message), Some(Defect::Wraps));
        }
    }

    // The outcome of both: nothing wrong, or the error to reply with.
    fn outcome(message: &Message) -> Result<(), Option<RdmaError>> {
        let header = Header::decode(message.bytes()).map_err(|error| rejection(&error))?;
        check(&header).map_err(|_| Some(RdmaError::BadHeader))
    }

    fn defect(message: &Message) -> Option<Defect> {
        let header = Header::decode(message.bytes()).ok()?;
        check(&header).err()
    }
}
