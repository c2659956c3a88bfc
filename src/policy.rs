// SPDX-License-Identifier: GPL-2.0

//! The decisions of the administrator for each connection: rules for single peers, and defaults for
//! all others. Each connection reads them once, when it is set up, so that a change holds from the
//! next one on (RFC 8797, section 4.2).
//!
//! - [`prefix`]: the networks that rules are for. Pure.
//! - [`pattern`]: the connections that a rule is for. Pure.
//! - [`settings`]: its settings for them, and the policy of a connection. Pure.
//! - [`order`]: the order of the rules, and the search for the applicable one. Pure.
//! - [`table`]: the existing rules.
//! - [`change`]: a change of a connection in use. Pure.
//! - [`peers`]: the memory of peers that have version 1 alone.
//! - Here: the defaults, which are module parameters.

pub(crate) mod change;
// Without configfs no rule exists.
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod order;
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod pattern;
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod peers;
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod prefix;
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod settings;
#[cfg_attr(not(CONFIG_CONFIGFS_FS), allow(dead_code))]
pub(crate) mod table;

use kernel::pr_info_once;

use crate::{
    os::{
        self,
        param::{
            module_uint,
            Uint, //
        },
        sysctl::{
            Number,
            Numbers, //
        },
        PAGE_SIZE, //
    },
    proto::{
        InlineSize,
        Versions, //
    }, //
};

pub(crate) use self::{
    pattern::{
        Side,
        Target, //
    },
    settings::{
        Policy,
        RemoteInvalidation, //
    }, //
};

module_uint!(
    MAX_INLINE_SEND,
    "max_inline_send",
    4096,
    InlineSize::MIN..=InlineSize::MAX,
    "Largest message to send without RDMA, in bytes, 1024 to 262144 (default 4096)"
);

module_uint!(
    MAX_INLINE_RECEIVE,
    "max_inline_receive",
    4096,
    InlineSize::MIN..=InlineSize::MAX,
    "Largest message to receive without RDMA, in bytes, 1024 to 262144 (default 4096)"
);

module_uint!(
    CREDITS,
    "credits",
    128,
    settings::CREDITS,
    "Calls that may be outstanding on a connection, 4 to 16384 (default 128)"
);

module_uint!(
    REMOTE_INVALIDATION,
    "remote_invalidation",
    1,
    0..=2,
    "Let the server invalidate registrations: 0 no, 1 yes (default), 2 only if it takes it itself"
);

module_uint!(
    PRIVATE_DATA,
    "private_data",
    1,
    0..=1,
    "Tell the server our sizes when connecting: 1 yes (default), 0 no"
);

module_uint!(
    REVERSE,
    "reverse",
    1,
    0..=1,
    "Let the server call back on the connection, which NFSv4.1 needs: 1 yes (default), 0 no"
);

module_uint!(
    VERSION,
    "version",
    1,
    0..=2,
    "Version of the protocol: 1 (default), 2, or 0 for version 2 where the peer has it"
);

module_uint!(
    INLINE_MAX,
    "inline_max",
    1024,
    InlineSize::MIN..=InlineSize::MAX,
    "Most that sizes may be raised to in use, in version 2, 1024 to 262144 (default 1024: none)"
);

module_uint!(
    MEMORY,
    "memory",
    32768,
    settings::MEMORY,
    "Most memory for the buffers of a connection, in KiB, 256 to 1048576 (default 32768)"
);

module_uint!(
    pub(crate) SERVER_CREDITS,
    "server_credits",
    128,
    settings::CREDITS,
    "Calls that a client may have outstanding on a connection, 4 to 16384 (default 128)"
);

module_uint!(
    pub(crate) SERVER_INLINE,
    "server_inline",
    4096,
    InlineSize::MIN..=InlineSize::MAX,
    "Largest message with a client without RDMA, in bytes, 1024 to 262144 (default 4096)"
);

