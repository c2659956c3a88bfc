// SPDX-License-Identifier: GPL-2.0

//! The completion of a call by its reply.

use super::{
    super::{
        connection::{
            close_reason::Violation,
            Connection, //
        },
        request::{
            remotely_invalidated,
            Delivery,
            Request, //
        }, //
    },
    unexpected::report,
    Arrival,
    Replied,
    Source, //
};
use crate::{
    policy::RemoteInvalidation,
    sunrpc::{
        Found,
        Pinned, //
    },
    verbs::{
        Invalidated,
        MrList, //
    }, //
};

/// Copies the parts of a reply that have come by RDMA to the bounce page of `mrs` to their places.
#[inline]
pub(super) fn place(
    pinned: &mut Pinned<Request>,
    delivery: Option<Delivery>,
    mrs: &MrList<Invalidated>,
) {
    if let Some(Delivery::Nothing { len }) = delivery {
        if let Some((head, tail)) = mrs.written() {
            pinned.place(head, tail, len);
        }
    }
}

impl Arrival<'_> {
    /// Takes a reply for its call, unless it has invalidated a handle of another call. Completes
    /// the call, or first invalidates the memory that the server can reach.
    #[inline(always)]
    pub(super) fn accept(self, mut replied: Replied<'_>) {
        let (mut free, mut trusted) = (None, true);
        let (xid, outcome, connection) = (replied.xid, replied.outcome, self.source.connection);
        let delivery = outcome.ok();

        if let Some(handle) = self.source.invalidated {
            let Some(taken) = remotely_invalidated(&mut replied.exposed, handle) else {
                return self.reject(replied);
            };
            place(&mut replied.found, delivery, &taken);
            free = Some(taken);
            trusted = self.source.count_remote_invalidation();
        }
        let found = replied.found;
        match replied.exposed {
            None => {
                if let Some(mrs) = free {
                    found.slot().keep(mrs);
                }
                connection.complete(found, delivery, self.buf.message());
                self.recycle();
            }
            Some(mrs) => connection.invalidate(self.hold(found.into_pinned(), delivery), mrs),
        }
        // Not while sunrpc's lock may be held: the console may be slow.
        if let Err(Some(why)) = outcome {
            report(&connection.shared, xid, why);
        }
        if !trusted {
            connection.violated(Violation::UnannouncedInvalidation);
        }
    }

    /// Ends the connection over a reply that has invalidated a handle that is not the call's. The
    /// call stays as it was, and is sent again after the teardown.
    #[cold]
    fn reject(self, replied: Replied<'_>) {
        let mut state = replied.found.slot().state.lock();
        state
            .call
            .reply_rejected(self.source.connection.generation(), replied.exposed);
        drop(state);
        drop(replied.found);
        self.source.foreign_handle();
        self.unsolicited();
    }
}

impl Source<'_> {
    /// Counts a handle that the server has invalidated. Returns `true` if the connection may
    /// continue.
    #[inline(always)]
    pub(super) fn count_remote_invalidation(self) -> bool {
        let stats = &self.connection.shared.stats;
        let policy = self
            .connection
            .negotiated()
            .map(|negotiated| negotiated.remote_invalidation);

        stats.remote_invalidates.inc();
        if policy == Some(RemoteInvalidation::On) {
            return true;
        }
        // PD-31: it did so without permission.
        stats.unsolicited_invalidates.inc();
        let strict = policy == Some(RemoteInvalidation::Strict);
        if strict {
            // The next connection does not offer it.
            self.connection.shared.lessons.withhold_invalidation();
        }
        !strict
    }
}

impl Connection {
    /// Completes a call whose memory the server can no longer reach, with its reply in `message`,
    /// or with an error.
    #[inline(always)]
    pub(super) fn complete(
        &self,
        mut found: Found<'_, Request>,
        delivery: Option<Delivery>,
        message: &[u8],
    ) {
        let len = match delivery {
            Some(Delivery::Nothing { len }) => Some(len),
            Some(Delivery::Inline { payload, placed }) => message
                .len()
                .checked_sub(payload)
                .and_then(|start| message.get(start..))
                .and_then(|payload| found.fill(payload, placed).ok())
                .map(|(len, copied)| {
                    if copied != 0 {
                        self.shared.stats.fixup_bytes.add(copied);
                    }
                    len
                }),
            None => None,
        };
        match len {
            Some(len) => {
                self.confirm();
                found.complete(len);
            }
            None => {
                self.shared.stats.bad_replies.inc();
                found.fail();
            }
        }
    }
}
