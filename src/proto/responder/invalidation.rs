// SPDX-License-Identifier: GPL-2.0

//! The handle that the Send of a reply invalidates (RFC 8797, sections 3.2 and 4.1).
//!
//! One Send invalidates one handle, so that a call with several would need local invalidations all
//! the same. An `RDMA_ERROR` is sent plainly.

use super::super::{
    chunk::ChunkLists,
    neutral::Invalidation,
    private_data::PrivateData, //
};

/// The handles that replies on a connection may invalidate: all, if both ends announce it in their
/// private data. The server announces it if its policy and its device allow it.
pub(crate) const fn permitted(own: &PrivateData, peer: &PrivateData) -> Invalidation {
    if own.remote_invalidation && peer.remote_invalidation {
        Invalidation::Any
    } else {
        Invalidation::None
    }
}

/// The handle that the reply to a call with these lists invalidates: the only one that they have,
/// if that is `permitted`.
pub(crate) fn handle(lists: &ChunkLists<'_>, permitted: Invalidation) -> Option<u32> {
    let read = lists.read.segments().map(|read| read.segment);
    let offered = lists.write.chunks().chain(lists.reply);
    let mut handles = read
        .chain(offered.flat_map(|chunk| chunk.segments()))
        .map(|segment| segment.handle);

    let first = handles.next()?;
    (handles.all(|handle| handle == first) && permitted.permits(first)).then_some(first)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_invalidation))]
mod tests {
    use super::{
        super::{
            super::{
                vectors::*,
                wire::Wire, //
            },
            received::Received, //
        },
        *, //
    };

    // PD-23, PD-24, PD-34, PD-52: both ends have to allow it.
    #[test]
    fn both_ends() {
        for (own, peer) in [(false, false), (false, true), (true, false), (true, true)] {
            let [own_data, peer_data] = [own, peer].map(|remote_invalidation| PrivateData {
                remote_invalidation,
                ..PrivateData::default()
            });
            let found = permitted(&own_data, &peer_data);
            assert_eq!(found.permits(7), own && peer);
        }
    }

    // PD-25, PD-32: the only handle of a call, in any of the lists.
    #[test]
    fn handles() {
        let read = Message::new(&TV_V1_3);
        let write = Message::new(&TV_V1_4);
        let reply = Message::new(&TV_V1_6);
        let long = Message::new(&TV_V1_7);
        for (message, found) in [
            (Message::new(&TV_V1_1), None),
            (read, None),
            (read.put(48, 0x1701), Some(0x1701)),
            (write, None),
            (reply.put(48, 0x3101), Some(0x3101)),
            (long.put(48, 0x4101), None),
            (long.put(24, 0x4201).put(48, 0x4201), Some(0x4201)),
        ] {
            assert_eq!(handle_of(&message, Invalidation::Any), found);
            assert_eq!(handle_of(&message, Invalidation::None), None);
        }
        let one = Invalidation::Handle(0x1701);
        assert_eq!(handle_of(&read.put(48, 0x1701), one), Some(0x1701));
        assert_eq!(handle_of(&reply.put(48, 0x3101), one), None);
    }

    fn handle_of(message: &Message, permitted: Invalidation) -> Option<u32> {
        match Wire::V1.receive_call(message.bytes()) {
            Received::Call(call) => handle(&call.chunks, permitted),
            _ => None,
        }
    }
}
