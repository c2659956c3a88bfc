// SPDX-License-Identifier: GPL-2.0

//! Safe sunrpc: a transport class from a Rust trait. Names, sizes and times are the transport's.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! | Type | C | Is |
//! |---|---|---|
//! | [`Transport`] | `struct rpc_xprt_ops` | the trait that a transport implements |
//! | [`Class`], [`Registration`] | `struct xprt_class` | the class, found by its netids, and its registration |
//! | [`Xprt`] | `struct rpc_xprt` | a handle that keeps the object's memory, also after sunrpc is done with it |
//! | [`Slots`], [`Call`] | `struct rpc_rqst` | the requests of a transport, and one that is to be sent |
//! | [`Pinned`] | a pinned `rpc_rqst` | a call whose reply has come; completing it consumes the value |
//! | [`WriteLock`], [`WriteLocked`] | `XPRT_LOCKED` | proof of holding the write lock, and a value that only its holder reaches |
//! | [`ConnectLock`] | the write lock, held by a cookie | the right to connect; every way to lose it unlocks |
//! | [`Xprt::backchannel`], [`ReverseReply`] | preallocated `rpc_rqst`s | calls in the reverse direction, and a reply to one |
//!
//! [`svc`] has the transports of servers.
//!
//! Results for sunrpc are [`SendStatus`] and [`ConnectStatus`]: sunrpc gives each errno a meaning
//! of its own, and an errno outside these lists ends RPCs even on a hard mount.
//!
//! # Examples
//!
//! Sending and receiving of a transport over pipes. Its class is a
//! `static CLASS: Class = Class::new::<PipeTransport>()`, which sunrpc finds as long as
//! `Registration::new(&CLASS)` lives.
//!
//! ```ignore
//! # use crate::sunrpc::*;
//! # use kernel::prelude::*;
//! # struct Pipe;
//! # impl Pipe {
//! #     fn write(&mut self, _: u32, _: XdrBuf<'_>) {}
//! # }
//! struct PipeTransport {
//!     pipe: WriteLocked<Pipe>,
//! }
//!
//! impl PipeTransport {
//!     // As `Transport::send`.
//!     fn send<S>(&self, lock: &mut WriteLock<'_>, call: Call<'_, S>) -> Result<(), SendStatus> {
//!         let pipe = self.pipe.get(lock).ok_or(SendStatus::NotConnected)?;
//!         let (xid, message) = (call.xid(), call.send_buf());
//!         let call = call.stamp();
//!         pipe.write(xid, message);
//!         call.count_sent();
//!         Ok(())
//!     }
//! }
//!
//! // A reply has come for the call `xid`.
//! fn deliver<S: SlotData>(xprt: &Xprt<S>, xid: u32, reply: &[u8]) {
//!     if let Some(mut call) = xprt.find(xid) {
//!         match call.fill(reply, None) {
//!             Ok((len, _)) => call.complete(len),
//!             Err(_) => call.fail(),
//!         }
//!     }
//! }
//! ```

mod address;
mod memory;
mod module;
mod spin;
mod status;
pub(crate) mod svc;
mod xdr_buf;
mod xprt;

pub(crate) use address::Peer;
pub(crate) use status::{
    CallbackStatus,
    ConnectStatus,
    SendStatus, //
};
pub(crate) use xdr_buf::XdrBuf;
pub(crate) use xprt::{
    Call,
    Callback,
    Callbacks,
    CallsBack,
    Class,
    ConnectLock,
    DeliverError,
    Found,
    Load,
    Names,
    Params,
    Pinned,
    PostedCall,
    Registration,
    ReverseReply,
    SlotData,
    Slots,
    Transport,
    WriteLock,
    WriteLocked,
    Xprt, //
};
