// SPDX-License-Identifier: GPL-2.0

//! Messages that no call waits for, or that cannot be used.

use kernel::prelude::*;

use super::{
    super::{
        connection::{
            abandoned::Late,
            close_reason::Violation,
            Shared, //
        },
        request::Request, //
    },
    Disposition,
    Replied,
    Source,
    Spent, //
};
use crate::{
    proto::Reason,
    sunrpc::Pinned,
    verbs::{
        MrList,
        Registered, //
    }, //
};

impl<'q> Source<'q> {
    /// Handles a reply that matches no waiting call. It may be late; only then its grant counts
    /// (V1-39).
    #[cold]
    pub(super) fn unknown(self, xid: u32, credits: u32) -> Spent {
        self.connection.shared.stats.unknown_xids.inc();
        let spent = self.late(xid);
        if spent == Spent::Late {
            self.connection.granted(credits);
            self.connection.reopen_window();
        }
        spent
    }

    /// Handles a reply to a call that its task has encoded again since: the call got no reply in
    /// time, and its next Send ends the connection (V1-123). gss_unwrap_resp_integ() and
    /// gss_unwrap_resp_priv() accept the last sequence number alone: the call would end with `EIO`.
    #[cold]
    pub(super) fn outdated(self, xid: u32) -> Spent {
        let spent = self.late(xid);
        if spent == Spent::Late {
            self.connection.reopen_window();
        }
        spent
    }

    /// Looks for the abandoned call that a message with this xid ends, whose credit is free then.
    fn late(self, xid: u32) -> Spent {
        let Self {
            connection,
            invalidated,
        } = self;

        match connection.late_reply(xid, invalidated) {
            Some(Late::Good) => {
                if invalidated.is_some() {
                    self.count_remote_invalidation();
                }
                return Spent::Late;
            }
            Some(Late::Repeated) => self.repeated(),
            None if invalidated.is_none() => {
                if connection.window.replied_unknown() {
                    connection.violated(Violation::UnknownReplies);
                }
            }
            Some(Late::ForeignHandle) | None => self.foreign_handle(),
        }
        Spent::Unsolicited
    }

    /// The server has replied twice to the same call.
    #[cold]
    pub(super) fn repeated(self) {
        self.connection.shared.stats.duplicate_replies.inc();
        self.connection.violated(Violation::SecondReply);
    }

    /// The server has invalidated a handle that was not its to invalidate: which memory it can
    /// still reach is in doubt.
    #[cold]
    pub(super) fn foreign_handle(self) {
        self.connection.shared.stats.foreign_invalidates.inc();
        self.connection.violated(Violation::ForeignHandle);
    }

    /// A message that does not parse: ends the call that it names. The server will not reply to it
    /// again, and a call that stayed would be sent again and again.
    ///
    /// The exception is an error that cannot be decoded. The specification wants it dropped
    /// silently, so only the second one about the same call ends that.
    #[cold]
    pub(super) fn unusable(self, xid: u32, why: Reason) -> Disposition<'q> {
        let connection = self.connection;

        self.count_discarded(why);
        if connection.attempt.is_probing()
            && why != Reason::UndecodableError
            && self.probe_failed(xid)
        {
            return Spent::Late.into();
        }
        let Some(mut found) = connection.shared.xprt.find(xid) else {
            if why == Reason::UndecodableError {
                return self.dropped().into();
            }
            let spent = self.late(xid);
            if spent == Spent::Late {
                connection.reopen_window();
            }
            return spent.into();
        };
        found.leave();
        let Some(exposed) = end_unusable(&found, why, connection.generation()) else {
            return self.dropped().into();
        };
        Disposition::Reply(Replied {
            xid,
            found,
            exposed,
            outcome: Err(Some(why.as_str())),
        })
    }

    /// Drops a message that may have invalidated a handle: nothing but a reply may (PD-33, PD-30).
    pub(super) fn dropped(self) -> Spent {
        if self.invalidated.is_some() {
            self.foreign_handle();
        }
        Spent::Unsolicited
    }

    /// Counts a message that cannot be used.
    pub(super) fn count_discarded(self, why: Reason) {
        if let Some(counter) = self.connection.shared.stats.discarded.get(why.index()) {
            counter.inc();
        }
    }
}

/// Ends the call of `pinned` because of an unusable message on the connection with this number, if
/// the call waits for a reply there, and is not to be spared this time. Returns the registrations
/// that the server may still reach.
#[allow(clippy::option_option)]
fn end_unusable(
    pinned: &Pinned<Request>,
    why: Reason,
    generation: u64,
) -> Option<Option<MrList<Registered>>> {
    let mut state = pinned.slot().state.lock();

    if why == Reason::UndecodableError {
        // A call that gets one over each connection would be sent for ever (V1-105).
        if state.undecodable == 0 || state.undecodable_on != generation {
            state.undecodable = state.undecodable.saturating_add(1);
            state.undecodable_on = generation;
        }
        if state.undecodable < 2 {
            return None;
        }
    }
    state.call.replied(generation)
}

/// Logs, not too often, why a call fails.
#[cold]
pub(super) fn report(shared: &Shared, xid: u32, why: &str) {
    shared.trace().reply_err(xid, why);
    if shared.log.may_report() {
        pr_info!(
            "{}: call {:08x} fails: bad reply: {}\n",
            shared.xprt.peer(),
            xid,
            why
        );
    }
}
