// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA, versions 1 and 2, for Linux: the transport under `mount -t nfs -o proto=rdma`,
//! and under the NFS server.
//!
//! Read `proto` for the bytes on the wire, `policy` and `config` for the settings of the
//! administrator, and `client` and `server` for the transport at either end, with `view` for the
//! files that show both. `verbs`, `cm`, `sunrpc` and `os` are safe layers over interfaces of the
//! kernel, and `trace` has the trace events. These five and `bindings`, which is generated, are the
//! only rooms that contain `unsafe`.
//!
//! A room uses only rooms below it (`Documentation/architecture.rst`): no layer uses `client` or
//! `server`, neither of which uses the other, and `proto` uses no room at all. Of the layers
//! `sunrpc` alone uses `proto`, for the words of an RPC message.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::Arc, //
};

mod bindings;
mod client;
mod cm;
mod config;
mod link;
mod os;
mod policy;
mod proto;
mod server;
mod sunrpc;
mod trace;
mod verbs;
mod view;

/// The examples of the documentation, which `make lint` compiles.
#[cfg(RPCRDMA_EXAMPLES)]
#[allow(unused)]
mod examples {
    include!(concat!(env!("RPCRDMA_RS_OUT"), "/examples.rs"));
}

/// `true` if threads of sunrpc's servers have their pages where `sunrpc::svc` expects them; Kbuild
/// looks for that.
const HAS_SERVER: bool = cfg!(RPCRDMA_SERVER);

/// Registers the server's classes, where that is possible. Without them the module is a client.
fn server_side() -> Option<server::Registrations> {
    if !HAS_SERVER {
        pr_info!("a client only: the server side needs Linux 7.2\n");
        return None;
    }
    server::Registrations::new()
        .inspect_err(|_| {
            pr_warn!("another module serves NFS over RDMA: this one is a client only\n");
        })
        .ok()
}

/// The table of all connections, of both ends.
struct Table;

impl os::debugfs::Show for Table {
    fn show(&self, seq: &SeqFile) {
        view::head(seq);
        client::lines(seq);
        server::lines(seq);
    }
}

/// The registrations of the loaded module; dropping it unregisters all.
#[pin_data]
struct RpcRdma {
    #[pin]
    _rules: config::Directory,
    _sysctl: os::sysctl::Sysctl,
    _client: sunrpc::Registration,
    _server: Option<server::Registrations>,
    connections: Arc<Table>,
    _table: os::debugfs::File<Table>,
    _debugfs: os::debugfs::Dir,
    // Last: nothing of the module may begin to run after it.
    _stragglers: os::Stragglers,
}

impl kernel::InPlaceModule for RpcRdma {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        client::init();
        server::init();
        try_pin_init!(Self {
            _rules <- config::directory(),
            _debugfs: os::debugfs::Dir::new(view::DEBUGFS),
            // Before the registration: a module that is in use by then must not fail to load.
            connections: Arc::new(Table, GFP_KERNEL)?,
            _client: sunrpc::Registration::new(&client::CLASS).inspect_err(|&e| {
                if e == EEXIST {
                    pr_err!(
                        "the name \"rdma\" is taken: \
                         unload the in-tree module first (rmmod rpcrdma)\n"
                    );
                }
            })?,
            // From here on nothing fails: until now there could be no rule, which would have kept
            // the module, and no open file.
            _server: server_side(),
            _: {
                policy::table::init();
            },
            _table: os::debugfs::File::new(
                view::DEBUGFS,
                fmt!("connections"),
                connections.clone(),
            ),
            // Not before the in-tree module, which uses the same names, is known to be absent.
            _sysctl: os::sysctl::Sysctl::new(c"sunrpc", &policy::NUMBERS),
            _stragglers: os::Stragglers::new(),
        })
    }
}

module! {
    type: RpcRdma,
    name: "rpcrdma_rs",
    authors: ["The rpcrdma-rs developers"],
    description: "RPC-over-RDMA transport",
    license: "GPL",
    alias: ["rpcrdma", "rpcrdma6", "xprtrdma", "svcrdma"],
}
