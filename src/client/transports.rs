// SPDX-License-Identifier: GPL-2.0

//! The list of all transports.

use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::Acquire,
        Arc, //
    }, //
};

use super::connection::{
    close_reason::CloseReason,
    Shared, //
};
use crate::{
    os,
    policy::pattern::Pattern, //
};

os::global! {
    /// The transports, by the number that sunrpc gives them. `None` while none exists: a static
    /// value is not freed when the module is unloaded.
    static TRANSPORTS: Option<RBTree<u32, Arc<Shared>>> = None;
}

/// Makes the list ready for use.
pub(crate) fn init() {
    TRANSPORTS.init();
}

/// The place of a transport in the list, which it leaves when this is dropped.
pub(super) struct Entry(Arc<Shared>);

impl Entry {
    /// Adds a transport.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(shared: &Arc<Shared>) -> Result<Self> {
        // Before the lock: reclaim may wait for dirty pages, the pages for a connection, and the
        // attempt to make that connection for the lock.
        let node = RBTreeNode::new(shared.xprt.id(), shared.clone(), GFP_KERNEL)?;
        let mut transports = TRANSPORTS.lock().ok_or(ENODEV)?;

        let list = transports.get_or_insert_with(RBTree::new);
        // xprt_alloc() gives a transport the number 0 when it has no memory for another number.
        if list.get(&shared.xprt.id()).is_some() {
            return Err(ENOMEM);
        }
        list.insert(node);
        Ok(Self(shared.clone()))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut transports) = TRANSPORTS.lock() else {
            return;
        };
        let Some(list) = &mut *transports else {
            return;
        };

        let removed = list.remove_node(&self.0.xprt.id());
        if list.is_empty() {
            *transports = None;
        }
        drop(transports);
        drop(removed);
    }
}

/// Calls `act` with each transport.
pub(super) fn for_each(mut act: impl FnMut(&Shared)) {
    if let Some(transports) = TRANSPORTS.lock() {
        for (_, shared) in transports.iter().flat_map(RBTree::iter) {
            act(shared);
        }
    }
}

/// Ends the connections that `pattern` matches; the next call over each transport makes a new one.
///
/// # Errors
///
/// `ENOENT` if no transport matches.
pub(crate) fn reconnect(pattern: &Pattern) -> Result {
    let mut found = false;

    for_each(|shared| {
        if !shared.is_target_of(pattern) {
            return;
        }
        found = true;
        // sunrpc has not finished making the transport until it requests a connection.
        if shared.started.load(Acquire) {
            if let Some(connection) = shared.current() {
                connection.tenure.end(CloseReason::Rule);
            }
            shared.xprt.force_disconnect();
        }
    });
    if found {
        Ok(())
    } else {
        Err(ENOENT)
    }
}
