// SPDX-License-Identifier: GPL-2.0

//! The counters of a transport, and the line of mountstats.

use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

use crate::{
    os::Counter,
    proto::{
        CallMode,
        Chunks,
        Plan,
        RdmaError,
        Reason,
        ReplyMode, //
    },
    sunrpc::{
        XdrBuf,
        Xprt, //
    }, //
};

macro_rules! counters {
    (
        mountstats { $($(#[$known_doc:meta])* $known:ident,)* }
        debugfs { $($(#[$own_doc:meta])* $own:ident,)* }
    ) => {
        /// The counters of one transport, over all its connections.
        pub(super) struct Stats {
            $($(#[$known_doc])* pub(super) $known: Counter,)*
            $($(#[$own_doc])* pub(super) $own: Counter,)*
            /// Messages dropped or taken for a broken reply, by [`Reason::index`].
            pub(super) discarded: [Counter; Reason::REASONS],
        }

        impl Stats {
            /// All zero.
            pub(super) const fn new() -> Self {
                Self {
                    $($known: Counter::new(),)*
                    $($own: Counter::new(),)*
                    discarded: [const { Counter::new() }; Reason::REASONS],
                }
            }

            /// Prints the counters that the line of mountstats has no place for, a name and a
            /// number on each line.
            pub(super) fn print_own(&self, seq: &SeqFile) {
                $(seq_print!(seq, "{} {}\n", stringify!($own), self.$own.get());)*
                for (name, counter) in Reason::NAMES.iter().zip(&self.discarded) {
                    seq_print!(seq, "{} {}\n", *name, counter.get());
                }
            }
        }
    };
}

counters! {
    // These count like the counters of the in-tree transport: tools label them by position.
    mountstats {
        /// Segments of Read lists, including Long calls.
        read_segments,
        /// Segments of the Write chunks that calls offered.
        write_segments,
        /// Segments of the Reply chunks that calls offered.
        reply_segments,
        /// Bytes registered for Write and Reply chunks.
        offered_bytes,
        /// Bytes of replies moved by RDMA Write.
        written_bytes,
        /// Bytes of pages and tails copied into Send buffers.
        pullup_bytes,
        /// Bytes of pages copied out of Receive buffers.
        fixup_bytes,
        /// Calls that could not be built for this connection.
        failed_marshal,
        /// Malformed or mismatched replies.
        bad_replies,
        /// Calls sent as Long messages.
        long_calls,
        /// Registrations allocated.
        mrs_allocated,
        /// Registrations that we invalidated.
        local_invalidations,
        /// Times that a Send buffer, a Receive for the reply, or room on the queue was lacking.
        no_send_buffer,
    }
    debugfs {
        /// Registrations that the server invalidated.
        remote_invalidates,
        /// Remote invalidations of a handle that was not the call's.
        foreign_invalidates,
        /// Remote invalidations that we had not requested.
        unsolicited_invalidates,
        /// Times that no registration was free.
        no_registration,
        /// Calls abandoned by their tasks before a reply came.
        abandoned_calls,
        /// Replies to abandoned calls.
        late_replies,
        /// Connections ended because abandoned calls held too many credits.
        exhausted_connections,
        /// Replies to no call that waits for one, late ones included.
        unknown_xids,
        /// Replies whose chunks have other handles or offsets than were offered; they are ignored.
        renamed_segments,
        /// Replies to a call that already had one, or was not sent on this connection.
        duplicate_replies,
        /// Grants of zero credits.
        zero_grants,
        /// Errors reported by the server: it takes no version 1.
        version_errors,
        /// Errors reported by the server: it could not parse a call.
        header_errors,
        /// Reverse calls delivered.
        reverse_calls,
        /// Reverse calls without a service for them.
        reverse_unserved,
        /// Reverse calls beyond the grant.
        reverse_overflows,
        /// Reverse calls with a credits word of zero.
        reverse_zero_grants,
        /// Reverse calls that got an error because the reply was too long.
        reverse_too_long,
        /// Optional operations that no right server sends.
        odd_operations,
    }
}

impl Stats {
    /// Prints the line that mountstats shows. Tools read it by position and know exactly these 27
    /// numbers; some crash if they find more.
    pub(super) fn print<S>(&self, xprt: &Xprt<S>, hardway_bytes: u64, seq: &SeqFile) {
        let c = xprt.counters();

        // No local port: connections do not have one.
        seq_print!(
            seq,
            "\txprt:\trdma 0 {} {} {} {} {} {} {} {} {}",
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
        for number in self.known(hardway_bytes) {
            seq_print!(seq, " {}", number);
        }
        seq_print!(seq, "\n");
    }

    /// The numbers of the line that follow sunrpc's own.
    fn known(&self, hardway_bytes: u64) -> [u64; 17] {
        // No registration is recycled or orphaned: each lives and dies with its connection. The
        // last number is always 0 in-tree, too.
        let (recycled, orphaned, empty_sendctx) = (0, 0, 0);

        [
            self.read_segments.get(),
            self.write_segments.get(),
            self.reply_segments.get(),
            self.offered_bytes.get(),
            self.written_bytes.get(),
            self.pullup_bytes.get(),
            self.fixup_bytes.get(),
            hardway_bytes,
            self.failed_marshal.get(),
            self.bad_replies.get(),
            self.long_calls.get(),
            recycled,
            orphaned,
            self.mrs_allocated.get(),
            self.local_invalidations.get(),
            self.no_send_buffer.get(),
            empty_sendctx,
        ]
    }

    /// Counts an error that the server has reported.
    pub(super) fn count_error(&self, error: &RdmaError) {
        match error {
            RdmaError::Version { .. } => self.version_errors.inc(),
            RdmaError::BadHeader | RdmaError::InvalidOption => self.header_errors.inc(),
        }
    }

    /// Counts the transfer modes of a call that is about to be sent with these chunks.
    #[inline(always)]
    pub(super) fn count_call(&self, plan: &Plan, send: &XdrBuf<'_>, chunks: &Chunks<'_>) {
        // CAST: A list has at most `MAX_SEGMENTS`.
        let count = |number: usize| number as u32;

        if plan.call == CallMode::Inline {
            self.count_pullup(send);
        } else {
            self.read_segments.add(count(chunks.read.len()));
        }
        if plan.call == CallMode::Long {
            self.long_calls.inc();
        }
        let (segments, counter) = match plan.reply {
            ReplyMode::Inline => return,
            ReplyMode::WriteChunk => (chunks.write, &self.write_segments),
            ReplyMode::ReplyChunk => (chunks.reply, &self.reply_segments),
        };
        counter.add(count(segments.len()));
        for segment in segments {
            self.offered_bytes.add(segment.length);
        }
    }

    /// Counts the bytes of an inline call that are copied besides its head.
    #[inline]
    fn count_pullup(&self, send: &XdrBuf<'_>) {
        // CAST: A tail is shorter than 4 GiB.
        let copied = send.page_len().saturating_add(send.tail_len() as u32);
        if copied != 0 {
            self.pullup_bytes.add(copied);
        }
    }
}
