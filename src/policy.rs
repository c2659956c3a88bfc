// SPDX-License-Identifier: GPL-2.0

//! What the administrator decides. The values are read when a connection is made, so that a change
//! holds from the next connection on.

use crate::{
    os::param::module_uint,
    proto::{
        InlineSize,
        PrivateData, //
    }, //
};

module_uint!(
    MAX_INLINE_SEND,
    "max_inline_send",
    4096,
    InlineSize::MIN..=InlineSize::MAX,
    "Largest message to send without RDMA, in octets, 1024 to 262144 (default 4096)"
);

module_uint!(
    MAX_INLINE_RECEIVE,
    "max_inline_receive",
    4096,
    InlineSize::MIN..=InlineSize::MAX,
    "Largest message to receive without RDMA, in octets, 1024 to 262144 (default 4096)"
);

module_uint!(
    CREDITS,
    "credits",
    128,
    4..=16384,
    "Calls that may be outstanding on a connection, 4 to 16384 (default 128)"
);

module_uint!(
    REMOTE_INVALIDATION,
    "remote_invalidation",
    1,
    0..=1,
    "Let the server invalidate registrations: 1 yes (default), 0 no"
);

/// Calls that may be outstanding on one connection; also the number of request slots of a
/// transport.
pub(crate) fn credits() -> u32 {
    CREDITS.get()
}

/// What to tell the peer of a new connection (RFC 8797).
pub(crate) fn private_data() -> PrivateData {
    PrivateData {
        send: InlineSize::from_octets(MAX_INLINE_SEND.get()).unwrap_or(InlineSize::DEFAULT),
        receive: InlineSize::from_octets(MAX_INLINE_RECEIVE.get()).unwrap_or(InlineSize::DEFAULT),
        remote_invalidation: REMOTE_INVALIDATION.get() != 0,
    }
}
