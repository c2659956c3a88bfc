// SPDX-License-Identifier: GPL-2.0

//! Replies to calls.

use kernel::prelude::*;

use super::{
    call::Call,
    connection::Connection, //
};
use crate::{
    os::{
        series::ENOTCONN,
        PAGE_SIZE, //
    },
    proto::{
        v1::{
            header::VERSION,
            responder::reply::{
                ReplyLimits,
                ReplyPlan,
                ReplyShape, //
            }, //
        },
        RdmaError, //
    },
    sunrpc::{
        svc::Outgoing,
        XdrBuf, //
    }, //
};

impl Connection {
    /// Sends the reply of a thread to `call`.
    ///
    /// # Errors
    ///
    /// The reason why the client does not get it; the connection ends then.
    pub(super) fn reply(&self, call: &mut Call, reply: Outgoing<'_>) -> Result {
        if core::mem::take(&mut call.is_busy) {
            self.receives.ended();
        }
        let sent = self.send_reply(call, &reply.reply());
        // On failure, too, nothing refers to its pages.
        reply.copied();
        sent
    }

    /// Sends the reply `body` to `call`, or rejects the call if the client cannot take the reply.
    fn send_reply(&self, call: &Call, body: &XdrBuf<'_>) -> Result {
        let terms = self.terms().ok_or(ENOTCONN)?;
        // Results stay in the reply: it is sent without RDMA Writes.
        let shape = ReplyShape {
            len: body.len(),
            results: &[],
            opaque: true,
        };
        let limits = ReplyLimits {
            threshold: terms.thresholds.reply,
            page_size: PAGE_SIZE,
            pieces: 1,
            writes: 0,
        };
        let Ok(plan) = ReplyPlan::new(&call.offer(), &shape, &limits) else {
            return self.reject(call.xid, VERSION, &RdmaError::BadHeader, GFP_KERNEL);
        };
        let credits = self.receives.grant(call.credits, terms.credits);
        let sent = self.send_message(GFP_KERNEL, |out| {
            let len = plan.encode_header(call.xid, credits, out).ok()?;
            let copied = body.copy_to(out.get_mut(len..)?, false)?;
            u32::try_from(len).ok()?.checked_add(copied)
        });
        self.check_sent(sent)
    }
}
