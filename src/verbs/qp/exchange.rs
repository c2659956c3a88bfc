// SPDX-License-Identifier: GPL-2.0

//! The exchange of the buffers of a queue pair, in use, for others of another length.
//!
//! A posted Receive cannot be taken back. One that comes back is replaced by a new one, so that as
//! many are posted as before, and the peer may send messages of the new length once none of the old
//! ones is left. The owner of the send queue exchanges the Send buffers as they come back.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        buffer::{
            BufferSpec,
            NewBuffers,
            RecvChain, //
        },
        PostError,
        QpOwner,
        SendBuffer, //
    },
    Qp, //
};

/// Bytes of the buffers of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// A Send buffer.
    pub(crate) send: u32,
    /// A Receive.
    pub(crate) receive: u32,
}

/// The buffers of a queue pair that replace others.
pub(super) struct Exchange {
    /// Receives of an earlier edition, posted or on their way back.
    outdated: u32,
    /// The Receives for their places.
    receives: RecvChain,
    /// Set from the beginning of an exchange of Receives until its end was reported.
    is_under_way: bool,
    /// The Send buffers for all of the present ones, until their owner has them.
    sends: Option<KVec<SendBuffer>>,
}

impl Exchange {
    /// No exchange.
    pub(super) const fn none() -> Self {
        Self {
            outdated: 0,
            receives: RecvChain::new(),
            is_under_way: false,
            sends: None,
        }
    }

    /// The Send buffers, for their owner.
    pub(super) fn take_sends(&mut self) -> Option<KVec<SendBuffer>> {
        self.sends.take()
    }
}

impl<O: QpOwner> Qp<O> {
    /// The lengths of new buffers.
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths {
            // CAST: It came from 32 bits.
            send: self.unallocated.send_len as u32,
            receive: self.unallocated.recv_len,
        }
    }

    /// Bytes of all buffers that the queue pair may have, of these lengths.
    pub(crate) fn most_bytes(&self, of: Lengths) -> u64 {
        let bytes = |allocated: u32, left: u32, len: u32| {
            u64::from(allocated)
                .saturating_add(u64::from(left))
                .saturating_mul(u64::from(len))
        };
        let BufferSpec { sends, recvs, .. } = self.unallocated;

        bytes(self.sends_allocated, sends, of.send).saturating_add(bytes(
            self.recvs_allocated,
            recvs,
            of.receive,
        ))
    }

    /// An order for buffers of these lengths in place of all present ones of a kind whose length
    /// differs: to be [made](BufferSpec::make), as a whole, without the lock of the queue pair, and
    /// then [exchanged](Self::exchange). No other order may be made in between. `None` if all have
    /// these lengths, or nothing may be posted.
    pub(crate) fn order_exchange(&self, to: Lengths) -> Option<BufferSpec> {
        let now = self.lengths();
        let if_other = |count, is_other| if is_other { count } else { 0 };

        (self.is_open() && to != now).then(|| BufferSpec {
            pd: self.unallocated.pd.clone(),
            callbacks: self.unallocated.callbacks,
            sends: if_other(self.sends_allocated, to.send != now.send),
            // CAST: Widening.
            send_len: to.send as usize,
            recvs: if_other(self.recvs_allocated, to.receive != now.receive),
            recv_len: to.receive,
            edition: self.unallocated.edition.wrapping_add(1),
        })
    }

    /// Exchanges the buffers for those of `buffers`, which keeps what is to be freed without the
    /// lock of the queue pair. Receives of the new length are posted from here on. Returns the
    /// number of their edition, unless they stay, or the queue pair is closed.
    pub(crate) fn exchange(&mut self, buffers: &mut NewBuffers) -> Option<u32> {
        if !self.is_open() || !Arc::ptr_eq(&buffers.order.pd, self.poster.pd()) {
            return None;
        }
        let BufferSpec {
            sends: send_count,
            send_len,
            recvs: recv_count,
            recv_len,
            edition,
            ..
        } = buffers.order;

        if send_count != 0 {
            let sends = core::mem::replace(&mut buffers.sends, KVec::new());
            // Their owner has not fetched the last ones, and does not need them.
            if let Some(unused) = self.exchange.sends.replace(sends) {
                buffers.sends = unused;
            }
            self.unallocated.send_len = send_len;
        }
        if recv_count == 0 {
            return None;
        }
        core::mem::swap(&mut self.exchange.receives, &mut buffers.recvs);
        self.recv_bytes = self
            .recv_bytes
            .saturating_add(self.exchange.receives.bytes())
            .saturating_sub(buffers.recvs.bytes());
        self.exchange.outdated = self.recvs_allocated;
        self.exchange.is_under_way = true;
        self.unallocated.recv_len = recv_len;
        self.unallocated.edition = edition;
        Some(edition)
    }

    /// Returns the number of the edition of all Receives, once, when an exchange has ended: the
    /// peer may send messages of their length.
    pub(crate) fn take_exchanged(&mut self) -> Option<u32> {
        let is_over = self.exchange.is_under_way && self.exchange.outdated == 0;

        is_over.then(|| {
            self.exchange.is_under_way = false;
            self.unallocated.edition
        })
    }

    /// The Receives that are still to be exchanged.
    pub(crate) fn outdated(&self) -> u32 {
        self.exchange.outdated
    }

    /// Posts the Receives of `chain`, whose number is returned, and in place of outdated ones those
    /// that replace them.
    pub(super) fn post_current(&mut self, mut chain: RecvChain) -> Result<u32, PostError> {
        if self.exchange.outdated != 0 {
            self.replace(&mut chain);
        }
        self.post_chain(chain)
    }

    /// Replaces the outdated Receives of `chain`, and frees them.
    #[cold]
    fn replace(&mut self, chain: &mut RecvChain) {
        let others = chain.take_others(self.unallocated.edition);
        let count = others.count();
        let replaced = chain.take_from(&mut self.exchange.receives, count);
        // None, since as many were made. They could be ordered again.
        let missing = count.saturating_sub(replaced);

        self.exchange.outdated = self.exchange.outdated.saturating_sub(count);
        self.recv_bytes = self.recv_bytes.saturating_sub(others.bytes());
        self.recvs_allocated = self.recvs_allocated.saturating_sub(missing);
        self.unallocated.recvs = self.unallocated.recvs.saturating_add(missing);
        self.set_batch();
    }
}
