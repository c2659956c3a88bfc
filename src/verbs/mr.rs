// SPDX-License-Identifier: GPL-2.0

//! Fast memory registration.
//!
//! A registration lives in a [`MrPool`] and leaves it as part of an [`MrList`], whose type says
//! what state all of its registrations are in:
//!
//! - [`Mapped`]: DMA-mapped and described, not posted. Dropping the list undoes the mapping.
//! - [`Registered`]: posted, so that the peer may reach the memory. Only three things end that: the
//!   peer's own invalidation ([`MrList::remotely_invalidated`]), ours ([`super::Qp::invalidate`]),
//!   or the drain of the queue pair. A list in this state that is dropped waits in its pool,
//!   still mapped, until the pool goes, which is after the drain.

mod invalidate;
mod kept;
mod list;
mod pool;
mod registration;
mod table;

pub(super) use invalidate::{
    invalidation_completed,
    InvalidateChain, //
};
pub(crate) use kept::{
    Kept,
    Supply, //
};
pub(crate) use list::{
    Invalidated,
    Mapped,
    MrList,
    Registered, //
};
pub(crate) use pool::MrPool;
pub(crate) use registration::Access;
