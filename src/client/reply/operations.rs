// SPDX-License-Identifier: GPL-2.0

//! Operations of version 2, and errors about those of this end.

use super::{
    super::reverse,
    Source,
    Spent, //
};
use crate::proto::{
    exchange::{
        message,
        Refused, //
    },
    neutral::Optional,
    RdmaError,
    Reason, //
};

impl Source<'_> {
    /// Takes an operation of the server.
    #[cold]
    pub(super) fn operation(self, arrived: &Optional<'_>) -> Spent {
        let connection = self.connection;
        let characteristics = &connection.agreement.characteristics;
        let effect = characteristics.sizes.with(|exchange| {
            // Calls may have been planned for as much.
            let relied = exchange.in_force().0;
            exchange.receive(arrived, relied)
        });
        let Some(effect) = effect else {
            return Spent::Unsolicited;
        };

        connection.apply_characteristics();
        characteristics.sizes.stir();
        characteristics.trace(
            connection.shared.trace(),
            arrived.xid,
            message::name(arrived),
            false,
        );
        if effect.odd.is_some() {
            connection.shared.stats.odd_operations.inc();
        }
        if let Some(response) = effect.respond {
            reverse::respond(connection, response);
        }
        if !effect.is_response {
            return Spent::Unsolicited;
        }
        connection.granted(arrived.credits);
        connection.exchanged();
        // A Receive was posted for it, as for a reply.
        Spent::Late
    }

    /// Takes an error about an operation of this end. [`Refused::Nothing`] if it is about a call.
    pub(super) fn operation_refused(self, xid: u32, error: &RdmaError) -> Refused {
        let sizes = &self.connection.agreement.characteristics.sizes;
        let refused = sizes
            .with(|exchange| exchange.refused(xid, error))
            .unwrap_or(Refused::Nothing);

        if refused != Refused::Nothing {
            self.operation_ended();
        }
        refused
    }

    /// Takes a response to an operation of this end that cannot be decoded. Its credits count no
    /// more than those of any such message (V1-39).
    #[cold]
    pub(super) fn bad_response(self, xid: u32, why: Reason) -> Spent {
        let sizes = &self.connection.agreement.characteristics.sizes;

        self.count_discarded(why);
        if sizes.with(|exchange| exchange.undecoded(xid)) != Some(true) {
            return Spent::Unsolicited;
        }
        self.operation_ended();
        // A Receive was posted for it, as for a reply.
        Spent::Late
    }

    /// An operation of this end is over, without an effect on the server.
    fn operation_ended(self) {
        let connection = self.connection;

        connection.apply_characteristics();
        connection.agreement.characteristics.sizes.stir();
        connection.exchanged();
    }
}
