// SPDX-License-Identifier: GPL-2.0

//! The time that a connection exists: its number, its place among all connections, and the reason
//! of its end.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        SetOnce,
        SpinLock, //
    }, //
};

use super::{
    close_reason::CloseReason,
    list::{
        self,
        Entry, //
    }, //
};

/// The time that a connection exists.
#[pin_data]
pub(super) struct Tenure {
    /// The number of the connection.
    number: u32,
    /// Its place among all connections.
    #[pin]
    entry: SpinLock<Option<Entry>>,
    /// The reason of its end.
    ended: SetOnce<CloseReason>,
}

impl Tenure {
    /// The time of a new connection, which has no place yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            number: list::number(),
            entry <- new_spinlock!(None, "rpcrdma_rs::Tenure::entry"),
            ended: SetOnce::new(),
        })
    }

    /// The number of the connection.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Keeps the place of the connection among all others.
    pub(super) fn enlist(&self, entry: Entry) {
        *self.entry.lock() = Some(entry);
    }

    /// The connection leaves its place.
    pub(super) fn delist(&self) {
        let entry = self.entry.lock().take();

        // Not under the lock: its file waits for readers.
        drop(entry);
    }

    /// Notes why the connection ends, unless that is known already.
    pub(super) fn end(&self, why: CloseReason) {
        self.ended.populate(why);
    }

    /// The reason of the end, once it is known.
    pub(super) fn ended(&self) -> Option<&CloseReason> {
        self.ended.as_ref()
    }
}
