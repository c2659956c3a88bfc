// SPDX-License-Identifier: GPL-2.0

//! Sizes of queues, and the limits of devices to them. Pure.

/// The limits of a device for the size of a connection.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct DeviceLimits {
    /// Work requests in one queue.
    pub(crate) max_wr: u32,
    /// Entries in one completion queue.
    pub(crate) max_cqe: u32,
    /// Pages under one fast registration.
    pub(crate) fast_reg_pages: u32,
    /// RDMA Reads that peers may have outstanding at us on one connection.
    pub(crate) max_rd_atom: u8,
    /// Set if the device has fast registration, local invalidation and Send With Invalidate.
    pub(crate) mem_mgt_extensions: bool,
}

/// The sizes of the queues of a queue pair.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct QpSize {
    /// Messages that may be on the send queue together.
    pub(crate) sends: u32,
    /// The number of them that have buffers at first.
    pub(crate) first_sends: u32,
    /// Bytes in the buffer of each.
    pub(crate) send_len: u32,
    /// Requests that may be posted in front of one message.
    pub(crate) most_chained: u32,
    /// Such requests that may be on the send queue together, at least as many as one message may
    /// need. A sender for whose message the room may be short waits.
    pub(crate) chained: u32,
    /// Requests of other posters than the sender that may be on the send queue together.
    pub(crate) others: u32,
    /// Elements that a request of the send queue may have: one for the buffer of a message, more
    /// for those of [`super::Transfers`].
    pub(crate) elements: u32,
    /// The most Receives.
    pub(crate) recvs: u32,
    /// Receives allocated at first.
    pub(crate) first_recvs: u32,
    /// Bytes in the buffer of each.
    pub(crate) recv_len: u32,
    /// The most Receives that may be reserved ([`super::Qp::reserve_receives`]).
    pub(crate) reserved: u32,
    /// The most Receives that are posted at a time, out of all that came back.
    pub(crate) recv_batch: u32,
}

impl QpSize {
    /// Depth of the send queue: the messages, the requests in front of them, those of others, the
    /// spare message, one marker for the drain.
    pub(crate) fn send_depth(&self) -> u32 {
        self.sends
            .saturating_add(self.chained)
            .saturating_add(self.others)
            .saturating_add(2)
    }

    /// Bytes that all buffers together may take.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let bytes = |count: u32, len: u32| u64::from(count).saturating_mul(u64::from(len));

        bytes(self.sends, self.send_len).saturating_add(bytes(self.recvs, self.recv_len))
    }

    /// Depth of the receive queue, with one marker for the drain.
    pub(crate) fn recv_depth(&self) -> u32 {
        self.recvs.saturating_add(1)
    }

    /// Entries that a completion queue for both needs.
    pub(crate) fn completions(&self) -> u32 {
        self.send_depth().saturating_add(self.recv_depth())
    }
}

/// The registrations of a queue pair.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct MrSize {
    /// Registrations allocated at first.
    pub(crate) first: u32,
    /// The most registrations, hence local invalidations that may be outstanding.
    pub(crate) most: u32,
    /// Registrations that the longest message needs.
    pub(crate) per_message: u32,
    /// Registrations that one message may have: it needs more where the device's addresses have
    /// gaps that the memory has not.
    pub(crate) most_per_message: u32,
    /// Pages that each can cover.
    pub(crate) pages: u32,
}
