// SPDX-License-Identifier: GPL-2.0

//! The trait that a transport implements.

use core::net::SocketAddr;

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

use super::{
    Call,
    Class,
    ConnectLock,
    Names,
    ReverseReply,
    SlotData,
    WriteLock,
    Xprt, //
};
use crate::{
    os,
    sunrpc::SendStatus, //
};

/// The sizes and times of the transports of a class.
pub(crate) struct Params {
    /// The largest payload, in bytes.
    pub(crate) payload: usize,
    /// Seconds after which an idle connection is closed.
    pub(crate) idle_secs: u32,
    /// Seconds between attempts to connect, at first.
    pub(crate) reconnect_secs: u32,
    /// Seconds that a request for the port may take.
    pub(crate) bind_secs: u32,
    /// Seconds until a call without a reply is looked at, and that an attempt to connect may take,
    /// for callers that name no time.
    pub(crate) reply_secs: u32,
}

/// A client transport. sunrpc calls the methods; the locks it holds then are documented for each.
///
/// The transport object keeps its own handle and its requests even if the transport drops its
/// handle, and calls [`SlotData::is_reachable`] before the task of a call that has not completed
/// continues. Its result is trusted, and so is the transport when it completes a call: it does that
/// when the peer can reach no memory of the call. The host tests explore both.
pub(crate) trait Transport: Sized + Send + Sync + 'static {
    /// The transport's data of each request.
    type Slot: SlotData + Send + Sync + 'static;

    /// The number of its class; upper layers request a transport by it (`XPRT_TRANSPORT_*`).
    const IDENT: u32;

    /// The names of its class.
    const NAMES: Names;

    /// Its sizes and times.
    const PARAMS: Params;

    /// The class its transports belong to.
    fn class() -> &'static Class;

    /// The requests that a transport to `server` may have, in the given network namespace.
    fn max_requests(server: SocketAddr, net: os::Net<'_>) -> u32;

    /// Makes the transport, without connecting it. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the mount fails with it.
    fn new(xprt: Xprt<Self::Slot>, server: SocketAddr) -> Result<Arc<Self>>;

    /// Connects in the background, and consumes the lock when that is over. Must not block.
    fn connect(this: ArcBorrow<'_, Self>, lock: ConnectLock<Self::Slot>);

    /// Takes the connection down, if any. Process context.
    fn close(&self, lock: &mut WriteLock<'_>);

    /// Sends a call. Process context.
    ///
    /// # Errors
    ///
    /// The reason why it was not sent. A call that cannot be sent at all has been ended and counts
    /// as sent.
    fn send(&self, lock: &mut WriteLock<'_>, call: Call<'_, Self::Slot>) -> Result<(), SendStatus>;

    /// Sends a reply to a reverse call. Process context.
    ///
    /// # Errors
    ///
    /// The reason why it was not sent.
    fn send_reverse(
        &self,
        lock: &mut WriteLock<'_>,
        reply: &ReverseReply<'_>,
    ) -> Result<(), SendStatus>;

    /// The task of a call without a reply releases its credit. Called under a spinlock that
    /// sunrpc's functions take. Returns the number of calls that may be outstanding
    /// from now on, if this changes it.
    fn released(&self, slot: &Self::Slot) -> Option<u32>;

    /// The buffers of this request are about to be reused: neither the device nor the peer may
    /// reach them when this returns, or its task never continues ([`SlotData::is_reachable`]).
    /// Process context, without any lock.
    #[doc(alias = "buf_free")]
    fn release_buffers(&self, slot: &Self::Slot);

    /// A call has waited for its reply for too long. It was sent last on the connection with this
    /// number, as sunrpc counts them ([`ConnectLock::next_cookie`]); a call that was not sent yet
    /// has the number of no connection in use. The transport may have delivered a reply already,
    /// which sunrpc has not accepted. Process context, without any lock.
    #[doc(alias = "timer")]
    fn timed_out(&self, cookie: u32);

    /// Makes ready for calls in the reverse direction.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` where the administrator has switched the direction off.
    fn reverse_set_up(&self) -> Result;

    /// Bytes of the largest reverse message. No sleeping, connected or not.
    #[doc(alias = "bc_maxpayload")]
    fn reverse_payload(&self) -> usize;

    /// The number of reverse calls that may be in progress. No sleeping, connected or not.
    fn reverse_slots(&self) -> u32;

    /// Prints the line that mountstats shows.
    fn print_stats(&self, seq: &SeqFile);
}
