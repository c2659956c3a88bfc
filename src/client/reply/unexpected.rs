// SPDX-License-Identifier: GPL-2.0

//! Messages that no call waits for, or that cannot be used.

use kernel::prelude::*;

use super::{
    super::{
        connection::{
            abandoned::Late,
            close_reason::Violation,
            Connection, //
        },
        request::Request, //
    },
    Disposition,
    Replied,
    Spent, //
};
use crate::{
    proto::Discard,
    sunrpc::Pinned,
    verbs::{
        InvalidatedHandle,
        MrList,
        Registered, //
    }, //
};

impl Connection {
    /// Handles a reply that matches no waiting call. It may be late; only then its grant counts
    /// (V1-39).
    #[cold]
    pub(super) fn unknown(
        &self,
        xid: u32,
        credits: u32,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Spent {
        self.shared.stats.unknown_xids.inc();
        let spent = self.late(xid, invalidated);
        if spent == Spent::Late {
            self.granted(credits);
            self.reopen_window();
        }
        spent
    }

    /// Looks for the abandoned call that a message with this xid ends, whose credit is free then.
    fn late(&self, xid: u32, invalidated: Option<InvalidatedHandle<'_>>) -> Spent {
        match self.late_reply(xid, invalidated) {
            Some(Late::Good) => {
                if invalidated.is_some() {
                    self.count_remote_invalidation();
                }
                return Spent::Late;
            }
            Some(Late::Repeated) => self.repeated(),
            None if invalidated.is_none() => {
                if self.window.replied_unknown() {
                    self.violated(Violation::UnknownReplies);
                }
            }
            Some(Late::ForeignHandle) | None => self.foreign_handle(),
        }
        Spent::Unsolicited
    }

    /// The server has replied twice to the same call.
    #[cold]
    pub(super) fn repeated(&self) {
        self.shared.stats.duplicate_replies.inc();
        self.violated(Violation::SecondReply);
    }

    /// A message that does not parse: ends the call that it names. The server will not reply to it
    /// again, and a call that stayed would be sent again and again.
    ///
    /// The exception is an error that cannot be decoded. The specification wants it dropped
    /// silently, so only the second one about the same call ends that.
    #[cold]
    pub(super) fn unusable(
        &self,
        xid: u32,
        why: Discard,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Disposition<'_> {
        self.discard(why);
        if self.attempt.is_probing() && why != Discard::UndecodableError && self.probe_failed(xid) {
            return Spent::Late.into();
        }
        let Some(mut found) = self.shared.xprt.find(xid) else {
            if why == Discard::UndecodableError {
                return self.dropped(invalidated).into();
            }
            let spent = self.late(xid, invalidated);
            if spent == Spent::Late {
                self.reopen_window();
            }
            return spent.into();
        };
        found.leave();
        let Some(exposed) = self.end_unusable(&found, why) else {
            return self.dropped(invalidated).into();
        };
        Disposition::Reply(Replied {
            xid,
            found,
            exposed,
            outcome: Err(Some(why.as_str())),
        })
    }

    /// The end of the call of `pinned` because of an unusable message, if it is one, waits for a
    /// reply here, and is not to be spared this time. Returns the registrations that the server may
    /// still reach.
    #[allow(clippy::option_option)]
    fn end_unusable(
        &self,
        pinned: &Pinned<Request>,
        why: Discard,
    ) -> Option<Option<MrList<Registered>>> {
        let mut state = pinned.slot().state.lock();

        if why == Discard::UndecodableError {
            // A call that gets one over each connection would be sent for ever (V1-105).
            if state.undecodable == 0 || state.undecodable_on != self.generation() {
                state.undecodable = state.undecodable.saturating_add(1);
                state.undecodable_on = self.generation();
            }
            if state.undecodable < 2 {
                return None;
            }
        }
        state.call.replied(self.generation())
    }

    /// Drops a message that may have invalidated a handle: nothing but a reply may (PD-33, PD-30).
    pub(super) fn dropped(&self, invalidated: Option<InvalidatedHandle<'_>>) -> Spent {
        if invalidated.is_some() {
            self.foreign_handle();
        }
        Spent::Unsolicited
    }

    /// Counts a message that cannot be used.
    pub(super) fn discard(&self, why: Discard) {
        if let Some(counter) = self.shared.stats.discarded.get(why.index()) {
            counter.inc();
        }
    }

    /// Logs, not too often, why a call fails.
    #[cold]
    pub(super) fn report(&self, xid: u32, why: &str) {
        self.shared.trace().reply_err(xid, why);
        if self.shared.may_report() {
            pr_info!(
                "{}: call {:08x} fails: bad reply: {}\n",
                self.shared.xprt.peer(),
                xid,
                why
            );
        }
    }
}
