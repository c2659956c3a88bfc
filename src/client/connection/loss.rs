// SPDX-License-Identifier: GPL-2.0

//! The beginning of a connection's use, and its loss: requests once that sunrpc close it.

use kernel::prelude::*;

use super::{
    attempt::StepError,
    close_reason::{
        CloseReason,
        Violation, //
    },
    Connection, //
};
use crate::os::series::{
    ECONNRESET,
    EPROTO, //
};
use crate::{
    link::life::{
        Life,
        LossAction,
        PublishAction, //
    },
    sunrpc::ConnectStatus, //
};

impl Connection {
    /// Opens the connection after `xprt_set_connected()`; if it was lost before that, asks sunrpc
    /// to close it.
    pub(in crate::client) fn publish(&self) {
        let disconnect = |action| {
            if action == PublishAction::Disconnect {
                self.shared.xprt.force_disconnect();
            }
        };
        let action = self.link.advance_and_tell(Life::published, disconnect);

        if action == Some(PublishAction::Disconnect) && self.shared.log.may_inform() {
            pr_info!(
                "{}: connection lost before it was used\n",
                self.shared.xprt.peer()
            );
        }
    }

    /// Marks the connection as lost because of `why`, and asks sunrpc, once, to close it. Returns
    /// the action that is due, if it was not lost before.
    pub(in crate::client) fn announce_loss(&self, why: CloseReason) -> Option<LossAction> {
        let action = self.lose(why)?;

        if action == LossAction::Disconnect && self.shared.log.may_inform() {
            pr_info!("{}: connection lost: {}\n", self.shared.xprt.peer(), why);
        }
        Some(action)
    }

    /// Marks the connection as lost because of `why`. If sunrpc knows of it, asks sunrpc to close
    /// it. Returns the action that is due, if it was not lost before.
    fn lose(&self, why: CloseReason) -> Option<LossAction> {
        self.link.advance_and_tell(Life::lost, |action| {
            self.tenure.end(why);
            if action == LossAction::Disconnect {
                self.shared.xprt.force_disconnect();
            }
        })
    }

    /// Ends the connection, or the attempt to make it, because of `why`, which the connection
    /// manager does not report.
    pub(in crate::client) fn lost(&self, why: CloseReason) {
        if self.announce_loss(why) == Some(LossAction::FailAttempt) {
            // Else the connection manager reports the outcome.
            if self.attempt.ends_with_loss() {
                let failed = StepError::new(ConnectStatus::Retry, ECONNRESET);
                self.attempt.end(Err(failed));
            }
        }
    }

    /// Reports a breach of the protocol that leaves the connection in doubt, and ends the
    /// connection.
    pub(in crate::client) fn violated(&self, violation: Violation) {
        let why = CloseReason::Violation(violation);
        let Some(action) = self.lose(why) else {
            return;
        };
        if self.shared.log.may_warn() {
            pr_warn!(
                "{}: ending the connection: {}\n",
                self.shared.xprt.peer(),
                why
            );
        }
        if action == LossAction::FailAttempt {
            let failed = StepError::new(ConnectStatus::Retry, EPROTO);
            self.attempt.end(Err(failed));
        }
    }
}
