// SPDX-License-Identifier: GPL-2.0

//! The size of a connection: as wanted, as its device can have it, and how it grows. Pure.

use super::super::super::{
    proto::PrivateData,
    verbs::{
        DeviceLimits,
        MrSize,
        QpSize, //
    }, //
};

/// Send buffers of a new connection. Many connections, as most of a mount with `nconnect`, hardly
/// need more; more are allocated once half of them are in use together, or the connection is in
/// steady use ([`crate::verbs::SendQueue::wants_more`]).
const FIRST_SENDS: u32 = 6;
/// Receives for replies of a new connection. Some may be held back, to be posted in a batch.
const FIRST_RECVS: u32 = 8;
/// Receives for unsolicited messages as long as the server may not call back. A server that sends
/// more than these in one burst loses the connection.
const FIRST_UNSOLICITED: u32 = 8;
/// The most registrations for each call that may be outstanding: for the head, the pages and the
/// tail of a Long call.
const MRS_PER_CALL: u32 = 3;
/// Registrations that a call may have besides, where the device's addresses of its memory have gaps
/// that the memory has not: after the first and before the last of the pages of two chunks.
const GAPS: u32 = 4;
/// Buffers of either kind that are allocated at a time, when a connection grows.
pub(crate) const GROWTH: u32 = 32;
/// The fewest and the most registrations that are allocated at a time: as many as exist.
pub(crate) const MR_GROWTH: (u32, u32) = (8, 32);
/// Milliseconds between attempts to allocate more after memory was short.
pub(crate) const RETRY_MS: usize = 100;
/// Milliseconds before a device that has refused is tried again.
pub(crate) const RETRY_DEVICE_MS: usize = 1000;
/// The most Receives that are posted at a time. A larger batch saves hardly any doorbells (a call
/// rings 1 + 1/40 of them then), and needs one more Receive for each entry.
const MOST_RECV_BATCH: u32 = 40;
/// The fewest credits that a connection is made for.
pub(crate) const MIN_CREDITS: u32 = 4;

/// The reason why not even the smallest connection fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The device lacks fast registration or is too small.
    Device,
    /// The limit of memory is too small for the inline sizes.
    Memory,
}

/// The wanted size of a connection, if the device can.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Wants {
    /// Calls outstanding.
    pub(crate) credits: u32,
    /// Calls from the server outstanding.
    pub(crate) reverse_slots: u32,
    /// Operations of version 2 that the server may have outstanding besides its calls.
    pub(crate) operations: u32,
    /// Set if the server may call back from the start.
    pub(crate) has_callbacks: bool,
    /// Bytes that its buffers may take; with large inline thresholds fewer calls are outstanding.
    pub(crate) memory: u64,
}

impl Wants {
    /// The Receives for unsolicited messages, and how many of them are reserved from the start.
    fn unsolicited(&self) -> (u32, u32) {
        let all = self.reverse_slots.max(FIRST_UNSOLICITED);
        let first = if self.has_callbacks {
            all
        } else {
            FIRST_UNSOLICITED
        };

        (
            all.saturating_add(self.operations),
            first.saturating_add(self.operations),
        )
    }

    /// The same with half the `credits` of a size that was refused.
    pub(crate) fn fewer(self, credits: u32) -> Self {
        Self {
            credits: (credits / 2).max(MIN_CREDITS),
            ..self
        }
    }
}

/// The size of a connection.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Size {
    pub(crate) qp: QpSize,
    pub(crate) mrs: MrSize,
    /// Receives that are reserved for unsolicited messages before the server may call back.
    pub(crate) first_unsolicited: u32,
}

/// The sizes that do not depend on the number of calls.
pub(crate) struct Sizing<'a> {
    device: &'a DeviceLimits,
    own: &'a PrivateData,
    /// Pages that each registration covers.
    pages: u32,
    /// Registrations that one chunk can need.
    segments: u32,
}

impl<'a> Sizing<'a> {
    /// Sizes for `device`, the inline sizes `own`, payloads of up to `payload` pages, and up to
    /// `max_segments` segments in a chunk.
    ///
    /// # Errors
    ///
    /// The reason why the device can have none.
    pub(crate) fn new(
        device: &'a DeviceLimits,
        own: &'a PrivateData,
        payload: u32,
        max_segments: usize,
    ) -> Result<Self, Unfit> {
        // The largest payload, and either a page more since it may start anywhere in the first, or
        // two for its head and tail.
        let pages = device.fast_reg_pages.min(payload.saturating_add(2));
        if pages == 0 || !device.mem_mgt_extensions {
            return Err(Unfit::Device);
        }
        // The pages of the payload, and one registration each for the head and the tail around
        // them.
        let segments = payload.saturating_add(1).div_ceil(pages).saturating_add(2);
        // CAST: Widening.
        if segments as usize > max_segments {
            return Err(Unfit::Device);
        }
        Ok(Self {
            device,
            own,
            pages,
            segments,
        })
    }

