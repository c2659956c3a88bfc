// SPDX-License-Identifier: GPL-2.0

//! Messages about the first call, which the transport makes itself: the
//! [probe](super::super::probe), and the [offer of version 2](super::super::connection::offer); and
//! a later refusal of the version that both ends have agreed on.

use super::{
    super::{
        connection::{
            attempt::StepError,
            close_reason::CloseReason, //
        },
        negotiated::PeerData,
        probe::probe_xid, //
    },
    Source,
    Spent, //
};
use crate::{
    os::series::{
        EPROTO,
        EPROTONOSUPPORT, //
    },
    proto::{
        negotiate::client::{
            Action,
            Answer,
            Event, //
        },
        Incoming,
        RdmaError,
        Wire, //
    },
    sunrpc::ConnectStatus, //
};

/// The outcome of an offer, for the trace. `None` if it has none yet.
const fn outcome(action: Action) -> Option<&'static str> {
    match action {
        Action::Use { version, .. } if version == Wire::V2.version() => Some("accepted"),
        Action::Use { .. } => Some("version 1"),
        Action::End => Some("an error"),
        Action::Fail => Some("no version in common"),
        Action::Nothing | Action::Offer | Action::Handle | Action::Drop => None,
    }
}

impl Source<'_> {
    /// Takes the answer to the offer, or an operation in front of it: a server may announce itself
    /// before it answers. `None` if `message` is neither, or has invalidated a registration, which
    /// no call has offered yet (PD-31).
    pub(super) fn first(self, message: &[u8]) -> Option<Spent> {
        if self.invalidated.is_some() {
            return None;
        }
        if Event::of(message).is_some_and(|event| self.is_answered(event)) {
            return Some(Spent::Late);
        }
        let agreement = &self.connection.agreement;

        match Wire::V2.receive(message) {
            Incoming::Operation(arrived) if agreement.offer.is_open() => {
                if !agreement.characteristics.keep_early(&arrived) {
                    self.count_odd();
                }
                Some(Spent::Unsolicited)
            }
            _ => None,
        }
    }

    fn is_answered(self, event: Event) -> bool {
        let offer = &self.connection.agreement.offer;
        let was_open = offer.is_open();
        let action = offer.on(event).action;
        let Some(outcome) = outcome(action) else {
            return false;
        };

        // The first call to a server that is remembered to have version 1 offers nothing.
        if was_open {
            let trace = self.connection.shared.trace();
            trace.offer(probe_xid(self.connection), outcome);
        }
        match action {
            Action::Use { version, credits } => self.agreed(version, credits),
            Action::Fail => {
                let failed = StepError::new(ConnectStatus::NoVersion, EPROTONOSUPPORT);
                self.fail_first(failed);
            }
            _ => self.fail_first(StepError::new(ConnectStatus::Retry, EPROTO)),
        }
        true
    }

    /// Both ends have agreed on `version`, with a grant of `credits`.
    fn agreed(self, version: u32, credits: u32) {
        let connection = self.connection;
        let early = connection.agreement.characteristics.take_early();
        let Some(negotiated) = connection.agreement.agree(version, credits) else {
            return;
        };

        connection.note_reverse_payload(negotiated);
        // sunrpc gets the window when it learns of the connection.
        let _ = connection.window.granted(credits, || negotiated.credits);
        // In version 2 the exchange of characteristics comes first.
        let is_version_1 = negotiated.wire() == Wire::V1;
        if is_version_1 {
            connection.confirm();
        }
        match early {
            Some(_) if is_version_1 => self.count_odd(),
            // Its Receive was posted again when it came.
            Some(early) => _ = self.operation(&early.arrived()),
            None => {}
        }
        if connection.attempt.end_probe() {
            connection.attempt.end(Ok(PeerData::NONE));
        }
    }

    fn count_odd(self) {
        self.connection.shared.stats.odd_operations.inc();
    }

    /// Fails the attempt to connect, which waits for the first call.
    fn fail_first(self, failed: StepError) {
        if self.connection.attempt.end_probe() {
            self.connection.attempt.end(Err(failed));
        }
    }

    /// Returns `true`, once, if a message with this xid is about the probe.
    fn is_about_probe(self, xid: u32) -> bool {
        self.connection.link.life().is_forming()
            && xid == probe_xid(self.connection)
            && self.connection.attempt.end_probe()
    }

    /// Fails the attempt to connect, and returns `true`, if an unusable message with this xid is
    /// about the probe.
    pub(super) fn probe_failed(self, xid: u32) -> bool {
        let failed = self.is_about_probe(xid);

        if failed {
            let failed = StepError::new(ConnectStatus::Retry, EPROTO);
            self.connection.attempt.end(Err(failed));
        }
        failed
    }

    /// Takes the grant of a reply with this xid in the first version, and returns `true`, if it is
    /// the reply to the first call.
    pub(super) fn probed(self, xid: u32, credits: u32) -> bool {
        let connection = self.connection;
        let is_answer = self.is_answered(Event::Received {
            xid,
            version: Wire::V1.version(),
            credits,
            answer: Answer::Reply,
        });

        if is_answer {
            return true;
        }
        if !self.is_about_probe(xid) {
            return false;
        }
        let requested = connection.negotiated().map_or(1, |it| it.credits);
        // sunrpc gets the window when it learns of the connection.
        let _ = connection.window.granted(credits, || requested);
        connection.confirm();
        connection.attempt.end(Ok(PeerData::NONE));
        true
    }

    /// Ends the connection, and returns `true`, if the server refuses the version of the call with
    /// this xid, which it has agreed to: the calls are sent again on the next connection (V2-67).
    #[cold]
    pub(super) fn is_refused(self, xid: u32, error: &RdmaError) -> bool {
        let RdmaError::Version { low, high } = *error else {
            return false;
        };
        let connection = self.connection;
        let event = Event::Received {
            xid,
            version: connection.wire().version(),
            credits: 0,
            answer: Answer::Versions { low, high },
        };
        let is_refused = connection.agreement.offer.on(event).action == Action::End;

        if is_refused {
            connection.lost(CloseReason::VersionRefused);
        }
        is_refused
    }
}
