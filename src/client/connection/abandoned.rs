// SPDX-License-Identifier: GPL-2.0

//! Calls whose tasks have left them before a reply came.
//!
//! The server may still work on such a call: it keeps its credit until the reply comes or the
//! connection ends (V1-41). When they hold too many credits the connection does end, before they
//! use up the Receives for their replies.
//!
//! A call is abandoned in steps, and its reply may come between any two of them:
//!
//! 1. sunrpc takes it out of its receive queue, where it is no longer found (also, for a moment,
//!    when a call is encoded again to be sent on the next connection);
//! 2. it releases its credit: from here on the call counts ([`Connection::abandon`]);
//! 3. it releases its buffers: a [`Record`] is made, and the request is free for another call.
//!
//! So a late reply is looked for among the requests first, and then among the records.

use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::SpinLock, //
};

use super::{
    super::request::{
        remotely_invalidated,
        Request, //
    },
    close_reason::CloseReason,
    Connection, //
};
use crate::{
    os,
    verbs::InvalidatedHandle, //
};

/// A late reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Late {
    /// It keeps to the rules.
    Good,
    /// It has invalidated a handle that was not the call's.
    ForeignHandle,
    /// It is the second one to the call.
    Repeated,
}

/// The handles of an abandoned call that its late reply may invalidate.
pub(in crate::client) type Record = KVec<u32>;

/// The records of abandoned calls whose requests are free again, by the xid of the calls.
#[pin_data]
pub(in crate::client) struct Abandoned {
    #[pin]
    records: SpinLock<RBTree<u32, Record>>,
}

impl Abandoned {
    /// No records.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            records <- new_spinlock!(RBTree::new(), "rpcrdma_rs::Abandoned::records"),
        })
    }

    /// Makes a record of the call of `request`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn record(&self, request: &Request) -> Result {
        let count = request.state.lock().chunks().handles().count();
        let mut handles = KVec::with_capacity(count, GFP_KERNEL)?;
        let xid = {
            let state = request.state.lock();
            for handle in state.chunks().handles() {
                handles.push_within_capacity(handle)?;
            }
            state.xid
        };
        let node = RBTreeNode::new(xid, handles, GFP_KERNEL)?;
        let old = self.records.lock().insert(node);
        drop(old);
        Ok(())
    }

    /// The reply to the call with this `xid` has come after all: takes out its record, which the
    /// caller drops without a lock.
    #[must_use]
    pub(in crate::client) fn forget(&self, xid: u32) -> Option<RBTreeNode<u32, Record>> {
        self.records.lock().remove_node(&xid)
    }

    /// Takes out the record of the call with this `xid`, if any, whose late reply has `invalidated`
    /// this handle.
    fn late(&self, xid: u32, invalidated: Option<InvalidatedHandle<'_>>) -> Option<Late> {
        let (_, handles) = self.forget(xid)?.to_key_value();

        Some(match invalidated {
            Some(handle) if !handles.contains(&handle.get()) => Late::ForeignHandle,
            _ => Late::Good,
        })
    }
}

/// Finds the request of the late reply with this `xid`, if it is not free yet.
fn late_to_request(
    connection: &Connection,
    xid: u32,
    invalidated: Option<InvalidatedHandle<'_>>,
) -> Option<Late> {
    let generation = connection.generation();

    for request in connection.shared.slots.iter() {
        let mut state = request.state.lock();
        if state.xid != xid {
            continue;
        }
        if state.call.has_replied_late(generation) {
            return Some(Late::Repeated);
        }
        let seen = state.call.reply_late(generation, |exposed| {
            invalidated.map(|handle| remotely_invalidated(exposed, handle))
        });
        let Some((taken, abandoned)) = seen else {
            continue;
        };
        if abandoned {
            connection.window.replied_late();
        }
        drop(state);
        let late = match &taken {
            Some(None) => Late::ForeignHandle,
            _ => Late::Good,
        };
        drop(taken);
        return Some(late);
    }
    None
}

impl Connection {
    /// The task of `request` releases its credit. If no reply has come, the call counts as
    /// abandoned, and the result is the number of calls that may be outstanding from now on. Called
    /// under a spinlock of sunrpc.
    pub(in crate::client) fn abandon(&self, request: &Request) -> Option<u32> {
        {
            let mut state = request.state.lock();
            if !state.call.abandon(self.generation()) {
                return None;
            }
            self.window.abandon();
        }
        self.shared.stats.abandoned_calls.inc();
        Some(self.window.size())
    }

    /// Makes a record of the abandoned call of `request`, which is about to be free for another
    /// call, and ends the connection if abandoned calls hold too many credits. Process context.
    pub(in crate::client) fn record(&self, request: &Request) {
        // The allocations may be on behalf of memory reclaim.
        let _scope = os::ReclaimScope::enter(self.shared.xprt.is_swapping());

        if self.abandoned.record(request).is_err() {
            self.lost(CloseReason::NoRecord);
            return;
        }
        self.end_if_exhausted();
    }

    /// Ends the connection if abandoned calls hold too many of its credits.
    pub(super) fn end_if_exhausted(&self) {
        // A lost connection ends for another reason.
        if self.link.life().is_closed() || !self.window.is_exhausted() {
            return;
        }
        // The connection itself has not failed, and the next one begins with a call that the server
        // can reply to.
        self.shared.lessons.exhausted();
        if self.announce_loss(CloseReason::Exhausted).is_some() {
            self.shared.stats.exhausted_connections.inc();
        }
    }

    /// Finds the abandoned call of a reply that matches no waiting call, if any. The credit of that
    /// call is free then.
    pub(in crate::client) fn late_reply(
        &self,
        xid: u32,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Option<Late> {
        let late = late_to_request(self, xid, invalidated).or_else(|| {
            self.abandoned
                .late(xid, invalidated)
                .inspect(|_| self.window.replied_late())
        });
        if late.is_some_and(|late| late != Late::Repeated) {
            self.shared.stats.late_replies.inc();
        }
        late
    }
}