    /// The size of a connection with `credits`.
    fn with(&self, credits: u32, wants: &Wants) -> Size {
        let (unsolicited, first_unsolicited) = wants.unsolicited();
        // As if each call had a payload in pages, and one call the most registrations. Some calls
        // have more of them, for head and tail or in both directions, and then others have none, or
        // wait. Devices round the send queue up to a power of two: where a registration
        // covers a payload, 512 entries are enough for 128 credits.
        let mrs_of_payload = self.segments.saturating_sub(2).max(1);
        let payloads = credits.saturating_mul(mrs_of_payload);
        let mrs = self.mrs(credits, payloads);

        let recv_batch = (credits / 3).clamp(1, MOST_RECV_BATCH);
        let in_advance = unsolicited.saturating_add(recv_batch);
        let sends = credits
            .saturating_add(credits / 4)
            .saturating_add(wants.reverse_slots);
        let qp = QpSize {
            sends,
            first_sends: sends.min(FIRST_SENDS),
            send_len: self.own.send.bytes(),
            most_chained: mrs.most_per_message,
            chained: payloads.saturating_add(mrs.most_per_message),
            // Invalidations.
            others: mrs.most,
            elements: 1,
            recvs: credits.saturating_add(in_advance),
            first_recvs: credits.min(FIRST_RECVS).saturating_add(first_unsolicited),
            recv_len: self.own.receive.bytes(),
            reserved: unsolicited,
            recv_batch,
        };
        Size {
            qp,
            mrs,
            first_unsolicited,
        }
    }

    /// The registrations of a connection with `credits`, where `payloads` cover the pages of that
    /// many calls.
    fn mrs(&self, credits: u32, payloads: u32) -> MrSize {
        let per_message = self.segments.saturating_mul(2);
        let most_per_message = per_message.saturating_add(GAPS);

        MrSize {
            // Sending a call must not allocate memory, since it may be sent to free some: enough
            // for a Long call with a Reply chunk.
            first: per_message,
            // Half as many again wait for an invalidation.
            most: payloads
                .saturating_add(payloads / 2)
                .min(credits.saturating_mul(MRS_PER_CALL))
                .max(most_per_message),
            per_message,
            most_per_message,
            pages: self.pages,
        }
    }

    /// The largest size up to the wanted one that the device can have, and its credits.
    ///
    /// # Errors
    ///
    /// The reason why none fits.
    pub(crate) fn fit(&self, wants: &Wants) -> Result<(Size, u32), Unfit> {
        let mut credits = wants.credits.max(MIN_CREDITS);

        loop {
            let size = self.with(credits, wants);
            let qp = &size.qp;
            let fits = qp.send_depth() <= self.device.max_wr
                && qp.recv_depth() <= self.device.max_wr
                && qp.completions() <= self.device.max_cqe;
            if fits && qp.buffer_bytes() <= wants.memory {
                return Ok((size, credits));
            }
            if credits == MIN_CREDITS {
                return Err(if fits { Unfit::Memory } else { Unfit::Device });
            }
            let fewer = if fits {
                credits.saturating_sub((credits / 8).max(1))
            } else {
                credits / 2
            };
            credits = fewer.max(MIN_CREDITS);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_size))]
mod tests {
    use super::*;

    /// Pages of 4 KiB of a payload of 1 MiB, which may begin anywhere in the first.
    const PAYLOAD: u32 = 257;
    const MAX_SEGMENTS: usize = 16;

    fn device() -> DeviceLimits {
        DeviceLimits {
            max_wr: 1 << 14,
            max_cqe: 1 << 15,
            fast_reg_pages: 512,
            mem_mgt_extensions: true,
            max_rd_atom: 16,
        }
    }

    fn wants() -> Wants {
        Wants {
            credits: 128,
            reverse_slots: 16,
            operations: 0,
            has_callbacks: false,
            memory: u64::MAX,
        }
    }

    fn fit(device: &DeviceLimits, wants: &Wants) -> Result<(Size, u32), Unfit> {
        Sizing::new(device, &PrivateData::default(), PAYLOAD, MAX_SEGMENTS)?.fit(wants)
    }

