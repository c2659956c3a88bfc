// SPDX-License-Identifier: GPL-2.0

//! The beginning of a connection's use.

use kernel::prelude::*;

use super::{
    super::size::TRANSFERS,
    outbox::BEYOND,
    Connection,
    ConnectionQp,
    ConnectionSends,
    Settled,
    Terms, //
};
use crate::{
    cm::Gid,
    os::{
        jiffies,
        Fifo, //
    },
    proto::{
        responder::invalidation,
        PrivateData,
        Thresholds, //
    },
    sunrpc::{
        svc::SvcXprt,
        Peer, //
    },
    verbs::{
        MrPool,
        MrSize,
        QpSize,
        TransferSize,
        Transfers, //
    }, //
};

/// Blocks of 1, 4 and 16 requests that a connection has at first.
const FIRST_BLOCKS: [u32; 3] = [4, 2, 0];

/// The most requests that blocks are allocated for, for each credit: as many as the longest reply
/// takes. Replies that wait for room have theirs, too, one for each thread of the server.
const MOST_REQUESTS: u32 = 66;

/// Calls that may come beyond few credits.
const MOST_TOGETHER: u32 = 16;

/// The most registrations that RDMA Reads land in, on devices that need them.
pub(in crate::server) const MOST_SINKS: u32 = 256;

/// These registrations.
const SINKS: MrSize = MrSize {
    first: 2,
    most: MOST_SINKS,
    per_message: 5,
    most_per_message: 32,
    pages: 256,
};

/// The server's side of a connection, before the client's is known.
pub(in crate::server) struct Own {
    /// The object that the core knows the connection by.
    pub(in crate::server) xprt: SvcXprt,
    /// The port of our device, and its address.
    pub(in crate::server) local: (u32, Gid),
    /// The message for the client.
    pub(in crate::server) data: PrivateData,
    /// The most calls that the client may have outstanding.
    pub(in crate::server) credits: u32,
    /// The size of the queue pair.
    pub(in crate::server) size: QpSize,
    /// Elements of an RDMA Write, and of an RDMA Read.
    pub(in crate::server) elements: (u32, u32),
    /// RDMA Reads land in registrations.
    pub(in crate::server) has_sinks: bool,
}

impl Connection {
    /// Settles the terms, posts the first Receives, and opens the gate for `qp` and the outbox with
    /// `sends`. Called once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the device's error.
    pub(in crate::server) fn open(
        &self,
        mut qp: ConnectionQp,
        sends: ConnectionSends,
        own: Own,
    ) -> Result {
        // CAST: Widening.
        let most = own.size.recvs.saturating_add(BEYOND) as usize;

        // CAST: Widening.
        self.calls.make(most, own.credits as usize)?;
        let waiting = Fifo::new(most)?;
        let terms = self.settle(&mut qp, own)?;
        self.terms.populate(terms);
        if let Some(settled) = self.settled() {
            settled.trace_terms();
        }
        self.receives.posted(qp.post_first_receives()?);
        self.link.set_qp(qp);
        self.outbox.open(sends, waiting);
        Ok(())
    }

    /// The terms, with what makes the RDMA Reads and Writes on `qp`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the device's error.
    fn settle(&self, qp: &mut ConnectionQp, own: Own) -> Result<Terms> {
        let Own {
            xprt,
            local,
            data,
            credits,
            size,
            elements,
            has_sinks,
        } = own;
        let sinks = if has_sinks {
            Some(MrPool::new(qp.poster(), &SINKS)?)
        } else {
            None
        };
        let size_of_transfers = TransferSize {
            entries: TRANSFERS,
            write_elements: elements.0,
            read_elements: elements.1,
            first: FIRST_BLOCKS,
            most: MOST_REQUESTS.saturating_mul(credits.max(MOST_TOGETHER)),
        };
        let transfers = Transfers::new(qp.poster(), &size_of_transfers, sinks.clone())?;
        Ok(Terms {
            xprt,
            local,
            own: data,
            since: jiffies(),
            thresholds: Thresholds::for_server(&data, &self.peer()),
            credits,
            // CAST: Widening.
            send_len: size.send_len as usize,
            receives: qp.recv_queue(),
            transfers,
            sinks,
            most_transfers: TRANSFERS,
            elements,
            invalidation: invalidation::permitted(&data, &self.peer()),
        })
    }
}

impl Settled<'_> {
    /// Traces the terms.
    fn trace_terms(&self) {
        let terms = self.terms;
        let number = |data: PrivateData| u64::from_be_bytes(data.encode());
        let sent = if self.admission.policy.private_data {
            number(terms.own)
        } else {
            0
        };

        self.trace().accept(
            Peer::new(&self.admission.client).host(),
            (sent, self.admission.data.map_or(0, number)),
            (terms.thresholds.call, terms.thresholds.reply),
            terms.credits,
        );
    }
}
