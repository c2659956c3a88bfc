// SPDX-License-Identifier: GPL-2.0

//! Stand-ins for Receive buffers. None is ever freed.

use std::ptr::null_mut;

use super::stack::Stack;
use crate::explorer::Plain;

/// A buffer, and the request that it is posted with.
pub(super) struct RecvBuffer(*mut Request);

// SAFETY: A request belongs to one owner at a time.
unsafe impl Send for RecvBuffer {}

struct Request {
    next: *mut Request,
    /// The buffer and the link.
    memory: Plain,
}

/// The request at `at`.
fn request<'a>(at: *mut Request) -> &'a Request {
    // SAFETY: Requests are never freed.
    unsafe { &*at }
}

impl RecvBuffer {
    pub(super) fn new() -> Self {
        Self(Box::leak(Box::new(Request {
            next: null_mut(),
            memory: Plain::new("a Receive buffer"),
        })))
    }
}

/// Receives that were taken.
pub(super) struct RecvChain(Vec<*mut Request>);

impl RecvChain {
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }
}

/// Receives that come back.
pub(super) struct RecvStack(Stack<Request>);

impl RecvStack {
    pub(super) const fn new() -> Self {
        Self(Stack::new())
    }

    pub(super) fn push(&self, buf: RecvBuffer) {
        let link = |request: *mut Request, first| {
            // SAFETY: The request belongs to the caller until it is on the stack.
            unsafe { (*request).next = first };
            self::request(request).memory.write();
        };
        self.0.push(
            |first| {
                link(buf.0, first);
                buf.0
            },
            link,
        );
    }

    pub(super) fn take(&self) -> RecvChain {
        let (mut chain, mut at) = (Vec::new(), self.0.take());
        while !at.is_null() {
            request(at).memory.write();
            chain.push(at);
            at = request(at).next;
        }
        RecvChain(chain)
    }
}
