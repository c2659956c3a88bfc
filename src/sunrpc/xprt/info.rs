// SPDX-License-Identifier: GPL-2.0

//! Properties of a transport object: its peer, and the counters of sunrpc.

use super::{
    super::address::Peer,
    names,
    Xprt, //
};
use crate::{
    bindings,
    os, //
};

impl<S> Xprt<S> {
    /// The server's address and port in words. Any context.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = Peer::unknown();
        let copy = |which: u32, to: &mut [u8]| {
            // SAFETY: The object is valid, and `which` one of the constants below.
            let string = unsafe { names::place(self.as_ptr(), which).read_volatile() };
            if !string.is_null() {
                // SAFETY: A C string that is freed, if ever, only after all readers under RCU's
                // lock have finished; this one holds it.
                let from = unsafe { os::text(string) }.to_bytes_with_nul();
                // The last byte stays a terminator.
                let room = to.split_last_mut().map_or(&mut [][..], |(_, room)| room);
                for (to, from) in room.iter_mut().zip(from) {
                    *to = *from;
                }
            }
        };

        let _rcu = kernel::sync::rcu::read_lock();
        copy(names::ADDR, &mut peer.host);
        copy(names::PORT, &mut peer.port);
        peer
    }

    /// The work that sunrpc has, and the reasons why it is not sent.
    pub(crate) fn load(&self) -> Load {
        let (state, used) = (read_once!(self, state), read_once!(self, cong));
        let is_set = |bit: u32| state & (1 << bit) != 0;

        Load {
            connected: is_set(bindings::XPRT_CONNECTED),
            connecting: is_set(bindings::XPRT_CONNECTING),
            no_space: is_set(bindings::XPRT_WRITE_SPACE),
            used: used >> bindings::RPC_CWNDSHIFT,
            congested: used >= read_once!(self, cwnd),
            waiting: usize::try_from(read_once!(self, xmit_queuelen.counter)).unwrap_or(0),
            // CAST: Widening.
            backlog: read_once!(self, backlog.qlen) as usize,
        }
    }

    /// sunrpc's own counters, for the statistics line.
    pub(crate) fn counters(&self) -> Counters {
        // Others may count at the same time, so that the copy may mix moments.
        let (stat, last_used) = (read_once!(self, stat), read_once!(self, last_used));
        let secs = |ticks: usize| ticks.checked_div(os::secs_to_jiffies(1)).unwrap_or(0);

        Counters {
            binds: stat.bind_count,
            connects: stat.connect_count,
            connect_secs: secs(stat.connect_time),
            idle_secs: if self.is_connected() {
                secs(os::jiffies().wrapping_sub(last_used))
            } else {
                0
            },
            sends: stat.sends,
            receives: stat.recvs,
            bad_xids: stat.bad_xids,
            requests: stat.req_u,
            backlog: stat.bklog_u,
        }
    }
}

/// The work of a transport at one moment.
pub(crate) struct Load {
    /// Set when sunrpc may send, or waits for a connection.
    pub(crate) connected: bool,
    pub(crate) connecting: bool,
    /// Set while the transport has no room to send.
    pub(crate) no_space: bool,
    /// Credits that calls hold, and whether these are all.
    pub(crate) used: usize,
    pub(crate) congested: bool,
    /// Calls that are to be sent.
    pub(crate) waiting: usize,
    /// Calls that wait for a slot.
    pub(crate) backlog: usize,
}

/// Counters that sunrpc keeps for a transport.
pub(crate) struct Counters {
    /// Times the port was requested from rpcbind.
    pub(crate) binds: usize,
    /// Connections made.
    pub(crate) connects: usize,
    /// Seconds spent connecting.
    pub(crate) connect_secs: usize,
    /// Seconds since the last use, 0 without a connection.
    pub(crate) idle_secs: usize,
    /// Calls sent.
    pub(crate) sends: usize,
    /// Replies received.
    pub(crate) receives: usize,
    /// Replies to no known call.
    pub(crate) bad_xids: usize,
    /// Sum over all sends of the calls outstanding.
    pub(crate) requests: u64,
    /// Sum over all sends of the tasks waiting for a slot.
    pub(crate) backlog: u64,
}
