// SPDX-License-Identifier: GPL-2.0

//! A stack of linked nodes in one word. The host tests explore it.

use core::ptr::null_mut;

use kernel::sync::atomic::{
    Acquire,
    Full,
    Relaxed, //
};

use crate::os::series::AtomicPtr;

/// The first node of a chain: any thread adds a node, and others take the whole chain.
///
/// A node is never taken alone, so that it does not matter if the first one was taken and has come
/// back in between: its successor is linked when it is added.
pub(super) struct Stack<T>(AtomicPtr<T>);

impl<T> Stack<T> {
    /// No nodes.
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::null())
    }

    /// Adds the node that `node` makes, which must be followed by the chain that it is given: its
    /// first node, or null. `link` makes another chain follow the node, if one came in between. A
    /// full barrier.
    #[inline(always)]
    pub(super) fn push(&self, node: impl FnOnce(*mut T) -> *mut T, link: impl Fn(*mut T, *mut T)) {
        let mut first = self.0.load(Relaxed);
        let node = node(first);

        while let Err(now) = self.0.cmpxchg(first, node, Full) {
            first = now;
            link(node, first);
        }
    }

    /// Takes the whole chain: its first node, or null.
    #[inline(always)]
    pub(super) fn take(&self) -> *mut T {
        self.0.xchg(null_mut(), Acquire)
    }
}
