// SPDX-License-Identifier: GPL-2.0

//! The list of all connections of clients.

use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    super::stats::SUMS,
    Connection, //
};
use crate::{
    os::{
        self,
        debugfs::File, //
    },
    policy::pattern::Pattern,
    view, //
};

/// The connections, and the sums of the counters of ended ones.
struct Connections {
    /// By their numbers. `None` while none exists: a static value is not freed when the module is
    /// unloaded.
    list: Option<RBTree<u32, Arc<Connection>>>,
    ended: [u64; SUMS],
}

os::global! {
    static CONNECTIONS: Connections = Connections { list: None, ended: [0; SUMS] };
}

/// The number of the last connection.
static LAST: Atomic<u32> = Atomic::new(0);

/// Makes the list ready for use.
pub(crate) fn init() {
    CONNECTIONS.init();
}

/// The number of a new connection.
pub(super) fn number() -> u32 {
    LAST.fetch_add(1, Relaxed).wrapping_add(1)
}

/// The place of a connection in the list, and its file; it leaves the list when this is dropped.
pub(super) struct Entry {
    connection: Arc<Connection>,
    _file: File<Connection>,
}

impl Entry {
    /// Adds a connection.
    ///
    /// # Errors
    ///
    /// `EBUSY` if its policy has as many connections as it may have, `ENOMEM`.
    pub(super) fn new(connection: &Arc<Connection>) -> Result<Self> {
        let number = connection.number();
        // Before the lock: reclaim may wait for dirty pages, and these for a connection.
        let node = RBTreeNode::new(number, connection.clone(), GFP_KERNEL)?;
        let mut connections = CONNECTIONS.lock().ok_or(ENODEV)?;
        let list = connections.list.get_or_insert_with(RBTree::new);
        let admission = connection.admission();
        let alike = list
            .values()
            .filter(|other| other.admission().rule == admission.rule)
            .fold(0u32, |count, _| count.saturating_add(1));

        if alike >= admission.policy.connections {
            return Err(EBUSY);
        }
        // Only after 2^32 connections.
        if list.get(&number).is_some() {
            return Err(ENOMEM);
        }
        list.insert(node);
        drop(connections);
        Ok(Self {
            connection: connection.clone(),
            _file: File::new(view::DEBUGFS, fmt!("svc-{number}"), connection.clone()),
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut connections) = CONNECTIONS.lock() else {
            return;
        };
        let Connections { list, ended } = &mut *connections;
        let Some(some) = list else {
            return;
        };

        let removed = some.remove_node(&self.connection.number());
        if some.is_empty() {
            *list = None;
        }
        // Under the lock, so that a sum has each connection once.
        for (sum, counter) in ended.iter_mut().zip(self.connection.summed()) {
            *sum = sum.wrapping_add(counter);
        }
        drop(connections);
        drop(removed);
    }
}

/// Calls `act` with each connection.
pub(in crate::server) fn for_each(mut act: impl FnMut(&Connection)) {
    if let Some(connections) = CONNECTIONS.lock() {
        for (_, connection) in connections.list.iter().flat_map(RBTree::iter) {
            act(connection);
        }
    }
}

/// The sum with this index, over all connections that there were.
pub(in crate::server) fn sum(index: usize) -> u64 {
    let at = |counters: &[u64; SUMS]| counters.get(index).copied().unwrap_or(0);
    let Some(connections) = CONNECTIONS.lock() else {
        return 0;
    };
    let living = connections.list.iter().flat_map(RBTree::values);
    living.fold(at(&connections.ended), |sum, connection| {
        sum.wrapping_add(at(&connection.summed()))
    })
}

/// Ends the connections that `pattern` matches; their clients make new ones.
///
/// # Errors
///
/// `ENOENT` if there is none.
pub(crate) fn end(pattern: &Pattern) -> Result {
    let mut found = false;

    for_each(|connection| {
        if pattern.matches(&connection.admission().target()) {
            found = true;
            connection.end();
        }
    });
    if found {
        Ok(())
    } else {
        Err(ENOENT)
    }
}
