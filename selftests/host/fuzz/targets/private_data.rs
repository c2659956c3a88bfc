// SPDX-License-Identifier: GPL-2.0

//! Any bytes as private data (PD-36..PD-43, PD-49).

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::{InlineSize, PrivateData, Thresholds};

fuzz_target!(|bytes: &[u8]| {
    let own = PrivateData {
        send: InlineSize::from_code(7),
        receive: InlineSize::from_code(3),
        remote_invalidation: true,
    };
    // The first place where a message could start, found in another way.
    let place = (0..bytes.len()).find(|&at| {
        let rest = &bytes[at..];
        rest.len() >= 8 && rest.starts_with(&[0xf6, 0xab, 0x0e, 0x18, 1])
    });
    let found = PrivateData::find(bytes);
    assert_eq!(found.is_some(), place.is_some());
    if let (Some(found), Some(at)) = (found, place) {
        let mut message = [0; 8];
        message.copy_from_slice(&bytes[at..at + 8]);
        message[5] &= 1;
        assert_eq!(found.encode(), message);
    }

    let peer = found.unwrap_or_default();
    let thresholds = Thresholds::for_client(&own, &peer);
    assert_eq!(thresholds, Thresholds::for_server(&peer, &own));
    assert!((1024..=8192).contains(&thresholds.call));
    assert!((1024..=4096).contains(&thresholds.reply));
});
