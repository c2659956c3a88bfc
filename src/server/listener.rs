// SPDX-License-Identifier: GPL-2.0

//! A listener as sunrpc sees it.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

use super::{
    accept,
    admission::{
        self,
        Admission,
        Refusal, //
    },
    connection::Connection,
    refused::RefusedCalls, //
};
use crate::{
    cm::{
        self,
        Incoming,
        Listening,
        RequestHandler, //
    },
    os::Net,
    sunrpc::{
        self,
        svc::{
            Address,
            Class,
            Ends,
            Inbox,
            SvcXprt,
            Waiting, //
        }, //
    }, //
};

/// The class that `rdma` in `/proc/fs/nfsd/portlist` finds.
pub(super) static CLASS: Class = Class::new::<Listener>();

/// The class of the objects that the upper layer calls clients over.
pub(super) static CALLBACKS: sunrpc::Class = sunrpc::Class::of_callbacks::<Listener>();

/// The most requests that wait for a thread. Each takes an identifier and memory here, on behalf of
/// a peer that is not authenticated (H-139).
const MOST_WAITING: u32 = 64;

/// A listener of a server.
#[pin_data]
pub(crate) struct Listener {
    /// The identifier, until the core closes the listener. It refers to the listener.
    #[pin]
    listening: SpinLock<Option<Listening<Self>>>,
    /// The requests that no thread has accepted yet.
    #[pin]
    requests: Inbox<Incoming<Connection>>,
    /// Calls that have ended connections of this listener.
    refused: Arc<RefusedCalls>,
    /// The number of its network namespace.
    netns: u32,
    // Last: dropping it may drop the last reference to the module.
    xprt: SvcXprt,
}

impl RequestHandler for Listener {
    type Peer = Connection;

    fn requested(&self, request: &cm::Request<'_>) -> Option<Arc<Connection>> {
        let admission = Admission::new(request, self.netns)?;
        let client = admission.client;

        Connection::new(admission, self.refused.clone())
            .inspect_err(|&error| admission::no_connection(&client, error))
            .ok()
    }

    fn take(&self, incoming: Incoming<Connection>) -> Result<(), Incoming<Connection>> {
        self.requests
            .push(&self.xprt, incoming)
            .inspect_err(|incoming| incoming.handler().admission().refused(Refusal::Waiting))
    }

    fn lost(&self) {
        pr_warn!("a listener ends: its device goes away, or its address moves\n");
        self.xprt.close();
    }
}

impl crate::sunrpc::svc::Listener for Listener {
    type Request = Incoming<Connection>;
    type Connection = Connection;

    const NAME: &'static CStr = c"rdma";

    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;

    /// `RPCSVC_MAXPAYLOAD`.
    const MAX_PAYLOAD: u32 = 4 << 20;

    fn class() -> &'static Class {
        &CLASS
    }

    fn listen(xprt: SvcXprt, net: Net<'_>, at: &Address) -> Result<(Arc<Self>, Address)> {
        let refused = RefusedCalls::new()?;
        let this = Arc::pin_init(
            pin_init!(Self {
                listening <- new_spinlock!(None, "rpcrdma_rs::Listener"),
                requests <- Inbox::new(Waiting::Requests),
                refused,
                netns: net.number(),
                xprt,
            }),
            GFP_KERNEL,
        )?;
        // CAST: Widening.
        this.requests.make(MOST_WAITING as usize)?;
        // Requests may come from here on. A thread looks at them once the core has the object.
        let listening = Listening::new(net, at, MOST_WAITING, this.clone()).inspect_err(|_| {
            this.close_requests();
        })?;
        let address = listening.address();
        *this.listening.lock() = Some(listening);
        Ok((this, address))
    }

    fn next(&self) -> Option<(Incoming<Connection>, Ends)> {
        let request = self.requests.pop(&self.xprt)?;
        let (local, remote) = request.addresses();

        Some((request, Ends { local, remote }))
    }

    fn reject(&self, request: Incoming<Connection>, error: Error) {
        request.handler().admission().refused(error.into());
    }

    fn accept(&self, request: Incoming<Connection>, xprt: SvcXprt) -> Result<Arc<Connection>> {
        let connection = request.handler().clone();

        accept::accept(&connection, request, xprt)?;
        Ok(connection)
    }

    fn detach(&self) {
        // The listener first: rdma_cm still uses it for a request that is being destroyed (H-107).
        let listening = self.listening.lock().take();
        drop(listening);
        self.close_requests();
    }
}

impl Listener {
    /// Rejects all requests that wait (H-101).
    fn close_requests(&self) {
        drop(self.requests.close());
    }
}