module_uint!(
    pub(crate) SERVER_READS,
    "server_reads",
    16,
    1..=255,
    "RDMA Reads that may be outstanding on a connection of a client, 1 to 255 (default 16)"
);

module_uint!(
    SERVER_CONNECTIONS,
    "server_connections",
    65536,
    settings::CONNECTIONS,
    "Most connections of clients that no rule is for, 0 to 65536 (default 65536)"
);

module_uint!(
    SERVER_MEMORY,
    "server_memory",
    0,
    0..=1 << 30,
    "Most memory for buffers of all clients, and for their data, in KiB (default 0: an eighth)"
);

/// Settings that have no effect in the in-tree transport either.
static INLINE_WRITE_PADDING: Uint = Uint::new(0, 0, PAGE_SIZE);
static MEMREG_STRATEGY: Uint = Uint::new(5, 0, 6);
static PAD_OPTIMIZE: Uint = Uint::new(0, 0, u32::MAX);

/// A number that is always 0.
pub(crate) static UNUSED: Uint = Uint::new(0, 0, 0);

/// The defaults under the names of the in-tree transport, in `/proc/sys/sunrpc`, so that a
/// `sysctl.conf` for that one applies to this one, too.
pub(crate) static NUMBERS: Numbers<6> = Numbers::new([
    (c"rdma_slot_table_entries", Number::Uint(&CREDITS)),
    (c"rdma_max_inline_read", Number::Uint(&MAX_INLINE_RECEIVE)),
    (c"rdma_max_inline_write", Number::Uint(&MAX_INLINE_SEND)),
    (
        c"rdma_inline_write_padding",
        Number::Uint(&INLINE_WRITE_PADDING),
    ),
    (c"rdma_memreg_strategy", Number::Uint(&MEMREG_STRATEGY)),
    (c"rdma_pad_optimize", Number::Uint(&PAD_OPTIMIZE)),
]);

/// Logs, once, that a policy permits version 2 and excludes what it needs (V2-63).
pub(crate) fn check(policy: &Policy) {
    if policy.lacks_version_2() {
        pr_info_once!(
            "version 2 needs private data, and Receives of 4096 bytes: version 1 is used\n"
        );
    }
}

/// RDMA Reads that may be outstanding on a connection of a client.
pub(crate) fn server_reads() -> u8 {
    u8::try_from(SERVER_READS.get()).unwrap_or(u8::MAX)
}

/// Bytes that the buffers of all connections of clients may take.
pub(crate) fn server_memory() -> usize {
    match SERVER_MEMORY.get() {
        0 => os::memory() / 8,
        // CAST: Widening.
        kib => (kib as usize).saturating_mul(1024),
    }
}

/// The policy for connections that no rule is for.
pub(crate) fn defaults(side: Side) -> Policy {
    let size = |bytes| InlineSize::from_bytes(bytes).unwrap_or(InlineSize::DEFAULT);
    let (send, receive, credits) = match side {
        Side::Client => (&MAX_INLINE_SEND, &MAX_INLINE_RECEIVE, &CREDITS),
        Side::Server => (&SERVER_INLINE, &SERVER_INLINE, &SERVER_CREDITS),
    };

    Policy {
        inline_send: size(send.get()),
        inline_receive: size(receive.get()),
        remote_invalidation: match REMOTE_INVALIDATION.get() {
            0 => RemoteInvalidation::Off,
            1 => RemoteInvalidation::On,
            _ => RemoteInvalidation::Strict,
        },
        credits: credits.get(),
        private_data: PRIVATE_DATA.get() != 0,
        reverse: REVERSE.get() != 0,
        memory: MEMORY.get(),
        connections: SERVER_CONNECTIONS.get(),
        version: match VERSION.get() {
            0 => Versions::Auto,
            2 => Versions::Two,
            _ => Versions::One,
        },
        inline_max: size(INLINE_MAX.get()),
    }
}
