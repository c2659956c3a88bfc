// SPDX-License-Identifier: GPL-2.0

//! Safe ib_verbs, as far as a reliable connection with fast registration needs it. Knows nothing of
//! RPC.
//!
//! | Type | C | Owns |
//! |---|---|---|
//! | [`Device`] | `struct ib_device` | a reference that keeps the device registered |
//! | [`Pd`] | `struct ib_pd` | the protection domain of one connection |
//! | [`Cq`] | `struct ib_cq` | the completion queue, a reference to its handler, the [`RecvQueue`] |
//! | [`Qp`] | `struct ib_qp` | what neither half has: Receives that are posted, invalidations |
//! | [`SendQueue`] | | the Send buffers, posted or not |
//! | [`RecvQueue`] | | the Receives that came back |
//! | [`MrPool`], [`MrBatch`], [`MrList`] | `struct ib_mr` | fast registrations, DMA mappings |
//!
//! The rule that the types carry: what was posted belongs to the queue it was posted to. A buffer
//! comes back when its completion says so, or after the drain; nothing else reaches it in between.
//! A registration goes `Free -> Mapped -> Registered -> Invalidated -> Free`; a registered one that
//! is dropped anywhere waits for the drain and is destroyed after it.
//!
//! A queue pair has two halves with an owner each: the sender has the [`SendQueue`], the handler of
//! completions the [`RecvQueue`]. Neither takes a lock; what they have to know of each other are
//! numbers with one writer each. The rest, which is needed seldom, is the [`Qp`]'s: its owner keeps
//! it under a lock, the gate that closes when the connection ends.

mod buffer;
mod completion;
mod counters;
mod cq;
mod device;
mod mr;
mod owner;
mod pd;
mod qp;
mod recv_queue;
mod ring;
mod send_queue;
mod size;

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
pub(crate) use device::Device;
pub(crate) use mr::{
    Access,
    HeadTail,
    Invalidated,
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
pub(crate) use qp::{
    Closing,
    Qp,
    Usage, //
};
pub(crate) use recv_queue::RecvQueue;
pub(crate) use send_queue::{
    Expects,
    SendQueue, //
};
pub(crate) use size::{
    DeviceLimits,
    QpSize, //
};
