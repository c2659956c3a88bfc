// SPDX-License-Identifier: GPL-2.0

//! Calls to the client, and the replies to them (RFC 8167).

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    pr_warn_once,
    prelude::*,
    sync::ArcBorrow, //
};

use super::{
    super::{
        listener::CALLBACKS,
        size::MOST_CALLBACKS, //
    },
    close_reason::CloseReason,
    outbox::Unsent,
    Connection, //
    Settled,
};
use crate::{
    proto::{
        credits,
        neutral::Direction, //
    },
    sunrpc::{
        Callback,
        CallbackStatus,
        Callbacks,
        CallsBack,
        Class,
        Peer, //
    }, //
};

/// Logs, once, a call of `len` bytes that is not sent to a client which takes `most` bytes.
#[cold]
fn report_long(client: &Peer, len: u32, most: u32) {
    pr_warn_once!("{client}: a call of {len} bytes is longer than the client takes ({most})\n");
}

impl CallsBack for Connection {
    const MOST_CALLS: u32 = MOST_CALLBACKS;

    fn class() -> &'static Class {
        &CALLBACKS
    }

    fn set_callbacks(this: ArcBorrow<'_, Self>, callbacks: Callbacks) -> bool {
        // One call may be outstanding until the client grants more (BI-8); the spare Receive is for
        // its reply.
        callbacks.set_credits(1);
        if this.characteristics.is_deaf() {
            return false;
        }
        let is_first = this.callbacks.populate(callbacks);
        if is_first {
            Self::grow_now(this);
        }
        is_first
    }

    fn longest_callback(&self) -> u32 {
        self.terms
            .as_ref()
            .map_or(0, |terms| self.wire().reverse_payload(&terms.thresholds))
    }

    fn call_back(&self, call: &Callback<'_>) -> Result<(), CallbackStatus> {
        let settled = self.settled().ok_or(CallbackStatus::NotConnected)?;
        let body = call.body();
        // CAST: A small number.
        let header = self.wire().header_len() as u32;
        // A call to the client has no chunks (RFC 8167, section 5.2), and no other way is left. The
        // core gives up a call without a reply after some time.
        let most = self
            .characteristics
            .longest_call(self.longest_callback(), header);
        if body.len() > most {
            self.stats.long_callbacks.inc();
            report_long(&Peer::new(&self.admission.client), body.len(), most);
            return Ok(());
        }
        self.characteristics.called(call.xid());
        self.trace().cb_call(call.xid(), body.len());
        // CAST: Widening.
        let most = self.wire().header_len().saturating_add(body.len() as usize);
        let sent = settled.send_message(most, None, GFP_NOWAIT | __GFP_NOWARN, |out| {
            let header = self
                .wire()
                .encode_reverse(call.xid(), MOST_CALLBACKS, Direction::Call, out)
                .ok()?;
            let len = body.copy_to(out.get_mut(header..)?, false)?;
            u32::try_from(header).ok()?.checked_add(len)
        });
        if sent.is_ok() {
            self.stats.callbacks.inc();
        }
        sent.map_err(|why| match why {
            Unsent::Closed => CallbackStatus::NotConnected,
            Unsent::Refused(_) => CallbackStatus::NoMemory,
            Unsent::Device => {
                // The core ends the connection, and with it all calls to the client.
                self.lost(CloseReason::PostRefused);
                CallbackStatus::NoMemory
            }
        })
    }

    fn close_callbacks(&self) {
        self.lost(CloseReason::Callback);
    }
}

impl Settled<'_> {
    /// The client replies to a call with `payload`, and can take `credits` calls.
    pub(super) fn called_back(&self, xid: u32, credits: u32, payload: &[u8]) {
        let Some(callbacks) = self.callbacks.as_ref() else {
            return self.stats.unknown_callbacks.inc();
        };
        // Not more than the Receives that are kept for replies (BI-9, BI-13).
        let most = self.receives.reserved().max(1);

        if callbacks.complete(xid, payload, credits::grant(credits, most)) {
            self.stats.callback_replies.inc();
            // CAST: A message is shorter than 4 GiB.
            self.trace().cb_reply(xid, payload.len() as u32);
        } else {
            self.stats.unknown_callbacks.inc();
        }
    }

    /// The client could not process the call with this xid.
    pub(super) fn call_back_failed(&self, xid: u32) {
        let is_known = self
            .callbacks
            .as_ref()
            .is_some_and(|callbacks| callbacks.fail(xid));

        if is_known {
            self.stats.callback_errors.inc();
        } else {
            self.stats.unknown_callbacks.inc();
        }
    }
}
