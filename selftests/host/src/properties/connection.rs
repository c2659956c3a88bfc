// SPDX-License-Identifier: GPL-2.0

//! Private data and credits.

use proptest::{collection::vec, prelude::*};

use crate::module::proto::{
    credits::{grant, window},
    InlineSize, PrivateData, Thresholds,
};

fn private_data() -> impl Strategy<Value = PrivateData> {
    (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(send, receive, remote_invalidation)| {
        PrivateData {
            send: InlineSize::from_code(send),
            receive: InlineSize::from_code(receive),
            remote_invalidation,
        }
    })
}

/// Bytes that cannot contain the start of an identifier.
fn foreign(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    vec(
        any::<u8>().prop_filter("first byte of the identifier", |&byte| byte != 0xf6),
        len,
    )
}

proptest! {
    // PD-3..PD-9, PD-36, PD-43: found at any offset, among any bytes.
    #[test]
    fn found_anywhere(
        message in private_data(),
        before in foreign(0..64),
        after in vec(any::<u8>(), 0..64),
        reserved: u8,
    ) {
        let mut bytes = message.encode();
        bytes[5] |= reserved & 0xfe;
        let all = [&before[..], &bytes, &after].concat();
        prop_assert_eq!(PrivateData::find(&all), Some(message));
    }

    // PD-36, PD-42: a near miss in front of it, anywhere, hides nothing.
    #[test]
    fn found_behind_a_near_miss(
        message in private_data(),
        before in foreign(0..16),
        near in 1..5_usize,
        version in prop_oneof![Just(0_u8), 2..=u8::MAX],
    ) {
        let part = [0xf6, 0xab, 0x0e, 0x18, version];
        let all = [&before[..], &part[..near], &message.encode()].concat();
        prop_assert_eq!(PrivateData::find(&all), Some(message));
        let all = [&before[..], &part, &message.encode()].concat();
        prop_assert_eq!(PrivateData::find(&all), Some(message));
    }

    // PD-34, PD-35, PD-49: the parser is total.
    #[test]
    fn any_private_data(bytes in vec(any::<u8>(), 0..256)) {
        let there = bytes.windows(8).any(|part| part.starts_with(&[0xf6, 0xab, 0x0e, 0x18, 1]));
        prop_assert_eq!(PrivateData::find(&bytes).is_some(), there);
    }

    // PD-14..PD-16, PD-50: both ends find the same thresholds, within the sizes that each announced.
    #[test]
    fn thresholds(client in private_data(), server in private_data()) {
        let found = Thresholds::for_client(&client, &server);
        prop_assert_eq!(found, Thresholds::for_server(&server, &client));
        prop_assert_eq!(found.call, client.send.bytes().min(server.receive.bytes()));
        prop_assert_eq!(found.reply, server.send.bytes().min(client.receive.bytes()));
    }

    // PD-11, PD-12: the announced size is never more than the real one.
    #[test]
    fn sizes(bytes: u32) {
        match InlineSize::from_bytes(bytes) {
            None => prop_assert!(bytes < 1024),
            Some(size) => {
                prop_assert!(size.bytes() <= bytes);
                prop_assert!(bytes - size.bytes() < 1024 || size.bytes() == 262_144);
            }
        }
    }

    // V1-24..V1-32, V1-41: never more calls without a reply than the last grant, and never stuck.
    #[test]
    fn credits(requested: u32, wire: u32, abandoned: u32) {
        let granted = grant(wire, requested);
        prop_assert!(granted >= 1 && granted <= requested.max(1));
        prop_assert!(granted == wire || wire == 0 || wire > requested);

        let calls = window(granted, abandoned);
        prop_assert!(calls >= 1);
        prop_assert!(calls == 1 || u64::from(calls) + u64::from(abandoned) == u64::from(granted));
    }
}
