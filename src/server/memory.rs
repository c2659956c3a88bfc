// SPDX-License-Identifier: GPL-2.0

//! The memory of the buffers of all connections of clients.

use crate::{
    policy,
    verbs::Account, //
};

static MEMORY: Account = Account::new();

/// The account of the buffers, with the limit that holds now.
pub(super) fn account() -> &'static Account {
    refresh();
    &MEMORY
}

/// The limit of the parameter holds from now on, for buffers of present connections, too.
pub(super) fn refresh() {
    MEMORY.limit(policy::server_memory());
}
