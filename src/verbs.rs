// SPDX-License-Identifier: GPL-2.0

//! Safe ib_verbs, as far as a reliable connection with fast registration needs it. Knows nothing of
//! RPC.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! | Type | C | Owns |
//! |---|---|---|
//! | [`Device`] | `struct ib_device` | a reference that keeps the device registered |
//! | [`Pd`] | `struct ib_pd` | the protection domain of one connection |
//! | [`Cq`] | `struct ib_cq` | the completion queue, its handler, the [`RecvQueue`] |
//! | [`Qp`] | `struct ib_qp` | the part of neither half: posted Receives, the spare message |
//! | [`SendQueue`] | | the Send buffers, posted or not |
//! | [`RecvQueue`], [`SharedRecvQueue`] | | the Receives that came back |
//! | [`Transfers`], [`Transfer`] | `struct ib_rdma_wr` | RDMA Reads and Writes with their pages |
//! | [`MrPool`], [`MrBatch`], [`MrList`] | `struct ib_mr` | fast registrations, DMA mappings |
//!
//! The rule that the types carry: posted memory belongs to the queue it was posted to. A buffer
//! comes back with its completion, or after the drain; nothing else reaches it in between.
//! A registration is free, then [`Mapped`], [`Registered`], [`Invalidated`], and free again; a
//! registered one that is dropped anywhere waits for the drain and is destroyed after it.
//!
//! A queue pair has two halves with an owner each: the sender has the [`SendQueue`], the handler of
//! completions the [`RecvQueue`]. Neither takes a lock; they share numbers with one writer each.
//! Where other threads than the handler read messages, a [`SharedRecvQueue`] takes its place.
//! The rest, which is needed seldom, is the [`Qp`]'s: its owner keeps it under a lock, the gate
//! that closes when the connection ends.
//!
//! # Examples
//!
//! Posting a Send, and seeing its completion. `id` is an identifier of `cm` whose route is resolved
//! (`cm::Resolved`); with a single buffer every Send is signalled.
//!
//! ```ignore
//! # use crate::{
//! #     cm::{ConnectParams, Event, EventHandler, Resolved},
//! #     os::{secs_to_jiffies, Completion},
//! #     verbs::*,
//! # };
//! # use kernel::{prelude::*, sync::Arc};
//! # struct Connection {
//! #     sent: Pin<KBox<Completion>>,
//! # }
//! # impl EventHandler for Connection {
//! #     fn event(&self, _: Event<'_>) {}
//! # }
//! impl CompletionHandler for Connection {
//!     type Queue = RecvQueue;
//!
//!     fn sent(&self, result: Result<(), Failure>) {
//!         if let Err(failure) = result {
//!             pr_info!("a Send failed: {}\n", failure.as_str());
//!         }
//!         self.sent.signal();
//!     }
//!     // And received().
//! #     fn received(
//! #         &self,
//! #         _: &mut RecvQueue,
//! #         _: RecvBuffer,
//! #         _: Result<Received<'_>, Failure>,
//! #     ) {
//! #     }
//! }
//!
//! # fn example(
//! #     connection: Arc<Connection>,
//! #     id: Resolved<Connection>,
//! #     size: QpSize,
//! #     params: ConnectParams<'_>,
//! #     encode: fn(&mut [u8]) -> u32,
//! # ) -> Result {
//! let pd = Pd::new(id.device().clone(), None)?;
//! let cq = Cq::new(id.device().clone(), connection.clone(), &size)?;
//! let (bound, mut qp, mut sends) = id.bind(cq, pd, &size).map_err(|_| EIO)?;
//! qp.post_first_receives().map_err(|_| EIO)?;
//! let _connecting = bound.connect(&params)?; // And wait for the event.
//!
//! let mut buf = sends.take_any().ok_or(EAGAIN)?;
//! let len = encode(buf.as_mut_slice());
//! sends.post(None, buf, len).map_err(|_| EIO)?;
//! connection.sent.wait(secs_to_jiffies(1));
//!
//! let Ok(closing) = qp.close(sends) else {
//!     return Err(EINVAL);
//! };
//! let drained = closing.drain().ok_or(EIO)?;
//! qp.finish(&drained);
//! # Ok(())
//! # }
//! ```

mod account;
mod buffer;
mod completion;
mod counters;
mod cq;
mod device;
#[cfg(CONFIG_KUNIT = "y")]
mod fake;
mod mr;
mod owner;
mod pd;
mod posted;
mod poster;
mod qp;
mod recv_queue;
mod ring;
mod rw;
mod send_queue;
mod size;
mod stack;

pub(crate) use account::Account;
pub(crate) use buffer::{
    RecvBuffer,
    SendBuffer, //
};
pub(crate) use completion::{
    Failure,
    InvalidatedHandle,
    Received, //
};
pub(crate) use cq::{
    CompletionHandler,
    Cq, //
};
pub(crate) use device::{
    Device,
    NameText, //
};
pub(crate) use mr::{
    Access,
    HeadTail,
    Invalidated,
    InvalidationHandler,
    Kept,
    Mapped,
    MrBatch,
    MrList,
    MrPool,
    Region,
    Registered, //
};
pub(crate) use owner::{
    PostError,
    QpOwner, //
};
pub(crate) use pd::Pd;
pub(crate) use poster::Poster;
pub(crate) use qp::{
    Closing,
    Lengths,
    Qp,
    Usage, //
};
pub(crate) use recv_queue::{
    RecvQueue,
    SharedRecvQueue, //
};
pub(crate) use rw::{
    most_requests,
    Admitted,
    FromPeer,
    Range,
    Remote,
    ToPeer,
    Transfer,
    TransferHandler,
    TransferSize,
    Transfers, //
};
pub(crate) use send_queue::SendQueue;
pub(crate) use size::{
    DeviceLimits,
    MrSize,
    QpSize, //
};
