// SPDX-License-Identifier: GPL-2.0

//! The memory that connections of clients take: for their buffers, and for arguments that are read
//! from the clients.

use super::room;
use crate::{
    policy,
    verbs::Account, //
};

static BUFFERS: Account = Account::new();
static ARGUMENTS: Account = Account::new();

/// The account of the buffers, with the limit that holds now.
pub(super) fn buffers() -> &'static Account {
    refresh();
    &BUFFERS
}

/// The account of the arguments, without the memory of each connection's own, with the limit that
/// holds now.
pub(super) fn arguments() -> &'static Account {
    refresh();
    &ARGUMENTS
}

/// The limit of the parameter holds from now on, for present connections, too.
pub(super) fn refresh() {
    let most = policy::server_memory();

    BUFFERS.limit(most);
    ARGUMENTS.limit(most);
}

/// Memory for the arguments of one call.
pub(super) type Share = room::Share<Shared>;

/// Memory of an account, until this is dropped.
pub(super) struct Shared {
    account: &'static Account,
    bytes: usize,
}

impl Shared {
    /// `bytes` of `account`, of which the connection has `held` bytes already; `None` if fewer
    /// would be left then than the connection has, so that there is some for others.
    pub(super) fn take(account: &'static Account, held: usize, bytes: usize) -> Option<Self> {
        let (taken, most) = account.usage();
        let held = held.saturating_add(bytes);

        if most.saturating_sub(taken.saturating_add(bytes)) < held {
            return None;
        }
        account.take(bytes).ok()?;
        Some(Self { account, bytes })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.account.give(self.bytes);
    }
}
