// SPDX-License-Identifier: GPL-2.0

//! What a transport counts.

use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::{
    proto::Discard,
    sunrpc::{
        Transport,
        Xprt, //
    }, //
};

/// A number that only grows.
pub(super) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts one.
    #[inline]
    pub(super) fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    #[inline]
    pub(super) fn add(&self, n: u32) {
        // Counters that lose an increment to a race would still be wrong: tests compare them.
        self.0.add(u64::from(n), Relaxed);
    }

    /// The number now.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one transport, over all its connections.
        pub(super) struct Stats {
            $($(#[$doc])* pub(super) $name: Counter,)*
            /// Messages dropped, by [`Discard::index`].
            pub(super) discarded: [Counter; Discard::REASONS],
        }

        impl Stats {
            /// All zero.
            pub(super) const fn new() -> Self {
                Self {
                    $($name: Counter::new(),)*
                    discarded: [const { Counter::new() }; Discard::REASONS],
                }
            }
        }
    };
}

counters! {
    /// Calls with a Read chunk for their data.
    read_chunks,
    /// Calls that offered a Write chunk.
    write_chunks,
    /// Calls that offered a Reply chunk.
    reply_chunks,
    /// Octets of calls moved by RDMA Read.
    rdma_request_octets,
    /// Octets of replies moved by RDMA Write.
    rdma_reply_octets,
    /// Octets of page data copied into Send buffers.
    pullup_octets,
    /// Octets of page data copied out of Receive buffers.
    fixup_octets,
    /// Calls that could not be built for this connection.
    failed_marshal,
    /// Replies that were not as the protocol or their call wants them.
    bad_replies,
    /// Calls sent as Long messages.
    long_calls,
    /// Registrations allocated.
    mrs_allocated,
    /// Registrations that we invalidated.
    local_invalidations,
    /// Registrations that the server invalidated.
    remote_invalidations,
    /// Times that no Send buffer was free.
    no_send_buffer,
    /// Times that no registration was free.
    no_registration,
    /// Remote invalidations of a handle that was not the call's.
    foreign_invalidations,
    /// Replies to no known call.
    unknown_xids,
    /// Replies to a call that already had one, or was not sent on this connection.
    duplicate_replies,
    /// Grants of zero credits.
    zero_grants,
    /// Errors reported by the server: it takes no version 1.
    version_errors,
    /// Errors reported by the server: it could not parse a call.
    header_errors,
    /// Backward calls delivered.
    backward_calls,
    /// Backward calls without anybody to serve them.
    backward_unserved,
    /// Backward calls beyond the grant.
    backward_overflows,
}

impl Stats {
    /// Prints the line that mountstats shows: tools read it by position. After the 27 numbers that
    /// they know come ours: handles invalidated by the server, foreign handles among them, replies
    /// of unknown calls, duplicate replies, grants of zero, version errors, header errors, backward
    /// calls, of those not served, of those beyond the grant, then one number per reason for which
    /// a message was dropped.
    pub(super) fn print<T: Transport>(&self, xprt: &Xprt<T>, seq: &SeqFile) {
        let c = xprt.counters();

        seq_print!(
            seq,
            "\txprt:\trdma 0 {} {} {} {} {} {} {} {} {} ",
            c.binds,
            c.connects,
            c.connect_secs,
            c.idle_secs,
            c.sends,
            c.receives,
            c.bad_xids,
            c.requests,
            c.backlog,
        );
        let known = [
            &self.read_chunks,
            &self.write_chunks,
            &self.reply_chunks,
            &self.rdma_request_octets,
            &self.rdma_reply_octets,
            &self.pullup_octets,
            &self.fixup_octets,
        ];
        for counter in known {
            seq_print!(seq, "{} ", counter.get());
        }
        // Nothing is ever registered in any way but by fast registration.
        seq_print!(
            seq,
            "0 {} {} {} ",
            self.failed_marshal.get(),
            self.bad_replies.get(),
            self.long_calls.get(),
        );
        // No registration is recycled or orphaned: each lives and dies with its connection.
        seq_print!(
            seq,
            "0 0 {} {} {} 0",
            self.mrs_allocated.get(),
            self.local_invalidations.get(),
            self.no_send_buffer.get(),
        );
        let ours = [
            &self.remote_invalidations,
            &self.foreign_invalidations,
            &self.unknown_xids,
            &self.duplicate_replies,
            &self.zero_grants,
            &self.version_errors,
            &self.header_errors,
            &self.backward_calls,
            &self.backward_unserved,
            &self.backward_overflows,
        ];
        for counter in Iterator::chain(ours.into_iter(), &self.discarded) {
            seq_print!(seq, " {}", counter.get());
        }
        seq_print!(seq, "\n");
    }
}
