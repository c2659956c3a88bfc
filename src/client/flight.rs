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
        ReadSegment,
        Segment, //
    },
    sunrpc::Pinned,
    verbs::{
        Live,
        MrList,
        RecvBuffer, //
    }, //
};

/// The most segments of one chunk.
pub(super) const MAX_SEGMENTS: usize = 16;

/// A list of segments of type `T`.
pub(super) struct List<T> {
    all: [T; MAX_SEGMENTS],
    len: usize,
}

impl<T: Copy + Default> List<T> {
    /// An empty list.
    fn new() -> Self {
        Self {
            all: [T::default(); MAX_SEGMENTS],
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
    pub(super) fn push(&mut self, segment: T) -> Result {
        *self.all.get_mut(self.len).ok_or(EMSGSIZE)? = segment;
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// The segments.
    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        self.all.get(..self.len).unwrap_or(&[])
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
    /// Answered; the server is being kept from the memory. Then the call gets its reply, which
    /// waits in the state.
    Fencing,
    /// Given up by its task, which waits until the server is kept from the memory.
    Releasing,
    /// Answered or not, the server may reach memory of the call until this connection is torn down.
    Aside(Arc<Connection>),
}

/// A reply that waits for its call's fence.
pub(super) struct Answer {
    /// The request.
    pub(super) pinned: Pinned<Flight>,
    /// What is left to do with the reply; `None` if it is not a good one.
    pub(super) rest: Option<Rest>,
    /// Where the reply is.
    pub(super) buf: RecvBuffer,
    /// Octets of it.
    pub(super) len: u32,
    /// What the fence was posted on.
    pub(super) connection: Arc<Connection>,
}

/// What is left to do with a good reply before its call can be completed.
#[derive(Clone, Copy)]
pub(super) enum Rest {
    /// Nothing: all of it, so many octets, has come by RDMA.
    Nothing {
        /// Octets of the reply.
        len: u32,
    },
    /// The inline part goes to where the upper layer will decode it.
    Inline {
        /// Octets of it, the last ones of the message.
        payload: usize,
        /// Octets of page data that have come by RDMA, if any.
        placed: Option<u32>,
    },
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
    /// The reply, while the call is being fenced.
    pub(super) answer: Option<Answer>,
    /// Its Read list.
    pub(super) read: List<ReadSegment>,
    /// The Write chunk it offers.
    pub(super) write: List<Segment>,
    /// The Reply chunk it offers.
    pub(super) reply: List<Segment>,
}

impl State {
    /// What the call offers to its reply.
    pub(super) fn offered(&self) -> Offered<'_> {
        Offered {
            write: self.write.as_slice(),
            reply: self.reply.as_slice(),
        }
    }

    /// The call that was sent has been answered: returns what the server may still reach.
    #[inline]
    pub(super) fn answered(&mut self) -> Option<Exposed> {
        match core::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Sent { exposed, .. } => exposed,
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// The fence of an answered call is over: returns the reply that has waited for it.
    pub(super) fn fenced(&mut self) -> Option<Answer> {
        let answer = self.answer.take()?;
        self.phase = Phase::Idle;
        Some(answer)
    }

    /// The fence of an answered call has failed, or could not be posted: the call is not completed,
    /// and its memory is the server's until the connection is torn down. Returns what has to be
    /// dropped without the flight's lock.
    pub(super) fn set_aside(&mut self) -> Option<Answer> {
        let answer = self.answer.take()?;
        self.phase = Phase::Aside(answer.connection.clone());
        Some(answer)
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
                    answer: None,
                    read: List::new(),
                    write: List::new(),
                    reply: List::new(),
                },
                "rpcrdma_rs::Flight"
            ),
            released <- Event::new(),
        })
    }
}
