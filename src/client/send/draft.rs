// SPDX-License-Identifier: GPL-2.0

//! A call between its plan and its message.

use super::super::{
    negotiated::Terms,
    request::Request, //
};
use crate::{
    proto::{
        Plan,
        Shape, //
    },
    sunrpc::Call, //
};

/// A call that is planned, and the terms that it was planned under.
pub(super) struct Draft<'a, 'c> {
    pub(super) negotiated: &'a Terms<'a>,
    pub(super) call: &'a Call<'c, Request>,
    pub(super) xid: u32,
    pub(super) plan: Plan,
}

impl<'a, 'c> Draft<'a, 'c> {
    /// The draft of `call`.
    #[inline(always)]
    pub(super) fn new(negotiated: &'a Terms<'a>, call: &'a Call<'c, Request>, plan: Plan) -> Self {
        Self {
            negotiated,
            call,
            xid: call.xid(),
            plan,
        }
    }
}

impl Shape for Call<'_, Request> {
    #[inline(always)]
    fn send_len(&self) -> u32 {
        self.send_buf().len()
    }

    #[inline(always)]
    fn send_pages(&self) -> u32 {
        self.send_buf().page_len()
    }

    #[inline(always)]
    fn send_kvecs(&self) -> u32 {
        self.send_buf().kvecs()
    }

    #[inline(always)]
    fn send_eligible(&self) -> bool {
        self.send_buf().may_be_read_chunk()
    }

    #[inline(always)]
    fn recv_max(&self) -> u32 {
        self.receive_buf().capacity()
    }

    #[inline(always)]
    fn recv_pages(&self) -> u32 {
        self.receive_buf().page_len()
    }

    #[inline(always)]
    fn recv_kvecs(&self) -> u32 {
        self.receive_buf().kvecs()
    }

    #[inline(always)]
    fn recv_eligible(&self) -> bool {
        self.receive_buf().may_be_write_chunk()
    }

    #[inline(always)]
    fn is_opaque(&self) -> bool {
        Call::is_opaque(self)
    }
}
