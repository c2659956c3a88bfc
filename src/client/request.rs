// SPDX-License-Identifier: GPL-2.0

//! The transport's data of a request: its chunks, and its state between Send and completion.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

pub(super) mod state;
mod unmapped;

use crate::os::series::EMSGSIZE;
use crate::{
    os::Completion,
    proto::{
        CallMode,
        Offered,
        ReadSegment,
        ReplyMode,
        Segment,
        SoleChunk, //
    },
    sunrpc::{
        Pinned,
        SlotData, //
    },
    verbs::{
        Invalidated,
        InvalidatedHandle,
        Kept,
        MrList,
        RecvBuffer,
        Registered, //
    }, //
};

use state::RequestState;
use unmapped::Unmapped;

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
    /// `EMSGSIZE` when the list is full.
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
    pub(super) fn new() -> Self {
        Self {
            read: List::new(),
            write: List::new(),
            reply: List::new(),
        }
    }

    /// Makes `chunk`, of one segment, the only chunk. The data of a Read chunk belongs at
    /// `position` in the call.
    #[inline]
    pub(super) fn set(&mut self, chunk: SoleChunk, position: u32, segment: Segment) {
        self.clear();
        // An empty list has room for a segment.
        let _ = match chunk {
            SoleChunk::Read => self.read.push(ReadSegment { position, segment }),
            SoleChunk::Write => self.write.push(segment),
            SoleChunk::Reply => self.reply.push(segment),
        };
    }

    /// Forgets all chunks.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.reply.clear();
    }

    /// All segments, and whether the server may write there.
    fn segments(&self) -> impl Iterator<Item = (&Segment, bool)> {
        let read = self.read.as_slice().iter();
        let written = Iterator::chain(self.write.as_slice().iter(), self.reply.as_slice());
        Iterator::chain(
            read.map(|read| (&read.segment, false)),
            written.map(|segment| (segment, true)),
        )
    }

    /// The handles of all segments.
    pub(super) fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments().map(|(segment, _)| segment.handle)
    }
}

/// A reply that waits for its call's invalidation.
pub(super) struct HeldReply {
    /// The request.
    pub(super) pinned: Pinned<Request>,
    /// The rest of the work on the reply; `None` for a bad reply.
    pub(super) delivery: Option<Delivery>,
    /// The buffer that holds the reply.
    pub(super) buf: RecvBuffer,
}

/// The rest of the work on a good reply before its call can be completed.
#[derive(Clone, Copy)]
pub(super) enum Delivery {
    /// Nothing: all of it has come by RDMA.
    Nothing {
        /// Bytes of the reply.
        len: u32,
    },
    /// The inline part is copied to the place where the upper layer will decode it.
    Inline {
        /// Bytes of it, the last ones of the message.
        payload: usize,
        /// Bytes of page data that have come by RDMA, if any.
        placed: Option<u32>,
    },
}

/// The server has invalidated `handle`: takes it out of the `exposed` registrations and returns it,
/// if it was there.
#[inline(always)]
pub(super) fn remotely_invalidated(
    exposed: &mut Option<MrList<Registered>>,
    handle: InvalidatedHandle<'_>,
) -> Option<MrList<Invalidated>> {
    let (taken, left) = match exposed.take()?.remotely_invalidated(handle) {
        Ok((taken, left)) => (Some(taken), left),
        Err(mrs) => (None, Some(mrs)),
    };
    *exposed = left;
    taken
}

/// The data of a call, under the request's lock.
pub(super) struct CallData {
    /// Its progress.
    pub(super) call: RequestState<MrList<Registered>, HeldReply>,
    /// The xid of the call that was sent last.
    pub(super) xid: u32,
    /// The connections over which errors about that call came that could not be decoded: their
    /// number, and the last one's.
    pub(super) undecodable: u32,
    pub(super) undecodable_on: u64,
    /// The attempts to map the memory of a call that have failed.
    pub(super) unmapped: Unmapped,
    /// Set when that call has chunks.
    pub(super) chunked: bool,
    /// Its chunks if so; `None` while they are filled in, and before the first call with chunks.
    pub(super) lists: Option<KBox<Lists>>,
}

impl CallData {
    /// The chunks of the call, if it has any.
    pub(super) fn chunks(&self) -> Option<&Lists> {
        self.lists.as_deref().filter(|_| self.chunked)
    }

    /// The transfer modes of the call and its reply.
    pub(super) fn modes(&self) -> (CallMode, ReplyMode) {
        let Some(lists) = self.chunks() else {
            return (CallMode::Inline, ReplyMode::Inline);
        };
        let call = match lists.read.as_slice().first() {
            None => CallMode::Inline,
            // The whole call.
            Some(ReadSegment { position: 0, .. }) => CallMode::Long,
            Some(_) => CallMode::ReadChunk,
        };
        let reply = if !lists.write.as_slice().is_empty() {
            ReplyMode::WriteChunk
        } else if !lists.reply.as_slice().is_empty() {
            ReplyMode::ReplyChunk
        } else {
            ReplyMode::Inline
        };
        (call, reply)
    }

    /// All segments of its chunks, and whether the server may write there.
    pub(super) fn segments(&self) -> impl Iterator<Item = (&Segment, bool)> {
        self.chunks().into_iter().flat_map(Lists::segments)
    }

    /// The chunks that the call offers for its reply.
    #[inline]
    pub(super) fn offered(&self) -> Offered<'_> {
        self.chunks().map_or(Offered::default(), |lists| Offered {
            write: lists.write.as_slice(),
            reply: lists.reply.as_slice(),
        })
    }
}

/// The transport's data of each request.
#[pin_data]
pub(crate) struct Request {
    /// The number of its request, for the completion of an invalidation to find it.
    pub(super) index: u32,
    #[pin]
    pub(super) state: SpinLock<CallData>,
    /// Registrations that the last call has left for the next. While any are here, the server can
    /// reach no memory of the request: a call takes them before it is sent, and its reply returns
    /// them once the server has lost access. They are freed with the connection.
    kept: Kept,
    /// Signalled when the invalidation of an abandoned call is over.
    #[pin]
    pub(super) released: Completion,
}

impl SlotData for Request {
    /// A call that is not sent.
    fn new(index: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            state <- new_spinlock!(
                CallData {
                    call: RequestState::new(),
                    xid: 0,
                    undecodable: 0,
                    undecodable_on: 0,
                    unmapped: Unmapped::new(),
                    chunked: false,
                    lists: None,
                },
                "rpcrdma_rs::Request"
            ),
            kept: Kept::new(),
            released <- Completion::new(),
        })
    }

    fn is_reachable(&self) -> bool {
        !self.state.lock().call.is_sendable()
    }
}

impl Request {
    /// Takes the registrations that the last call has left.
    #[inline(always)]
    pub(super) fn take_kept(&self) -> Option<MrList<Invalidated>> {
        self.kept.take()
    }

    /// The number of kept registrations.
    pub(super) fn kept_count(&self) -> u32 {
        self.kept.count()
    }

    /// Leaves `mrs` to the next call. The server can no longer reach memory of this one.
    #[inline(always)]
    pub(super) fn keep(&self, mrs: MrList<Invalidated>) {
        self.warn_if_reachable();
        self.kept.put(mrs);
    }

    /// Takes from the call all that depends on the connection with this number, none of whose
    /// completions is still to come.
    pub(super) fn tear_down(&self, generation: u64) {
        let mut state = self.state.lock();
        let severed = state.call.torn_down(generation);

        // The pool takes the registrations, and unmaps them all at the end.
        drop(state);
        drop((severed, self.kept.take()));
    }
}
