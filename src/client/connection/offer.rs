// SPDX-License-Identifier: GPL-2.0

//! The offer of version 2 on a connection, and the server's answer to it.
//!
//! The decisions are those of [`negotiate::client`](crate::proto::negotiate::client). What they are
//! worth for the next connections is kept until the memory of peers can take it: that is under a
//! mutex, and answers come to the handler of completions.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::{
    super::negotiated::PeerData,
    attempt::StepError,
    close_reason::CloseReason,
    Connection, //
};
use crate::{
    os::series::{
        EPROTO,
        EPROTONOSUPPORT, //
    },
    policy,
    proto::{
        negotiate::client::{
            Action,
            Answer,
            Client,
            Event,
            Outcome, //
        },
        peers::{
            Note,
            Peer, //
        },
        RdmaError,
        Versions,
        Wire, //
    },
    sunrpc::ConnectStatus, //
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
    fn on(&self, event: Event) -> Outcome {
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

    /// The offer has no answer, and gets none: the time is over, or the connection lost.
    pub(in crate::client) fn unanswered(&self) {
        self.on(Event::TimedOut);
    }

    /// Takes the note for the memory of peers.
    fn take_note(&self) -> Option<Note> {
        self.progress.lock().note.take()
    }
}

impl Connection {
    /// The server, for the memory of peers.
    pub(in crate::client) fn peer(&self) -> Peer {
        let server = self.shared.destination.lock().server;

        Peer {
            netns: self.shared.xprt.net().number(),
            address: server.ip(),
            port: server.port(),
        }
    }

    /// Passes the note of this connection to the memory of peers. Process context.
    pub(in crate::client) fn note_version(&self) {
        if let Some(note) = self.offer.take_note() {
            policy::peers::note(&self.peer(), note);
        }
    }

    /// The connection ends because of `why`, while it could send more than the first size (XC-106).
    pub(super) fn note_long_send(&self, why: CloseReason) {
        let could = self.negotiated().is_some_and(|negotiated| {
            negotiated.limits.get().thresholds.call > negotiated.told().call
        });

        if could && matches!(why, CloseReason::Completion(failure) if failure.is_refused()) {
            policy::peers::lost_at_long_send(&self.peer());
        }
    }

    /// Takes the answer to the offer. Returns `false` if `message` is none.
    pub(in crate::client) fn is_answer(&self, message: &[u8]) -> bool {
        Event::of(message).is_some_and(|event| self.is_answered(event))
    }

    /// The same for a reply in the first version.
    pub(in crate::client) fn is_answered_first(&self, xid: u32, credits: u32) -> bool {
        self.is_answered(Event::Received {
            xid,
            version: Wire::V1.version(),
            credits,
            answer: Answer::Reply,
        })
    }

    fn is_answered(&self, event: Event) -> bool {
        match self.offer.on(event).action {
            Action::Use { version, credits } => self.agreed(version, credits),
            Action::End => self.fail_offer(StepError::new(ConnectStatus::Retry, EPROTO)),
            Action::Fail => {
                let failed = StepError::new(ConnectStatus::NoVersion, EPROTONOSUPPORT);
                self.fail_offer(failed);
            }
            Action::Nothing | Action::Offer | Action::Handle | Action::Drop => return false,
        }
        true
    }

    /// Both ends have agreed on `version`, with a grant of `credits`.
    fn agreed(&self, version: u32, credits: u32) {
        let Some(negotiated) = self.negotiated() else {
            return;
        };

        if let Some(wire) = Wire::of(version) {
            negotiated.agree(wire);
            if wire == Wire::V2 {
                self.characteristics.begin(negotiated, credits);
            }
        }
        self.note_reverse_payload(negotiated);
        // sunrpc gets the window when it learns of the connection.
        let _ = self.window.granted(credits, || negotiated.credits);
        // In version 2 the exchange of characteristics comes first.
        if self.wire() == Wire::V1 {
            self.confirm();
        }
        if self.attempt.end_probe() {
            self.attempt.end(Ok(PeerData::NONE));
        }
    }

    fn fail_offer(&self, failed: StepError) {
        if self.attempt.end_probe() {
            self.attempt.end(Err(failed));
        }
    }

    /// Ends the connection, and returns `true`, if the server refuses the version of the call with
    /// this xid, which it has agreed to: the calls are sent again on the next connection (V2-67).
    #[cold]
    pub(in crate::client) fn is_refused(&self, xid: u32, error: &RdmaError) -> bool {
        let RdmaError::Version { low, high } = *error else {
            return false;
        };
        let event = Event::Received {
            xid,
            version: self.wire().version(),
            credits: 0,
            answer: Answer::Versions { low, high },
        };
        let is_refused = self.offer.on(event).action == Action::End;

        if is_refused {
            self.lost(CloseReason::VersionRefused);
        }
        is_refused
    }
}
