// SPDX-License-Identifier: GPL-2.0

//! Sizes of connections, for any device and any wishes.

use proptest::prelude::*;

use crate::module::{
    client::connect::size::{Size, Sizing, Unfit, Wants, MIN_CREDITS},
    proto::{InlineSize, PrivateData},
    verbs::DeviceLimits,
};

/// Pages of 4 KiB of the largest payload, and the most segments of a chunk.
const PAYLOAD: u32 = 257;
const MAX_SEGMENTS: usize = 16;

fn device() -> impl Strategy<Value = DeviceLimits> {
    let count = || prop_oneof![0..4_u32, 0..1_000_u32, 0..100_000_u32, any::<u32>()];
    let pages = prop_oneof![0..20_u32, 0..600_u32, any::<u32>()];

    (count(), count(), pages, prop::bool::weighted(0.9)).prop_map(
        |(max_wr, max_cqe, fast_reg_pages, mem_mgt_extensions)| DeviceLimits {
            max_wr,
            max_cqe,
            fast_reg_pages,
            max_rd_atom: 16,
            mem_mgt_extensions,
        },
    )
}

fn wants() -> impl Strategy<Value = Wants> {
    let memory = prop_oneof![
        Just(u64::MAX),
        (256..1_048_577_u64).prop_map(|kib| kib * 1024)
    ];

    (1..16385_u32, 1..17_u32, any::<bool>(), memory).prop_map(
        |(credits, reverse_slots, has_callbacks, memory)| Wants {
            credits,
            reverse_slots,
            operations: 2,
            has_callbacks,
            memory,
        },
    )
}

fn own() -> impl Strategy<Value = PrivateData> {
    any::<(u8, u8)>().prop_map(|(send, receive)| PrivateData {
        send: InlineSize::from_code(send),
        receive: InlineSize::from_code(receive),
        remote_invalidation: true,
    })
}

fn fit(
    device: &DeviceLimits,
    own: &PrivateData,
    payload: u32,
    wants: &Wants,
) -> Result<(Size, u32), Unfit> {
    Sizing::new(device, own, payload, MAX_SEGMENTS)?.fit(wants)
}

proptest! {
    // PD-17, V1-29, V1-33: the size is within the limits of the device and of memory, and has a
    // Receive for each message that may come.
    #[test]
    fn within_all_limits(device in device(), own in own(), wants in wants()) {
        let Ok((size, credits)) = fit(&device, &own, PAYLOAD, &wants) else {
            return Ok(());
        };
        prop_assert!((MIN_CREDITS..=wants.credits.max(MIN_CREDITS)).contains(&credits));
        prop_assert!(size.qp.send_depth() <= device.max_wr && size.qp.recv_depth() <= device.max_wr);
        prop_assert!(size.qp.completions() <= device.max_cqe);
        prop_assert!(size.qp.buffer_bytes() <= wants.memory);
        prop_assert!(size.mrs.pages <= device.fast_reg_pages);

        prop_assert!(size.qp.recvs >= credits + size.qp.reserved + size.qp.recv_batch);
        prop_assert!(size.qp.reserved >= wants.reverse_slots);
        prop_assert_eq!(
            (size.qp.send_len, size.qp.recv_len),
            (own.send.bytes(), own.receive.bytes())
        );
    }

    // The first buffers and registrations are no more than there may be, and enough for a call.
    #[test]
    fn begins_small(device in device(), own in own(), wants in wants()) {
        let Ok((size, _)) = fit(&device, &own, PAYLOAD, &wants) else {
            return Ok(());
        };
        prop_assert!((1..=size.qp.sends).contains(&size.qp.first_sends));
        prop_assert!((1..=size.qp.recvs).contains(&size.qp.first_recvs));
        prop_assert!(size.first_unsolicited <= size.qp.reserved);
        prop_assert!(size.qp.first_recvs > size.first_unsolicited);
        // H-34: no call needs more registrations than exist, or than the queue has room for.
        prop_assert!((size.mrs.per_message..=size.mrs.most).contains(&size.mrs.first));
        prop_assert!(size.qp.chained >= size.mrs.most_per_message);
        prop_assert!(size.mrs.most >= size.mrs.most_per_message);
    }

    // A chunk has registrations for the largest payload, wherever it starts, and for its head and
    // tail; and no more segments than a list has room for.
    #[test]
    fn chunks_fit(device in device(), own in own(), payload in 1..5000_u32, wants in wants()) {
        let Ok((size, _)) = fit(&device, &own, payload, &wants) else {
            return Ok(());
        };
        let chunk = size.mrs.per_message / 2;

        prop_assert!(chunk >= 3 && usize::try_from(chunk).is_ok_and(|n| n <= MAX_SEGMENTS));
        prop_assert!(u64::from(chunk - 2) * u64::from(size.mrs.pages) > u64::from(payload));
    }

    // Where memory is no matter, a device that can do more gets no smaller a connection.
    #[test]
    fn grows_with_the_device(device in device(), own in own(), wants in wants(), more in 1..9_u32) {
        let wants = Wants { memory: u64::MAX, ..wants };
        let larger = DeviceLimits {
            max_wr: device.max_wr.saturating_mul(more),
            max_cqe: device.max_cqe.saturating_mul(more),
            ..device
        };

        if let Ok((_, credits)) = fit(&device, &own, PAYLOAD, &wants) {
            let found = fit(&larger, &own, PAYLOAD, &wants).map(|(_, credits)| credits);
            prop_assert!(found.is_ok_and(|found| found >= credits));
        }
    }

    // A driver that refuses every size is asked a few times.
    #[test]
    fn fewer_comes_to_an_end(mut wants in wants()) {
        for _ in 0..14 {
            let credits = wants.credits;
            wants = wants.fewer(credits);
            prop_assert!(wants.credits < credits || wants.credits == MIN_CREDITS);
        }
        prop_assert_eq!(wants.credits, MIN_CREDITS);
    }

    // A device without fast registration gets no size, with that reason.
    #[test]
    fn no_fast_registration(device in device(), own in own(), wants in wants()) {
        let device = DeviceLimits { mem_mgt_extensions: false, ..device };
        prop_assert_eq!(fit(&device, &own, PAYLOAD, &wants).err(), Some(Unfit::Device));
    }
}
