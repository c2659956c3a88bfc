// SPDX-License-Identifier: GPL-2.0

//! Fast memory registration.
//!
//! A registration lives in a [`MrPool`]. An [`MrBatch`] takes registrations from there and makes
//! them an [`MrList`], whose type is the state of all of them:
//!
//! - [`Mapped`]: DMA-mapped and described, not posted. Dropping the list undoes the mapping.
//! - [`Registered`]: posted, so that the peer may reach the memory. Only three things end that: the
//!   peer's own invalidation ([`MrList::remotely_invalidated`]), ours ([`MrPool::invalidate`]),
//!   or the drain of the queue pair. A list in this state that is dropped waits in its pool,
//!   still mapped, until the queue pair is drained.
//! - [`Invalidated`]: neither valid nor mapped. The list can be used again ([`MrList::reuse`]).

mod batch;
mod chain;
mod handler;
mod invalidate;
mod kept;
mod list;
mod pool;
mod registration;
mod table;

pub(crate) use batch::MrBatch;
pub(crate) use chain::{
    Invalidated,
    Mapped,
    Registered, //
};
pub(crate) use handler::InvalidationHandler;
pub(crate) use kept::Kept;
pub(crate) use list::MrList;
pub(crate) use pool::MrPool;
pub(crate) use registration::{
    Access,
    HeadTail,
    Region, //
};
