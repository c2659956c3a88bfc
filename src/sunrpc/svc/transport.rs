// SPDX-License-Identifier: GPL-2.0

//! The traits that a transport of servers implements.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

use super::{
    xprt::Ends,
    Arguments,
    Class,
    Incoming,
    Outgoing,
    SvcXprt, //
};
use crate::{
    os::Net,
    sunrpc::address::Address, //
};

/// A listener of a server.
pub(crate) trait Listener: Sized + Send + Sync + 'static {
    /// A request for a connection that the server has not accepted yet.
    type Request;

    /// The connections that it accepts.
    type Connection: Connection;

    /// The name of its class, which users write to `/proc/fs/nfsd/portlist`.
    const NAME: &'static CStr;

    /// The number of its class; the upper layer requests the reverse direction by it.
    const IDENT: i32;

    /// The largest payload, in bytes.
    const MAX_PAYLOAD: u32;

    /// The class of its transports.
    fn class() -> &'static Class;

    /// Listens at `at` in the network namespace `net`. Returns the address that it has got, too.
    /// Process context.
    ///
    /// # Errors
    ///
    /// The error that the administrator gets.
    fn listen(xprt: SvcXprt, net: Net<'_>, at: &Address) -> Result<(Arc<Self>, Address)>;

    /// Takes the next request, from an [`super::Inbox`] of [`super::Waiting::Requests`], with the
    /// addresses of its connection. One thread at a time.
    fn next(&self) -> Option<(Self::Request, Ends)>;

    /// Rejects a request because of `error`.
    fn reject(&self, request: Self::Request, error: Error);

    /// Accepts a request. `xprt` is the object of the new connection, for which the core calls
    /// nothing yet. One thread at a time.
    ///
    /// # Errors
    ///
    /// Any; the request is rejected, and nothing refers to the object.
    fn accept(&self, request: Self::Request, xprt: SvcXprt) -> Result<Arc<Self::Connection>>;

    /// Stops listening and rejects the requests that wait. Process context; threads may be absent.
    fn detach(&self);
}

/// A connection of a server. Methods may be called by several threads at a time, unless their
/// documentation says otherwise.
pub(crate) trait Connection: Sized + Send + Sync + 'static {
    /// A call that no thread has yet.
    type Item;

    /// The transport's data of a call that a thread has, until its release.
    type Call: Send + 'static;

    /// Takes the next call, from an [`super::Inbox`] of [`super::Waiting::Calls`]. One thread at a
    /// time.
    fn next(&self) -> Option<Self::Item>;

    /// Gives the arguments of a call to a thread. `None` drops the call. May sleep.
    fn receive<'r>(
        this: ArcBorrow<'_, Self>,
        item: Self::Item,
        rqst: Incoming<'r>,
    ) -> Option<(Arguments<'r>, KBox<Self::Call>)>;

    /// Notes that `len` bytes from `at` on of the reply, which is being encoded, are a result that
    /// may be placed directly.
    fn result(&self, call: &mut Self::Call, at: u32, len: u32);

    /// Sends a reply. May sleep, but not until another reply is sent.
    ///
    /// # Errors
    ///
    /// Any; the core traces it.
    fn send(&self, call: &mut Self::Call, reply: Outgoing<'_>) -> Result;

    /// The core is done with a call, whether it has sent a reply or not. Process context, not only
    /// of threads.
    fn release(&self, call: KBox<Self::Call>);

    /// Returns `true` if a thread may take a call. The transport calls [`SvcXprt::enqueue`] when
    /// that becomes true. No sleeping.
    fn has_space(&self) -> bool;

    /// Begins to close the connection: no thread takes a call after this, but replies may still be
    /// sent. Process context; threads may be absent.
    fn detach(&self);

    /// Ends the connection: afterwards it calls nothing of the core. Nothing else calls its methods
    /// now or later. Process context, and never in a completion.
    fn free(this: &Arc<Self>);
}
