// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA, version 1, for Linux: the transport under `mount -t nfs -o proto=rdma`.
//!
//! Read `proto` for what is said on the wire, `policy` and `config` for what the administrator has
//! to say about it, `client` for how it leaves the machine, and `verbs`, `cm`, `sunrpc` and `os`
//! for why that is safe: nothing else contains `unsafe`. `trace` tells what happens. Arrows point
//! down: the wrappers know nothing of the protocol, nor the protocol of the client.

#![crate_name = "rpcrdma_rs"]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

mod bindings;
mod client;
mod cm;
mod config;
mod os;
mod policy;
mod proto;
mod sunrpc;
mod trace;
mod verbs;

/// The loaded module: the transport classes, as long as it is there.
#[pin_data]
struct RpcRdma {
    #[pin]
    _rules: config::Directory,
    _sysctl: os::sysctl::Sysctl,
    _client: sunrpc::Registration,
    _table: os::debugfs::File<client::Table>,
    _debugfs: os::debugfs::Dir,
    // Last: nothing of the module may begin to run after it.
    _stragglers: os::Stragglers,
}

impl kernel::InPlaceModule for RpcRdma {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        client::init();
        try_pin_init!(Self {
            _rules <- config::directory(),
            _debugfs: os::debugfs::Dir::new(client::DEBUGFS),
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
            _: {
                policy::table::init();
            },
            _table: os::debugfs::File::new(
                client::DEBUGFS,
                fmt!("connections"),
                Arc::new(client::Table, GFP_KERNEL)?,
            ),
            // Not before the in-tree module, which uses the same names, is known to be absent.
            _sysctl: os::sysctl::Sysctl::new(c"sunrpc", &policy::NUMBERS),
            _stragglers: os::Stragglers,
        })
    }
}

module! {
    type: RpcRdma,
    name: "rpcrdma_rs",
    authors: ["The rpcrdma-rs developers"],
    description: "RPC-over-RDMA transport",
    license: "GPL",
    alias: ["rpcrdma", "rpcrdma6", "xprtrdma"],
}
