// SPDX-License-Identifier: GPL-2.0

//! Safe ib_verbs, as far as a reliable connection with fast registration needs it. Knows nothing of
//! RPC.
//!
//! | Type | C | Owns |
//! |---|---|---|
//! | [`Device`] | `struct ib_device` | a reference that keeps the device registered |
//! | [`Pd`] | `struct ib_pd` | the protection domain of one connection |
//! | [`Cq`] | `struct ib_cq` | the completion queue and a reference to its handler |
//! | [`Qp`] | `struct ib_qp` | every buffer that is, or may be, in the hands of the device |
//! | [`MrPool`], [`MrList`] | `struct ib_mr` | fast registrations and the DMA mappings under them |
//!
//! The rule that the types carry: what was posted belongs to the queue it was posted to. A [`Qp`]
//! gives a buffer back when its completion says so, or after the drain; nothing else reaches it in
//! between. A registration goes `Free -> Mapped -> Registered -> Invalidated -> Free`; a registered
//! one that is dropped anywhere is set aside and destroyed only after the drain.

mod buffer;
mod cq;
mod device;
mod mr;
mod pd;
mod qp;
mod ring;

pub(crate) use buffer::{
    RecvBuffer,
    SendBuffer, //
};
pub(crate) use cq::{
    CompletionHandler,
    Cq,
    Failure,
    Received,
    WrId, //
};
pub(crate) use device::{
    Device,
    Limits, //
};
pub(crate) use mr::{
    Access,
    Invalidated,
    Mapped,
    MrList,
    MrPool,
    Registered, //
};
pub(crate) use pd::Pd;
pub(crate) use qp::{
    Expects,
    PostError,
    Qp,
    QpOwner,
    QpSize,
    Usage, //
};
