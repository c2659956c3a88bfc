// SPDX-License-Identifier: GPL-2.0

//! The counters of a connection.

use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

use crate::{
    os::Counter,
    proto::responder::received::Reason, //
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one connection.
        pub(super) struct Stats {
            $($(#[$doc])* pub(super) $name: Counter,)*
            /// Messages that are no calls, by [`Reason::index`].
            pub(super) unusable: [Counter; Reason::REASONS],
        }

        impl Stats {
            /// All zero.
            pub(super) const fn new() -> Self {
                Self {
                    $($name: Counter::new(),)*
                    unusable: [const { Counter::new() }; Reason::REASONS],
                }
            }

            /// Prints a name and a number on each line.
            pub(super) fn print(&self, seq: &SeqFile) {
                $(seq_print!(seq, "{} {}\n", stringify!($name), self.$name.get());)*
                for (name, counter) in Reason::NAMES.iter().zip(&self.unusable) {
                    seq_print!(seq, "{} {}\n", *name, counter.get());
                }
            }
        }
    };
}

counters! {
    /// Messages that have come.
    received,
    /// Calls that were left to threads.
    calls,
    /// Calls beyond the last grant (V1-36).
    excess_calls,
    /// RDMA Reads: segments of Read lists.
    read_segments,
    /// Bytes that they moved.
    read_bytes,
    /// RDMA Writes: segments of Write and Reply chunks.
    write_segments,
    /// Bytes that they moved.
    written_bytes,
    /// Replies that invalidate a handle.
    remote_invalidates,
    /// Messages that waited for room in the send queue.
    delayed_messages,
    /// Calls that waited for memory for their arguments.
    delayed_calls,
    /// Messages that got an error: no version that we know.
    version_errors,
    /// Messages that got an error: a header, arguments or an offer that cannot be used.
    header_errors,
    /// Calls whose RDMA the client has refused, with the connection.
    refused_calls,
    /// Such calls, or calls whose memory cannot be mapped, that came again, and got an error.
    repeated_calls,
    /// Calls to the client.
    callbacks,
    /// Calls that are longer than the client takes.
    long_callbacks,
    /// Replies to them.
    callback_replies,
    /// Errors in their place.
    callback_errors,
    /// Replies, or errors, to no call that waits for one (BI-29).
    unknown_callbacks,
    /// Optional operations that no right client sends.
    odd_operations,
}

impl Stats {
    /// The counters that have a sum over all connections.
    pub(super) fn summed(&self) -> [u64; SUMS] {
        [
            self.received.get(),
            self.read_segments.get(),
            self.write_segments.get(),
            self.delayed_messages.get(),
        ]
    }
}

/// The number of sums.
pub(super) const SUMS: usize = 4;
