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
    RdmaError, //
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
        let connection = self.connection;
        let sizes = &connection.agreement.characteristics.sizes;
        let refused = sizes
            .with(|exchange| exchange.refused(xid, error))
            .unwrap_or(Refused::Nothing);

        if refused != Refused::Nothing {
            connection.apply_characteristics();
            sizes.stir();
            connection.exchanged();
        }
        refused
    }
}
