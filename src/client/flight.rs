// SPDX-License-Identifier: GPL-2.0

//! Where a call is between its Send and its completion.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

use super::connection::Connection;
use crate::{
    os::Event,
    proto::{
        Offered,
        Segment, //
    },
    sunrpc::Pinned,
    verbs::{
        Live,
        MrList, //
    }, //
};

/// The most segments of one chunk.
pub(super) const MAX_SEGMENTS: usize = 16;

/// The segments of one chunk.
#[derive(Clone, Copy)]
pub(super) struct Segments {
    list: [Segment; MAX_SEGMENTS],
    len: usize,
}

impl Segments {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            list: [Segment::default(); MAX_SEGMENTS],
            len: 0,
        }
    }

    /// Forgets all segments.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a segment.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` when there are too many.
    #[inline]
    pub(super) fn push(&mut self, segment: Segment) -> Result {
        *self.list.get_mut(self.len).ok_or(EMSGSIZE)? = segment;
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// The segments.
    #[inline]
    pub(super) fn as_slice(&self) -> &[Segment] {
        self.list.get(..self.len).unwrap_or(&[])
    }
}

/// How far a call has come.
pub(super) enum Phase {
    /// Not sent, or done.
    Idle,
    /// Sent on the connection with this number, which has not answered yet.
    Sent {
        /// The number of the connection.
        generation: u64,
        /// What the server may reach, and where to fence it.
        exposed: Option<Exposed>,
    },
    /// Answered; the server is being kept from the memory. Then the call gets its reply of so many
    /// octets, or fails.
    Fencing {
        /// The request.
        reply: Pinned<Flight>,
        /// Octets of the reply, or `None` if it was not a good one.
        len: Option<u32>,
    },
    /// Given up by its task, which waits until the server is kept from the memory.
    Releasing,
}

/// Registrations, and the connection that they are good for.
pub(super) struct Exposed {
    /// The connection.
    pub(super) connection: Arc<Connection>,
    /// The registrations.
    pub(super) mrs: MrList<Live>,
}

/// A call's state, under the flight's lock.
pub(super) struct State {
    /// How far it has come.
    pub(super) phase: Phase,
    /// The Write chunk it offers.
    pub(super) write: Segments,
    /// The Reply chunk it offers.
    pub(super) reply: Segments,
}

impl State {
    /// What the call offers to its reply.
    pub(super) fn offered(&self) -> Offered<'_> {
        Offered {
            write: self.write.as_slice(),
            reply: self.reply.as_slice(),
        }
    }

    /// Takes what the server may reach, if the call has not been answered.
    pub(super) fn take_exposed(&mut self) -> Option<Exposed> {
        match &mut self.phase {
            Phase::Sent { exposed, .. } => exposed.take(),
            _ => None,
        }
    }
}

/// What the transport keeps for each request.
#[pin_data]
pub(crate) struct Flight {
    /// The number of its request, by which the completion of a fence finds it.
    pub(super) index: u32,
    #[pin]
    pub(super) state: SpinLock<State>,
    /// Signalled when the fence of a call that was given up is over.
    #[pin]
    pub(super) released: Event,
}

impl Flight {
    /// A call that is not sent.
    pub(super) fn new(index: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            state <- new_spinlock!(
                State {
                    phase: Phase::Idle,
                    write: Segments::new(),
                    reply: Segments::new(),
                },
                "rpcrdma_rs::Flight"
            ),
            released <- Event::new(),
        })
    }
}
