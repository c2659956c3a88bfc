// SPDX-License-Identifier: GPL-2.0

//! The transport's data of a request: its chunks, and its state between Send and completion.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

pub(super) mod chunks;
pub(super) mod state;
mod unmapped;

use crate::{
    os::Completion,
    proto::{
        Chunks,
        Offered, //
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

use chunks::{
    CallChunks,
    Lists, //
};
use state::RequestState;
use unmapped::Unmapped;

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
    /// The [sequence number](crate::sunrpc::Call::gss_sequence) of that call when it was sent.
    pub(super) gss_sequence: u32,
    /// The connections over which errors about that call came that could not be decoded: their
    /// number, and the last one's.
    pub(super) undecodable: u32,
    pub(super) undecodable_on: u64,
    /// The attempts to map the memory of a call that have failed.
    pub(super) unmapped: Unmapped,
    /// The chunks of that call.
    pub(super) chunks: CallChunks,
    /// Room for [`CallChunks::Lists`]; `None` while they are filled in, and before the first call
    /// that needs it.
    pub(super) lists: Option<KBox<Lists>>,
}

impl CallData {
    /// The chunks of the call.
    #[inline(always)]
    pub(super) fn chunks(&self) -> Chunks<'_> {
        self.chunks.get(self.lists.as_deref())
    }

    /// The chunks that the call offers for its reply.
    #[inline(always)]
    pub(super) fn offered(&self) -> Offered<'_> {
        let Chunks { write, reply, .. } = self.chunks();
        Offered { write, reply }
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
                    gss_sequence: 0,
                    undecodable: 0,
                    undecodable_on: 0,
                    unmapped: Unmapped::new(),
                    chunks: CallChunks::None,
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
        let taken = state.call.torn_down(generation);

        // The pool takes the registrations, and unmaps them all at the end.
        drop(state);
        drop((taken, self.kept.take()));
    }
}
