// SPDX-License-Identifier: GPL-2.0

//! Settings and sums of counters in `/proc/sys/sunrpc/svc_rdma`.

use super::connection::list;
use crate::{
    os::sysctl::{
        Number,
        Numbers,
        Sum, //
    },
    policy::{
        SERVER_CREDITS,
        SERVER_INLINE,
        SERVER_READS,
        UNUSED, //
    }, //
};

/// The sums of [`Stats::summed`](super::stats::Stats::summed). They grow by one for each Receive,
/// for each segment read or written, and for each message that waits.
static RECEIVED: Sum = Sum::new(|| list::sum(0));
static READ: Sum = Sum::new(|| list::sum(1));
static WRITTEN: Sum = Sum::new(|| list::sum(2));
static STARVED: Sum = Sum::new(|| list::sum(3));

/// The names are those of the in-tree transport.
pub(super) static NUMBERS: Numbers<12> = Numbers::new([
    (c"max_requests", Number::Uint(&SERVER_CREDITS)),
    (c"max_req_size", Number::Uint(&SERVER_INLINE)),
    (c"max_outbound_read_requests", Number::Uint(&SERVER_READS)),
    (c"rdma_stat_recv", Number::Sum(&RECEIVED)),
    (c"rdma_stat_read", Number::Sum(&READ)),
    (c"rdma_stat_write", Number::Sum(&WRITTEN)),
    (c"rdma_stat_sq_starve", Number::Sum(&STARVED)),
    // Always 0 in-tree, too.
    (c"rdma_stat_rq_starve", Number::Uint(&UNUSED)),
    (c"rdma_stat_rq_poll", Number::Uint(&UNUSED)),
    (c"rdma_stat_rq_prod", Number::Uint(&UNUSED)),
    (c"rdma_stat_sq_poll", Number::Uint(&UNUSED)),
    (c"rdma_stat_sq_prod", Number::Uint(&UNUSED)),
]);
