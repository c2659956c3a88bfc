// SPDX-License-Identifier: GPL-2.0

//! The size of a connection: as wanted, and as its device can have it. Pure.

use super::super::{
    proto::{
        responder::grant::receives,
        PrivateData, //
    },
    verbs::{
        DeviceLimits,
        QpSize, //
    }, //
};

/// Calls that the Receives of a new connection are good for. Most clients never have more
/// outstanding.
const FIRST_CREDITS: u32 = 32;

/// Send buffers of a new connection.
const FIRST_SENDS: u32 = 8;

/// RDMA Reads and Writes that may be on the send queue together, and the most of one message: with
/// 16 elements each they move 4 MiB from pages anywhere.
pub(super) const TRANSFERS: u32 = 126;

/// The most calls of the server that a client may have outstanding, if it wants as many.
pub(super) const MOST_CALLBACKS: u32 = 16;

/// The fewest credits that a connection is made for.
pub(super) const MIN_CREDITS: u32 = 4;

/// The most Receives that are posted at a time. They are good for no credit until then.
pub(super) const RECV_BATCH: u32 = 8;

/// The wanted size of a connection.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Wants {
    /// Calls that a client may have outstanding.
    pub(super) credits: u32,
    /// Bytes that the buffers may take.
    pub(super) memory: u64,
}

/// The size of a connection with `credits`, for the inline sizes `own`.
fn with(own: &PrivateData, credits: u32, elements: u32, sinks: u32) -> QpSize {
    let in_advance = RECV_BATCH.min(credits / 2).max(1);
    let first = credits.min(FIRST_CREDITS);

    QpSize {
        // A reply for each call. More replies than that wait.
        sends: credits,
        first_sends: credits.min(FIRST_SENDS),
        send_len: own.send.bytes(),
        most_chained: 0,
        chained: 0,
        others: TRANSFERS.saturating_add(sinks),
        elements,
        recvs: receives(credits, MOST_CALLBACKS).saturating_add(in_advance),
        first_recvs: receives(first, 0).saturating_add(in_advance),
        recv_len: own.receive.bytes(),
        reserved: 0,
        recv_batch: in_advance,
    }
}

/// The largest size up to the wanted one that the device can have, with requests of `elements`
/// elements and with `sinks` registrations, and its credits; `None` if it can have none.
pub(super) fn fit(
    device: &DeviceLimits,
    own: &PrivateData,
    elements: u32,
    sinks: u32,
    wants: &Wants,
) -> Option<(QpSize, u32)> {
    let mut credits = wants.credits.max(MIN_CREDITS);

    loop {
        let size = with(own, credits, elements, sinks);
        let fits = size.send_depth() <= device.max_wr
            && size.recv_depth() <= device.max_wr
            && size.completions() <= device.max_cqe
            && size.buffer_bytes() <= wants.memory;
        if fits {
            return Some((size, credits));
        }
        if credits == MIN_CREDITS {
            return None;
        }
        credits = credits
            .saturating_sub((credits / 8).max(1))
            .max(MIN_CREDITS);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_server_size))]
mod tests {
    use super::*;

    fn device() -> DeviceLimits {
        DeviceLimits {
            max_wr: 1 << 14,
            max_cqe: 1 << 15,
            fast_reg_pages: 512,
            mem_mgt_extensions: true,
            max_rd_atom: 16,
        }
    }

    const WANTS: Wants = Wants {
        credits: 128,
        memory: 32 << 20,
    };

    /// The size for these limits.
    fn credits(device: &DeviceLimits, wants: &Wants) -> Option<u32> {
        fit(device, &PrivateData::default(), 1, 0, wants).map(|(_, credits)| credits)
    }

    // PD-13, V1-34, BI-13, BI-14: each call of the grant has a Receive, with a batch held back too,
    // and one is left for the reply to a call of the server; all are as long as announced.
    #[test]
    fn receives_for_all() {
        for wanted in [1, 4, 5, 32, 128, 16_384] {
            let wants = Wants {
                credits: wanted,
                ..WANTS
            };
            let Some((size, credits)) = fit(&device(), &PrivateData::default(), 1, 0, &wants)
            else {
                assert!(false);
                continue;
            };
            let posted = size.recvs.saturating_sub(size.recv_batch);
            assert!(posted >= receives(credits, MOST_CALLBACKS));
            let posted = size.first_recvs.saturating_sub(size.recv_batch);
            assert!(posted >= receives(credits.min(FIRST_CREDITS), 0));
            assert!(size.first_recvs <= size.recvs && size.first_sends <= size.sends);
            assert_eq!(size.recv_len, PrivateData::default().receive.bytes());
        }
    }

    // H-108, H-132: devices that are too small for the wanted size, or for any.
    #[test]
    fn small_devices() {
        assert_eq!(credits(&device(), &WANTS), Some(128));
        let small = |max_wr, max_cqe| DeviceLimits {
            max_wr,
            max_cqe,
            ..device()
        };
        for (max_wr, max_cqe) in [(200, 1000), (1000, 200), (134, 1000)] {
            let device = small(max_wr, max_cqe);
            let found = credits(&device, &WANTS);
            assert!(found.is_some_and(|credits| (MIN_CREDITS..128).contains(&credits)));
        }
        assert_eq!(credits(&small(131, 1000), &WANTS), None);
        assert_eq!(credits(&small(0, 0), &WANTS), None);
    }

    // The limit of memory holds.
    #[test]
    fn memory() {
        let wants = |memory| Wants { memory, ..WANTS };
        // Buffers of 1 KiB: four Sends and 23 Receives.
        assert_eq!(credits(&device(), &wants(27 << 10)), Some(4));
        assert_eq!(credits(&device(), &wants((27 << 10) - 1)), None);
        assert!(credits(&device(), &wants(64 << 10)).is_some_and(|credits| credits < 64));
    }
}
