// SPDX-License-Identifier: GPL-2.0

//! Checks of received RPC messages that need no more than their headers.

use super::{
    super::{
        chunk::ChunkLists,
        defect,
        neutral::{
            Direction,
            Rpc,
            Side, //
        },
        rpc, //
    },
    defect::Defect, //
};

/// Checks the parts of an RPC message that need no more than its header; the chunks of a reply are
/// compared with the call's later.
pub(crate) fn check(side: Side, direction: Direction, message: &Rpc<'_>) -> Result<(), Defect> {
    if let Some(payload) = message.payload {
        let inner = rpc::direction(message.xid, payload)?;
        let expected = match direction {
            Direction::Call => rpc::CALL,
            Direction::Reply => rpc::REPLY,
        };
        if inner != expected {
            return Err(Defect::DirectionMismatch);
        }
    }
    match (side, direction) {
        (Side::Client, Direction::Reply) => Ok(()),
        (Side::Server, Direction::Call) => {
            Ok(check_call(&message.chunks, message.payload.is_some())?)
        }
        // We announce BKREQSUP_INLINE, so these have no chunks (V2-53, BI-30).
        _ if message.chunks.is_empty() => Ok(()),
        _ => Err(Defect::ReverseChunks),
    }
}

/// Checks the chunks of a call.
fn check_call(chunks: &ChunkLists<'_>, inline: bool) -> Result<(), defect::Defect> {
    for read in chunks.read.segments() {
        // Position 0 belongs to the message itself, and so to a Long call alone.
        if read.position % 4 != 0 || (inline && read.position == 0) {
            return Err(defect::Defect::Position);
        }
    }
    if !inline && !chunks.read.segments().any(|read| read.position == 0) {
        return Err(defect::Defect::Position);
    }
    let read = chunks.read.segments().map(|read| read.segment);
    let offered = chunks.write.chunks().chain(chunks.reply);
    if read
        .chain(offered.flat_map(|chunk| chunk.segments()))
        .any(|segment| segment.wraps())
    {
        return Err(defect::Defect::Wraps);
    }
    Ok(())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_check))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            header::{
                Body,
                Header, //
            },
            vectors::*, //
        },
        *, //
    };

    const POSITION: Option<Defect> = Some(Defect::Common(defect::Defect::Position));
    const WRAPS: Option<Defect> = Some(Defect::Common(defect::Defect::Wraps));

    // TV-M-54, V1-11, V1-71, V1-79: the chunks of a call.
    #[test]
    fn calls_with_chunks() {
        let long = Message::new(&TV_V2_5);
        assert_eq!(outcome(Side::Server, &long), Ok(()));
        for position in [2, 4] {
            let message = long.put(24, position);
            assert_eq!(outcome(Side::Server, &message), Err(POSITION));
        }
        let last = long.put(36, u32::MAX).put(40, u32::MAX);
        assert_eq!(outcome(Side::Server, &last), Err(WRAPS));
        // The Read list in front of a payload, with another position than 0.
        let (head, rest) = TV_V2_5.split_at(14);
        let payload = [0xb200_0006, 0, 2, 0x186a3, 3, 0, 0, 0, 0, 0];
        let inline = Message::new(head.iter().chain(rest).chain(&payload)).put(12, 0);
        assert_eq!(outcome(Side::Server, &inline), Err(POSITION));
        assert_eq!(outcome(Side::Server, &inline.put(24, 32)), Ok(()));
        let write = Message::new(&TV_V2_6).put(16, 0).put(60, 0);
        assert_eq!(outcome(Side::Server, &write), Ok(()));
        let wraps = write.put(40, u32::MAX).put(44, 0xffff_f000);
        assert_eq!(outcome(Side::Server, &wraps), Err(WRAPS));
    }

    // V2-53, BI-30: nothing from the server but replies has chunks, nor has a reply to the server.
    #[test]
    fn reverse_chunks() {
        let call = Message::new(&TV_V2_6).put(16, 0).put(60, 0);
        assert_eq!(
            outcome(Side::Client, &call),
            Err(Some(Defect::ReverseChunks))
        );
        assert_eq!(
            outcome(Side::Client, &Message::new(&TV_V2_5)),
            Err(Some(Defect::ReverseChunks))
        );
        assert_eq!(outcome(Side::Client, &Message::new(&TV_V2_6)), Ok(()));
        assert_eq!(
            outcome(Side::Server, &Message::new(&TV_V2_6)),
            Err(Some(Defect::ReverseChunks))
        );
    }

    // The outcome of the check; `Err(None)` for what is no RPC message.
    fn outcome(side: Side, message: &Message) -> Result<(), Option<Defect>> {
        let header = Header::decode(message.bytes()).map_err(|_| None)?;
        let Header { xid, credits, .. } = header;
        let (direction, chunks, payload) = match header.body {
            Body::Msg {
                direction,
                chunks,
                payload,
            } => (direction, chunks, Some(payload)),
            Body::NoMsg { direction, chunks } => (direction, chunks, None),
            _ => return Err(None),
        };
        let message = Rpc {
            xid,
            credits,
            chunks,
            payload,
        };
        check(side, direction, &message).map_err(Some)
    }
}
