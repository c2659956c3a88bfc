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

/// The chunks of a call, as they are in its header.
pub(super) struct Lists {
    /// Its Read list.
    pub(super) read: List<ReadSegment>,
    /// The Write chunk it offers.
    pub(super) write: List<Segment>,
    /// The Reply chunk it offers.
    pub(super) reply: List<Segment>,
}

impl Lists {
    /// No chunks.
    fn new() -> Self {
        Self {
            read: List::new(),
            write: List::new(),
            reply: List::new(),
        }
    }

    /// Forgets all chunks.
    pub(super) fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.reply.clear();
    }

    /// The handles of all segments.
    pub(super) fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        let read = self.read.as_slice().iter().map(|read| &read.segment);
        let written = Iterator::chain(self.write.as_slice().iter(), self.reply.as_slice());
        Iterator::chain(read, written).map(|segment| segment.handle)
    }
}

/// How far a call has come.
pub(super) enum Phase {
    /// Not sent, or done.
    Idle,
    /// Sent on the connection with this number, which has not replied yet.
    Sent {
        /// The number of the connection.
        generation: u64,
        /// What the server may reach, and where to fence it.
        exposed: Option<Exposed>,
    },
    /// The reply has come while the call was not among those that wait for one: its task has left
    /// it and not let go of the buffers yet, of which the server may still reach this; or the task
    /// encodes it for the next connection.
    Late(Option<Exposed>),
    /// Answered; the server is being kept from the memory. Then the call gets its reply, which
    /// waits in the state.
    Fencing,
    /// Abandoned by its task, which waits until the server is kept from the memory.
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
    /// Bytes of it.
    pub(super) len: u32,
    /// What the fence was posted on.
    pub(super) connection: Arc<Connection>,
}

/// What is left to do with a good reply before its call can be completed.
#[derive(Clone, Copy)]
pub(super) enum Rest {
    /// Nothing: all of it, so many bytes, has come by RDMA.
    Nothing {
        /// Bytes of the reply.
        len: u32,
    },
    /// The inline part goes to where the upper layer will decode it.
    Inline {
        /// Bytes of it, the last ones of the message.
        payload: usize,
        /// Bytes of page data that have come by RDMA, if any.
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
    /// The xid of the call that was sent last.
    pub(super) xid: u32,
    /// Set when that call counts as abandoned.
    pub(super) abandoned: bool,
    /// The number of errors about that call that could not be decoded.
    pub(super) undecodable: u32,
    /// Set when that call has chunks.
    pub(super) chunked: bool,
    /// Its chunks if so; not there while they are filled in.
    pub(super) lists: Option<KBox<Lists>>,
}

impl State {
    /// The chunks of the call, if it has any.
    pub(super) fn chunks(&self) -> Option<&Lists> {
        self.lists.as_deref().filter(|_| self.chunked)
    }

    /// What the call offers to its reply.
    #[inline]
    pub(super) fn offered(&self) -> Offered<'_> {
        self.chunks().map_or(Offered::default(), |lists| Offered {
            write: lists.write.as_slice(),
            reply: lists.reply.as_slice(),
        })
    }

    /// Tells whether the call may be sent: the server cannot reach any memory of it.
    #[inline]
    pub(super) fn is_sendable(&self) -> bool {
        matches!(
            self.phase,
            Phase::Idle | Phase::Sent { exposed: None, .. } | Phase::Late(None)
        )
    }

    /// The memory of the call that the server may reach on the connection with this number.
    pub(super) fn exposed_on(&mut self, connection: u64) -> Option<&mut Option<Exposed>> {
        match &mut self.phase {
            Phase::Sent {
                generation,
                exposed,
            } if *generation == connection => Some(exposed),
            Phase::Late(exposed)
                if exposed
                    .as_ref()
                    .is_some_and(|exposed| exposed.connection.generation() == connection) =>
            {
                Some(exposed)
            }
            _ => None,
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

    /// As [`State::set_aside`], if the fence was posted on the connection with this number.
    pub(super) fn set_aside_on(&mut self, connection: u64) -> Option<Answer> {
        self.answer
            .as_ref()
            .is_some_and(|answer| answer.connection.generation() == connection)
            .then(|| self.set_aside())
            .flatten()
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
    /// Signalled when the fence of an abandoned call is over.
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
                    xid: 0,
                    abandoned: false,
                    undecodable: 0,
                    chunked: false,
                    lists: Some(KBox::new(Lists::new(), GFP_KERNEL)?),
                },
                "rpcrdma_rs::Flight"
            ),
            released <- Event::new(),
        })
    }
}
