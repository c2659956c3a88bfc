// SPDX-License-Identifier: GPL-2.0

//! RDMA Writes to a peer's memory, and RDMA Reads of it.
//!
//! A [`Transfer`] is a chain of work requests with the pages that they use. [`Transfers::write`]
//! and [`Transfers::read`] make one from an owned set of pages and segments of the peer's memory.
//! [`Transfer::admit`] takes its room in the send queue, for which no thread waits: a transfer that
//! finds none is kept, and posted by the handler of a completion. Posting consumes it, alone
//! ([`Transfers::post`]) or in front of a message ([`super::SendQueue::post_with`]); the completion
//! of the last request returns the pages ([`TransferHandler`]), or the drain frees them.
//!
//! | State | Type | Dropping it |
//! |---|---|---|
//! | owned | [`PageSet`](crate::os::PageSet) | frees the pages |
//! | mapped, described | [`Transfer`] | unmaps and frees them |
//! | with room | [`Admitted`] | returns the room, too |
//! | posted | none: the device has it | |
//!
//! RDMA Writes take their bytes from mapped pages by the key of the domain; so do RDMA Reads, but
//! on iWARP, where the peer's device addresses the sink by a registration that the last RDMA Read
//! invalidates.
//!
//! Requests and their elements are in blocks of 1, 4 and 16 requests, which are allocated in
//! advance and used again.
//!
//! # Examples
//!
//! Writing to two segments of the peer's memory, with a message behind them. The handler
//! gets the pages back with the number 1.
//!
//! ```ignore
//! # use crate::{
//! #     os::{PageSet, Shared},
//! #     verbs::*,
//! # };
//! # use kernel::{prelude::*, sync::Arc};
//! # fn example<O: QpOwner>(
//! #     transfers: &Arc<Transfers>,
//! #     sends: &mut SendQueue<O>,
//! #     pages: PageSet<Shared>,
//! #     segments: [Remote; 2],
//! #     encode: fn(&mut [u8]) -> u32,
//! # ) -> Result {
//! let bytes = Range { at: 0, len: 5000 };
//! let made = transfers.write(pages, [bytes].into_iter(), segments.into_iter());
//! let writes = made.map_err(|failed| failed.error)?;
//! // Without room the transfer is kept, and admitted later.
//! let writes = writes.admit().map_err(|_later| EAGAIN)?;
//!
//! let mut buf = sends.take_any().ok_or(EAGAIN)?;
//! let len = encode(buf.as_mut_slice());
//! sends.post_with(Some((writes, 1)), buf, len, None).map_err(|_| EIO)
//! # }
//! ```

mod block;
mod budget;
mod handler;
mod make;
mod pages;
mod pool;
mod post;
mod split;
mod transfer;

#[cfg(CONFIG_KUNIT = "y")]
mod lives;

pub(crate) use handler::TransferHandler;
pub(crate) use pages::{
    FromPeer,
    ToPeer, //
};
pub(crate) use pool::{
    TransferSize,
    Transfers, //
};
pub(crate) use split::{
    most_requests,
    Range,
    Remote, //
};
pub(crate) use transfer::{
    Admitted,
    Transfer, //
};
