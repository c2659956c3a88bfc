// SPDX-License-Identifier: GPL-2.0

//! Rules: a search in their stored order finds the same rule as a search through all.

use std::{cell::Cell, collections::BTreeMap, net::IpAddr};

use proptest::{collection::vec, prelude::*};

use crate::module::policy::{
    order::{best, matches, Key},
    pattern::{DeviceName, Pattern, Side, Target},
    prefix::Prefix,
};

const DEVICES: [&str; 2] = ["rxe0", "rxe1"];

/// An address of few bits, so that networks overlap.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..4_u8, 0..4_u8).prop_map(|(a, b)| IpAddr::from([a << 6, 0, 0, b])),
        (0..4_u16, 0..4_u16).prop_map(|(a, b)| IpAddr::from([a << 14, 0, 0, 0, 0, 0, 0, b])),
        (0..4_u8).prop_map(|b| IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0, u16::from(b)])),
    ]
}

/// A network that contains the address, or one beside it, as an administrator writes it.
fn prefix() -> impl Strategy<Value = Prefix> {
    (
        address(),
        prop_oneof![Just(0_u32), Just(1), Just(2), 28..=32_u32, 120..=128_u32],
    )
        .prop_filter_map("such a length is too long", |(address, length)| {
            let network = match address {
                IpAddr::V4(v4) if length <= 32 => IpAddr::from(
                    (v4.to_bits() & !(u32::MAX.checked_shr(length).unwrap_or(0))).to_be_bytes(),
                ),
                IpAddr::V6(v6) => IpAddr::from(
                    (v6.to_bits() & !(u128::MAX.checked_shr(length).unwrap_or(0))).to_be_bytes(),
                ),
                IpAddr::V4(_) => return None,
            };
            Prefix::parse(&format!("{network}/{length}"))
        })
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Client), Just(Side::Server)]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (
        proptest::option::weighted(0.8, prefix()),
        proptest::option::of(1..4_u16),
        proptest::option::weighted(0.3, 0..DEVICES.len()),
        proptest::option::weighted(0.3, 1..3_u32),
        proptest::option::of(side()),
    )
        .prop_map(|(peer, port, device, netns, side)| Pattern {
            side,
            peer,
            port,
            device: device.and_then(|at| DeviceName::parse(DEVICES[at])),
            netns,
        })
}

fn target() -> impl Strategy<Value = Target<'static>> {
    (
        address(),
        1..4_u16,
        proptest::option::of(0..DEVICES.len()),
        1..3_u32,
        side(),
    )
        .prop_map(|(address, port, device, netns, side)| {
            let device = device.map(|at| DEVICES[at]);
            match side {
                Side::Client => Target::server(address, port, device, netns),
                Side::Server => Target::client(address, port, device, netns),
            }
        })
}

/// The rules in their order.
fn ordered(patterns: &[Pattern]) -> BTreeMap<Key, &Pattern> {
    let keys = patterns.iter().zip(1..);
    keys.map(|(pattern, id)| (Key::new(pattern, id), pattern))
        .collect()
}

proptest! {
    #[test]
    fn the_order_finds_what_a_look_at_all_finds(patterns in vec(pattern(), 0..40), target in target()) {
        let rules = ordered(&patterns);
        let from = |at: &Key| rules.range(*at..).next().map(|(key, rule)| (*key, *rule));
        let wanted: Vec<&Pattern> = patterns.iter().filter(|rule| rule.matches(&target)).collect();

        prop_assert_eq!(matches(&target, from).count(), wanted.len());
        let wanted = wanted.into_iter().min_by(|a, b| a.rank(b));
        let found = best(&target, from).map(std::ptr::from_ref);
        prop_assert_eq!(found, wanted.map(std::ptr::from_ref));
    }

    #[test]
    fn of_many_rules_few_are_looked_at(hosts in vec(any::<u32>(), 1000), target in target()) {
        let patterns: Vec<Pattern> = hosts
            .into_iter()
            .map(|host| Pattern {
                peer: Prefix::parse(&IpAddr::from(host.to_be_bytes()).to_string()),
                ..Pattern::default()
            })
            .collect();
        let rules = ordered(&patterns);
        let looks = Cell::new(0);
        let from = |at: &Key| {
            looks.set(looks.get() + 1);
            rules.range(*at..).next().map(|(key, rule)| (*key, *rule))
        };

        let _ = best(&target, from);
        prop_assert!(looks.get() <= 8, "{} looks", looks.get());
    }
}