    /// V1-27: each call that may be outstanding has a Receive, and so has each reverse call.
    #[test]
    fn receives() -> Result<(), Unfit> {
        for (credits, has_callbacks) in [(4, false), (5, true), (128, false), (256, true)] {
            let wanted = Wants {
                credits,
                has_callbacks,
                ..wants()
            };
            let (size, had) = fit(&device(), &wanted)?;
            assert_eq!(had, credits);
            assert!(size.qp.recvs >= credits + size.qp.reserved + size.qp.recv_batch);
            assert!(size.qp.first_recvs > size.first_unsolicited);
            // As soon as the server may call back.
            assert!((size.first_unsolicited == 16) == has_callbacks);
            assert_eq!(size.qp.reserved, 16);
            assert!(size.qp.first_sends <= size.qp.sends && size.mrs.first <= size.mrs.most);
            // H-34: the first registrations are enough for any call, whatever memory is left; the
            // most registrations are enough where addresses have gaps.
            assert!(size.mrs.first >= size.mrs.per_message);
            assert!(size.mrs.most >= size.mrs.most_per_message);
            // H-34: the send queue has room for each call with its payload.
            assert!(size.qp.chained >= credits && size.qp.chained >= size.mrs.most_per_message);
            assert!(size.qp.send_depth() > size.qp.sends + size.qp.chained + size.mrs.most);
            // A burst of a dozen messages without meaning, and the reply behind them, find Receives
            // while a batch less one is held back.
            let held = (size.qp.first_recvs - size.first_unsolicited) / 2 - 1;
            assert!(size.qp.first_recvs - held > 12 || credits < FIRST_RECVS);
        }
        Ok(())
    }

    /// The send queue is no larger than necessary: devices round it up to a power of two, and have
    /// memory for all of it.
    #[test]
    fn send_queue() -> Result<(), Unfit> {
        for (pages, most) in [(512, 512), (256, 1024), (128, 1024), (32, 2048)] {
            let mut limits = device();
            limits.fast_reg_pages = pages;
            let (size, credits) = fit(&limits, &wants())?;
            assert_eq!(credits, 128);
            assert!(size.qp.send_depth() <= most);
        }
        Ok(())
    }

    /// Without a reverse direction, unsolicited messages have as many Receives at first.
    #[test]
    fn no_reverse() -> Result<(), Unfit> {
        let wanted = Wants {
            reverse_slots: 1,
            ..wants()
        };
        let ((size, _), (usual, _)) = (fit(&device(), &wanted)?, fit(&device(), &wants())?);
        assert_eq!(size.first_unsolicited, usual.first_unsolicited);
        assert!(size.qp.reserved >= size.first_unsolicited);
        assert!(size.qp.recvs >= 128 + size.qp.reserved + size.qp.recv_batch);
        Ok(())
    }

    /// A small device gets a connection that it can have; one that is too small none.
    #[test]
    fn small_devices() -> Result<(), Unfit> {
        let mut limits = device();
        limits.max_wr = 500;
        let (size, credits) = fit(&limits, &wants())?;
        assert!((MIN_CREDITS..128).contains(&credits));
        assert!(size.qp.send_depth() <= 500 && size.qp.recv_depth() <= 500);

        limits.max_wr = 10;
        assert!(fit(&limits, &wants()).is_err());
        for (pages, extensions) in [(0, true), (8, true), (512, false)] {
            let mut limits = device();
            limits.fast_reg_pages = pages;
            limits.mem_mgt_extensions = extensions;
            assert!(fit(&limits, &wants()).is_err());
        }
        Ok(())
    }

    /// A limit of memory costs credits, and is kept.
    #[test]
    fn memory() -> Result<(), Unfit> {
        let mut wants = wants();
        wants.memory = 256 * 1024;
        let (size, credits) = fit(&device(), &wants)?;
        assert!(credits < 128 && size.qp.buffer_bytes() <= wants.memory);
        wants.memory = 1024;
        assert!(fit(&device(), &wants).is_err());
        Ok(())
    }

    /// A payload that starts anywhere, with head and tail, has registrations enough.
    #[test]
    fn segments() -> Result<(), Unfit> {
        for pages in [32, 256, 257, 258, 512] {
            let mut limits = device();
            limits.fast_reg_pages = pages;
            let (size, _) = fit(&limits, &wants())?;
            let chunk = size.mrs.per_message / 2;
            assert!((chunk - 2) * size.mrs.pages >= PAYLOAD + 1);
            assert!((chunk - 3) * size.mrs.pages < PAYLOAD + 1);
        }
        Ok(())
    }
}
