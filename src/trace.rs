// SPDX-License-Identifier: GPL-2.0

//! Trace events: `/sys/kernel/tracing/events/rpcrdma_rs`, defined in `include/trace.h`.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)
//!
//! While its event is off, a function costs a jump that is patched out, where helpers are inlined.
//! Events of every call have a switch besides, so that their values are computed only for a tracer.

use kernel::prelude::*;

use crate::bindings;

/// The transport that an event is about: its number in sunrpc.
#[derive(Clone, Copy)]
pub(crate) struct Trace(pub(crate) u32);

/// A text and its length in bytes, for C functions that take both.
#[inline]
fn text(text: &str) -> (*const kernel::ffi::c_char, u32) {
    // CAST: Texts are short.
    (text.as_ptr().cast(), text.len() as u32)
}

/// Declares functions that return `true` if an event is on.
macro_rules! switches {
    ($type:ident: $($(#[$meta:meta])* $name:ident: $switch:ident,)*) => {
        impl $type {
            $(
                $(#[$meta])*
                #[inline(always)]
                pub(crate) fn $name() -> bool {
                    // SAFETY: Reads a switch, which is there as long as the module.
                    unsafe { bindings::$switch() }
                }
            )*
        }
    };
}

switches! {
    Trace:
    /// Returns `true` if [`Trace::marshal`] has an effect.
    is_marshal_on: trace_marshal_enabled,
    /// Returns `true` if [`Trace::mr_map`] has an effect.
    is_mr_map_on: trace_mr_map_enabled,
    /// Returns `true` if [`Trace::post_send`] has an effect.
    is_post_send_on: trace_post_send_enabled,
    /// Returns `true` if [`Trace::wc_receive`] has an effect.
    is_wc_receive_on: trace_wc_receive_enabled,
    /// Returns `true` if [`Trace::reply`] has an effect.
    is_reply_on: trace_reply_enabled,
    /// Returns `true` if [`Trace::mr_localinv`] has an effect.
    is_mr_localinv_on: trace_mr_localinv_enabled,
    /// Returns `true` if [`Trace::operation`] has an effect.
    is_operation_on: trace_operation_enabled,
}

impl Trace {
    /// Returns `true` if an event about the sending of a call is on.
    #[inline(always)]
    pub(crate) fn is_send_on() -> bool {
        Self::is_marshal_on() || Self::is_mr_map_on() || Self::is_post_send_on()
    }

    /// A connection is requested, after `delay` milliseconds.
    pub(crate) fn op_connect(self, addr: &CStr, port: &CStr, delay: u32) {
        // SAFETY: Both are C strings; the event copies them.
        unsafe {
            bindings::trace_op_connect(self.0, addr.as_char_ptr(), port.as_char_ptr(), delay)
        };
    }

    /// A connection is made, with this private data (0: none) and these thresholds.
    pub(crate) fn inline_thresh(
        self,
        sent: u64,
        received: u64,
        (call, reply): (u32, u32),
        credits: u32,
    ) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_inline_thresh(self.0, sent, received, call, reply, credits) };
    }

    /// A connection has ended, or an attempt to make one.
    pub(crate) fn op_close(self, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_op_close(self.0, reason, len) };
    }

    /// A call of `len` bytes, `pagelen` of them in pages, is sent in mode `rtype`; its reply of up
    /// to `recv_max` bytes may come back in mode `wtype`.
    #[cold]
    #[inline(never)]
    pub(crate) fn marshal(
        self,
        xid: u32,
        (len, pagelen, recv_max): (u32, u32, u32),
        (rtype, wtype): (u32, u32),
    ) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_marshal(self.0, xid, len, pagelen, recv_max, rtype, wtype) };
    }

    /// A call could not be built.
    pub(crate) fn marshal_failed(self, xid: u32, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_marshal_failed(self.0, xid, reason, len) };
    }

    /// The server may read, or write, `length` bytes at `offset` of `handle`.
    pub(crate) fn mr_map(self, xid: u32, handle: u32, length: u32, offset: u64, writable: bool) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_mr_map(self.0, xid, handle, length, offset, writable) };
    }

    /// A message of `len` bytes was handed to the device.
    #[cold]
    #[inline(never)]
    pub(crate) fn post_send(self, xid: u32, len: u32) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_post_send(self.0, xid, len) };
    }

    /// A message of `len` bytes came, and has invalidated a handle, or none.
    #[cold]
    #[inline(never)]
    pub(crate) fn wc_receive(self, len: u32, invalidated: Option<u32>) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_wc_receive(self.0, len, invalidated.unwrap_or(0)) };
    }

    /// A reply to a call that waits for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn reply(self, xid: u32, credits: u32) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_reply(self.0, xid, credits) };
    }

    /// A reply that cannot be used.
    pub(crate) fn reply_err(self, xid: u32, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_reply_err(self.0, xid, reason, len) };
    }

    /// The offer of version 2 has its answer, or gets none.
    #[cold]
    pub(crate) fn offer(self, xid: u32, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_offer(self.0, xid, reason, len) };
    }

    /// We invalidate `count` registrations of a call.
    #[cold]
    #[inline(never)]
    pub(crate) fn mr_localinv(self, xid: u32, count: u32) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_mr_localinv(self.0, xid, count) };
    }

    /// A call of the server's, of `len` bytes.
    pub(crate) fn cb_call(self, xid: u32, len: u32) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_cb_call(self.0, xid, len) };
    }

    /// Our reply to such a call.
    pub(crate) fn cb_reply(self, xid: u32, len: u32) {
        // SAFETY: The event takes numbers only, any of them.
        unsafe { bindings::trace_cb_reply(self.0, xid, len) };
    }

    /// An operation of version 2 was sent, or received. The sizes of the Receives, own ones and the
    /// server's, are in force after it.
    pub(crate) fn operation(self, xid: u32, name: &str, is_sent: bool, sizes: (u32, u32)) {
        let ((name, len), (receive, peer)) = (text(name), sizes);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_operation(self.0, xid, name, len, is_sent, receive, peer) };
    }
}

