// SPDX-License-Identifier: GPL-2.0

//! Safe rdma_cm: finds a peer by its IP address and connects to it, or listens for peers. Knows
//! nothing of RPC.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! An identifier has a type for each step, which consumes the previous one, so that no step can be
//! taken twice, or before its turn:
//!
//! | Type | has | next step |
//! |---|---|---|
//! | [`Id`] | an event handler | [`resolve_address`](Id::resolve_address) |
//! | [`ResolvingAddress`](resolve::ResolvingAddress) | | `resolve_route` |
//! | [`ResolvingRoute`](resolve::ResolvingRoute) | | `resolved` |
//! | [`Resolved`] | a device | [`bind`](Resolved::bind) |
//! | [`Bound`] | a queue pair | [`connect`](Bound::connect) |
//! | [`Connecting`](endpoint::Connecting) | | `connected` |
//! | [`Connected`](endpoint::Connected) | a peer | |
//!
//! A passive side begins with [`Listening`], whose [`RequestHandler`] gets the requests of peers:
//!
//! | Type | has | next step |
//! |---|---|---|
//! | [`Incoming`] | an event handler of its own | [`ready`](Incoming::ready) |
//! | [`Acceptable`] | a device | [`bind`](Acceptable::bind) |
//! | [`Accepting`] | a queue pair | [`accept`](Accepting::accept) |
//!
//! Between `resolve_address`, `resolve_route` or `connect` and the next step the caller waits for
//! an [`Event`]. The types do not check that: to resolve a route or to connect too early fails with
//! `EINVAL`.
//!
//! An [`EventHandler`] gets the events; it notes them and wakes a waiter: handlers never destroy
//! anything. Up to [`Resolved`], dropping an identifier destroys it, and waits for a handler that
//! runs. From `bind` on the queue pair keeps it, as an [`Endpoint`], whose last owner destroys it.
//!
//! # Example
//!
//! ```ignore
//! # use crate::{bindings, cm::*, os::Net, verbs::*};
//! # use kernel::{prelude::*, sync::Arc};
//! # fn example<H: EventHandler + CompletionHandler>(
//! #     net: Net<'_>,
//! #     handler: Arc<H>,
//! #     wait: fn(&H) -> Result,
//! #     peer: bindings::__kernel_sockaddr_storage,
//! #     size: QpSize,
//! #     params: ConnectParams<'_>,
//! # ) -> Result {
//! let id = Id::new(net, handler.clone())?.resolve_address(&peer, 5000)?;
//! wait(&handler)?; // Event::AddressResolved
//! let id = id.resolve_route(5000)?;
//! wait(&handler)?; // Event::RouteResolved
//! let id = id.resolved()?;
//!
//! let pd = Pd::new(id.device().clone(), None)?;
//! let cq = Cq::new(id.device().clone(), handler.clone(), &size)?;
//! let (bound, mut qp, mut sends) = id.bind(cq, pd, &size).map_err(|_| EIO)?;
//! qp.post_first_receives().map_err(|_| EIO)?;
//!
//! let id = bound.connect(&params)?;
//! wait(&handler)?; // Event::Established
//! let (port, gid) = id.connected().local();
//! # Ok(())
//! # }
//! ```

mod endpoint;
mod id;
mod incoming;
mod listener;
mod reject;
mod resolve;

pub(crate) use endpoint::{
    BindError,
    Bound,
    ConnectParams,
    Endpoint, //
};
pub(crate) use id::{
    Event,
    EventHandler,
    Gid,
    Id, //
};
pub(crate) use incoming::{
    Acceptable,
    Accepting,
    BoundRequest,
    Incoming, //
};
pub(crate) use listener::{
    Listening,
    Request,
    RequestHandler, //
};
pub(crate) use reject::Reject;
pub(crate) use resolve::Resolved;
