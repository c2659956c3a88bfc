// SPDX-License-Identifier: GPL-2.0

//! The offer of version 2 on a connection; [`reply`](super::super::reply) takes the answer.
//!
//! The decisions are those of [`negotiate::client`](crate::proto::negotiate::client). What they are
//! worth for the next connections is kept until the memory of peers can take it: that is under a
//! mutex, and answers come to the handler of completions.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use crate::proto::{
    negotiate::client::{
        Action,
        Client,
        Event,
        Outcome,
        State, //
    },
    peers::Note,
    Versions, //
};

/// The negotiation, and the note for the memory of peers.
struct Progress {
    client: Client,
    note: Option<Note>,
}

/// The offer of version 2.
#[pin_data]
pub(in crate::client) struct Offer {
    #[pin]
    progress: SpinLock<Progress>,
}

impl Offer {
    /// None.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            progress <- new_spinlock!(
                Progress {
                    client: Client::new(Versions::One),
                    note: None,
                },
                "rpcrdma_rs::Offer::progress"
            ),
        })
    }

    /// Takes an event.
    pub(in crate::client) fn on(&self, event: Event) -> Outcome {
        let mut progress = self.progress.lock();
        let outcome = progress.client.on(event);

        progress.note = outcome.note.or(progress.note);
        outcome
    }

    /// The connection is made, to a server that the memory of peers lists if `remembered` is set.
    /// Returns `true` if the first message has to be an offer, with this xid.
    pub(in crate::client) fn begin(&self, versions: Versions, xid: u32, remembered: bool) -> bool {
        self.progress.lock().client = Client::new(versions);
        self.on(Event::Connected { xid, remembered }).action == Action::Offer
    }

    /// Returns `true` while the offer waits for its answer.
    pub(in crate::client) fn is_open(&self) -> bool {
        matches!(self.progress.lock().client.state, State::Offered { .. })
    }

    /// The offer, if one waits for its answer, gets none: the time is over, or the connection lost.
    /// Returns `true` if one does.
    pub(in crate::client) fn unanswered(&self) -> bool {
        self.on(Event::TimedOut).action == Action::End
    }

    /// Takes the note about this server, for the memory of peers.
    pub(in crate::client) fn take_note(&self) -> Option<Note> {
        self.progress.lock().note.take()
    }
}