/// The connection of a client that an event is about: its number.
#[derive(Clone, Copy)]
pub(crate) struct ServerTrace(pub(crate) u32);

switches! {
    ServerTrace:
    /// Returns `true` if [`ServerTrace::call`] has an effect.
    is_call_on: trace_svc_call_enabled,
    /// Returns `true` if [`ServerTrace::reply`] has an effect.
    is_reply_on: trace_svc_reply_enabled,
    /// Returns `true` if [`ServerTrace::operation`] has an effect.
    is_operation_on: trace_svc_operation_enabled,
}

/// Declares functions about a number of bytes of a call.
macro_rules! counts {
    ($($(#[$meta:meta])* $name:ident: $event:ident,)*) => {
        impl ServerTrace {
            $(
                $(#[$meta])*
                #[cold]
                #[inline(never)]
                pub(crate) fn $name(self, xid: u32, len: u32) {
                    // SAFETY: The event takes numbers only, any of them.
                    unsafe { bindings::$event(self.0, xid, len) };
                }
            )*
        }
    };
}

counts! {
    /// A call has come, in a message of `len` bytes.
    call: trace_svc_call,
    /// `len` bytes of its arguments are read from the client's memory.
    read: trace_svc_read,
    /// `len` bytes of its reply are written to the client's memory.
    write: trace_svc_write,
    /// A reply of `len` bytes, before any part of it is written.
    reply: trace_svc_reply,
    /// A call to the client, of `len` bytes.
    cb_call: trace_svc_cb_call,
    /// The client's reply to such a call.
    cb_reply: trace_svc_cb_reply,
}

impl ServerTrace {
    /// The request of the client at `addr` is accepted, with this private data (0: none), these
    /// thresholds, and up to `credits` credits.
    pub(crate) fn accept(
        self,
        addr: &CStr,
        (sent, received): (u64, u64),
        (call, reply): (u32, u32),
        credits: u32,
    ) {
        // `count_bytes` would leave a call to panic. CAST: Texts are short.
        let len = addr.to_bytes_with_nul().len().saturating_sub(1) as u32;
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe {
            bindings::trace_svc_accept(
                self.0,
                addr.as_char_ptr(),
                len,
                sent,
                received,
                reply,
                call,
                credits,
            )
        };
    }

    /// The connection has ended.
    pub(crate) fn close(self, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_svc_close(self.0, reason, len) };
    }

    /// A message that is no call that can be served.
    pub(crate) fn unusable(self, xid: u32, reason: &str) {
        let (reason, len) = text(reason);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_svc_unusable(self.0, xid, reason, len) };
    }

    /// An operation of version 2 was sent, or received. The sizes of the Receives, own ones and the
    /// client's, are in force after it.
    pub(crate) fn operation(self, xid: u32, name: &str, is_sent: bool, sizes: (u32, u32)) {
        let ((name, len), (receive, peer)) = (text(name), sizes);
        // SAFETY: The event copies `len` bytes of the text, which is borrowed during the call.
        unsafe { bindings::trace_svc_operation(self.0, xid, name, len, is_sent, receive, peer) };
    }
}
