// SPDX-License-Identifier: GPL-2.0

//! What a transport object says about itself: its peer, and the counters of sunrpc.

use kernel::{
    ffi::c_char,
    fmt,
    str::CStr, //
};

use super::Xprt;
use crate::{
    bindings,
    os,
    sunrpc::Transport, //
};

impl<T: Transport> Xprt<T> {
    /// The server's address and port in words. Any context.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = Peer {
            host: [0; 72],
            port: [0; 8],
        };
        let copy = |which: u32, to: &mut [u8]| {
            // SAFETY: The object is valid, and the index is below the length of the array.
            let string = unsafe {
                let strings = (&raw const (*self.as_ptr()).address_strings).cast::<*const c_char>();
                strings.add(which as usize).read_volatile()
            };
            if !string.is_null() {
                // SAFETY: A C string that is freed, if ever, only after all readers are gone that
                // hold the lock of RCU, as this one does.
                let from = unsafe { os::text(string) }.to_bytes_with_nul();
                // The last byte stays a terminator.
                let room = to.split_last_mut().map_or(&mut [][..], |(_, room)| room);
                for (to, from) in room.iter_mut().zip(from) {
                    *to = *from;
                }
            }
        };

        let _rcu = kernel::sync::rcu::read_lock();
        copy(
            bindings::rpc_display_format_t_RPC_DISPLAY_ADDR,
            &mut peer.host,
        );
        copy(
            bindings::rpc_display_format_t_RPC_DISPLAY_PORT,
            &mut peer.port,
        );
        peer
    }

    /// sunrpc's own counters, for the statistics line.
    pub(crate) fn counters(&self) -> Counters {
        // SAFETY: The object is valid. Others count meanwhile, so that the copy may mix moments;
        // each counter is a word.
        let (stat, last_used) = unsafe {
            let xprt = self.as_ptr();
            ((&raw const (*xprt).stat).read_volatile(), (*xprt).last_used)
        };
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

/// Counters that sunrpc keeps for a transport.
pub(crate) struct Counters {
    /// Times the port was asked for.
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

/// An address and a port, for messages.
pub(crate) struct Peer {
    host: [u8; 72],
    port: [u8; 8],
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |octets| {
            CStr::from_bytes_until_nul(octets)
                .ok()
                .and_then(|text| text.to_str().ok())
                .unwrap_or("?")
        };

        f.write_str(text(&self.host))?;
        f.write_str(" port ")?;
        f.write_str(text(&self.port))
    }
}
