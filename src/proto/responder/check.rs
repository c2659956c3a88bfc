// SPDX-License-Identifier: GPL-2.0

//! Checks of a call that need no more than its header and its first two words (RFC 8166, sections
//! 3.4.5 and 4.5.2).
//!
//! A position beyond the payload and arguments longer than the server accepts are found when the
//! arguments are [rebuilt](super::rebuild).

use super::super::{
    chunk::ChunkLists,
    defect::Defect,
    rpc, //
};

/// Checks the call with this header xid; `payload` is its inline part.
///
/// # Errors
///
/// The [`Defect`]; the call is rejected with `ERR_CHUNK`.
pub(crate) fn check(
    xid: u32,
    chunks: &ChunkLists<'_>,
    payload: Option<&[u8]>,
) -> Result<(), Defect> {
    if let Some(payload) = payload {
        if rpc::direction(xid, payload)? != rpc::CALL {
            return Err(Defect::Direction);
        }
    }
    for read in chunks.read.segments() {
        // In a message with an inline payload, position 0 would put a chunk in front of the xid.
        if read.position % 4 != 0 || (payload.is_some() && read.position == 0) {
            return Err(Defect::Position);
        }
        if read.segment.wraps() {
            return Err(Defect::Wraps);
        }
    }
    if payload.is_none() && !chunks.read.segments().any(|read| read.position == 0) {
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

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_call_check))]
mod tests {
    use super::{
        super::{
            super::{
                vectors::*,
                wire::Wire, //
            },
            received::{Reason, Received},
        },
        *,
    };

    // TV-M-8..10, V1-7, V1-71, V1-79: xid and positions.
    #[test]
    fn positions() {
        let call = Message::new(&TV_V1_1).put(28, 0xdead_beef);
        assert_eq!(defect(&call), Some(Defect::XidMismatch));
        let read = Message::new(&TV_V1_3);
        assert_eq!(defect(&read.put(20, 0x82)), Some(Defect::Position));
        assert_eq!(defect(&read.put(44, 0x85)), Some(Defect::Position));
        assert_eq!(defect(&read.put(20, 0).put(44, 0)), Some(Defect::Position));
        assert_eq!(defect(&read.put(44, 0x88)), None);
    }

    // V1-11, V1-48, V1-107: a Long call has a segment at position 0, and may have others.
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

    fn defect(message: &Message) -> Option<Defect> {
        match Wire::V1.receive_call(message.bytes()) {
            Received::Reject {
                why: Reason::Defect(defect),
                ..
            } => Some(defect),
            _ => None,
        }
    }
}
