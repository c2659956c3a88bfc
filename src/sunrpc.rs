// SPDX-License-Identifier: GPL-2.0

//! Safe sunrpc: a transport class from a Rust trait. Names, sizes and times are the transport's.
//!
//! | Type | C | Is |
//! |---|---|---|
//! | [`Transport`] | `struct rpc_xprt_ops` | the trait that a transport implements |
//! | [`Class`], [`Registration`] | `struct xprt_class` | the class, found by its netids, and its registration |
//! | [`Xprt`] | `struct rpc_xprt` | a handle that keeps the object's memory, also after sunrpc is done with it |
//! | [`Slots`], [`Call`] | `struct rpc_rqst` | the requests of a transport, and one that is to be sent |
//! | [`Pinned`] | a pinned `rpc_rqst` | a call whose reply has come; completing it consumes the value |
//! | [`WriteLock`], [`WriteLocked`] | `XPRT_LOCKED` | proof of holding the write lock, and what only its holder gets at |
//! | [`ConnectLock`] | the write lock, held by a cookie | the right to connect; every way to lose it unlocks |
//! | [`Backchannel`] | preallocated `rpc_rqst`s | calls in the other direction |
//!
//! Results that go back to sunrpc are [`SendStatus`] and [`ConnectStatus`]: sunrpc gives each errno
//! a meaning of its own, and one that is not in those lists ends RPCs even on a hard mount.

mod address;
mod memory;
mod spin;
mod status;
mod xdr_buf;
mod xprt;

pub(crate) use spin::{
    Outside,
    Section, //
};
pub(crate) use status::{
    ConnectStatus,
    SendStatus, //
};
pub(crate) use xdr_buf::XdrBuf;
pub(crate) use xprt::{
    Call,
    Class,
    ConnectLock,
    DeliverError,
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
