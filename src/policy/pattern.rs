// SPDX-License-Identifier: GPL-2.0

//! The connections that a rule is for. Pure.
//!
//! A rule matches a connection by its side, the peer's address, the server's port, the local device
//! and the network namespace. Of the rules that match, the most specific one applies
//! ([`Pattern::rank`]).

use core::{
    cmp::Ordering,
    net::IpAddr, //
};

use super::prefix::{
    mask,
    number,
    Prefix, //
};

/// The name of an RDMA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceName([u8; Self::MAX]);

impl DeviceName {
    /// The longest name, in bytes.
    pub(crate) const MAX: usize = 63;

    /// Reads a name: of printable characters, without a slash.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut name = [0; Self::MAX];
        let is_fit = |c: u8| c.is_ascii_graphic() && c != b'/';

        if text.is_empty() || !text.bytes().all(is_fit) {
            return None;
        }
        name.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self(name))
    }

    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&c| c == 0).unwrap_or(Self::MAX);
        self.0
            .get(..len)
            .and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or("")
    }
}

/// The end of a connection that this machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Side {
    /// It mounts.
    #[default]
    Client,
    /// It serves.
    Server,
}

impl Side {
    /// Reads `client` or `server`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "client" => Some(Self::Client),
            "server" => Some(Self::Server),
            _ => None,
        }
    }

    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The connections that a rule is for. A property that is `None` is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Our side. A rule that does not say is for the client's.
    pub(crate) side: Option<Side>,
    /// The address of the other end.
    pub(crate) peer: Option<Prefix>,
    /// The server's port.
    pub(crate) port: Option<u16>,
    /// The local device.
    pub(crate) device: Option<DeviceName>,
    /// The number of the network namespace, as in `/proc/self/ns/net`.
    pub(crate) netns: Option<u32>,
}

/// A connection before it is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    side: Side,
    /// The address of the other end, see [`number`].
    address: (u128, bool),
    port: u16,
    device: Option<&'a str>,
    netns: u32,
}

impl<'a> Target<'a> {
    /// A connection to the server at `address` and `port` over `device`, in the network namespace
    /// with the number `netns`. While the device is not known, every device matches.
    pub(crate) fn server(address: IpAddr, port: u16, device: Option<&'a str>, netns: u32) -> Self {
        Self {
            side: Side::Client,
            address: number(address),
            port,
            device,
            netns,
        }
    }

    /// A connection of the client at `address` to our `port`, likewise.
    pub(crate) fn client(address: IpAddr, port: u16, device: Option<&'a str>, netns: u32) -> Self {
        Self {
            side: Side::Server,
            ..Self::server(address, port, device, netns)
        }
    }

    /// Our side.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// The server's port, as a number that has room for others.
    pub(super) fn port(&self) -> u32 {
        self.port.into()
    }

    /// The number of the other end's network, if the last `wide` bits of its address do not count.
    pub(super) fn network(&self, wide: u8) -> u128 {
        self.address.0 & mask(wide)
    }
}

impl AsRef<Pattern> for Pattern {
    fn as_ref(&self) -> &Pattern {
        self
    }
}

impl Pattern {
    /// Returns `true` if a rule with this pattern is for the connection. A new rule, which names
    /// nothing yet, is for none.
    pub(crate) fn matches(&self, target: &Target<'_>) -> bool {
        // The address first: it rules out most of many rules.
        let peer = match self.peer {
            Some(peer) => peer.contains(target.address),
            None => self.port.is_some() || self.device.is_some() || self.netns.is_some(),
        };

        self.side.unwrap_or_default() == target.side
            && peer
            && self.port.is_none_or(|port| port == target.port)
            && self.netns.is_none_or(|netns| netns == target.netns)
            && match (&self.device, target.device) {
                (Some(name), Some(device)) => name.as_str() == device,
                _ => true,
            }
    }

    /// Orders patterns from the most specific one: by the length of the prefix, then by whether
    /// they name a port, a device, a namespace.
    pub(crate) fn rank(&self, other: &Self) -> Ordering {
        let key = |pattern: &Self| {
            (
                pattern.peer.map(|peer| peer.length),
                pattern.port.is_some(),
                pattern.device.is_some(),
                pattern.netns.is_some(),
            )
        };
        key(other).cmp(&key(self))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_policy_pattern))]
mod tests {
    use super::{
        super::order::{
            best,
            Key, //
        },
        *, //
    };

    fn pattern(peer: &str) -> Pattern {
        Pattern {
            peer: Prefix::parse(peer),
            ..Pattern::default()
        }
    }

    fn target(address: &str) -> Target<'static> {
        let address = address.parse().unwrap_or(IpAddr::from([0u8; 4]));
        Target::server(address, 20049, Some("rxe0"), 7)
    }

    /// The index in `rules` of the rule for `target`.
    fn chosen(rules: &[Pattern], target: &Target<'_>) -> Option<usize> {
        let places = || {
            rules
                .iter()
                .zip(0..)
                .map(|(rule, id)| (Key::new(rule, id), rule))
        };
        let from = |at: &Key| {
            places()
                .filter(|(key, _)| key >= at)
                .min_by_key(|(key, _)| *key)
        };
        let best = best(target, from)?;
        rules.iter().position(|rule| core::ptr::eq(rule, best))
    }

    #[test]
    fn a_prefix_contains_its_network_and_no_other() {
        for (prefix, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("192.0.2.0/31", "::ffff:192.0.2.1", "::ffff:192.0.2.2"),
            ("::ffff:192.0.2.0/120", "192.0.2.255", "192.0.3.0"),
        ] {
            assert!(pattern(prefix).matches(&target(inside)));
            assert!(!pattern(prefix).matches(&target(outside)));
        }
    }

    #[test]
    fn a_new_rule_matches_nothing() {
        assert!(!Pattern::default().matches(&target("192.0.2.1")));
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut rules = [
            pattern("192.0.0.0/16"),
            pattern("192.0.2.0/24"),
            pattern("192.0.2.1"),
            pattern("0.0.0.0/0"),
        ];
        for _ in 0..rules.len() {
            rules.rotate_left(1);
            for (address, prefix) in [
                ("192.0.2.1", "192.0.2.1"),
                ("192.0.2.2", "192.0.2.0/24"),
                ("192.0.3.1", "192.0.0.0/16"),
                ("10.0.0.1", "0.0.0.0/0"),
            ] {
                let winner = chosen(&rules, &target(address)).and_then(|i| rules.get(i));
                assert!(winner == Some(&pattern(prefix)));
            }
            assert!(chosen(&rules, &target("2001:db8::1")).is_none());
        }
    }

    #[test]
    fn other_properties_decide_between_equal_prefixes() {
        let net = pattern("192.0.2.0/24");
        let device = Pattern {
            device: DeviceName::parse("rxe0"),
            ..net
        };
        let port = Pattern {
            port: Some(20049),
            ..net
        };
        let netns = Pattern {
            netns: Some(7),
            ..net
        };
        let other = Pattern {
            netns: Some(8),
            ..port
        };
        let t = target("192.0.2.1");

        assert!(chosen(&[net, device, port, netns, other], &t) == Some(2));
        assert!(chosen(&[net, netns, device], &t) == Some(2));
        assert!(chosen(&[net, netns], &t) == Some(1));
        assert!(chosen(&[net, net], &t) == Some(0));
        assert!(chosen(&[other], &t).is_none());
    }

    #[test]
    fn a_device_matches_by_name_once_it_is_known() {
        let rule = Pattern {
            device: DeviceName::parse("rxe1"),
            ..Pattern::default()
        };
        let address = IpAddr::from([192, 0, 2, 1]);

        assert!(rule.matches(&Target::server(address, 0, Some("rxe1"), 0)));
        assert!(rule.matches(&Target::server(address, 0, None, 0)));
        assert!(!rule.matches(&Target::server(address, 0, Some("rxe"), 0)));
        assert!(!rule.matches(&Target::server(address, 0, Some("rxe10"), 0)));
    }

    #[test]
    fn a_rule_is_for_one_side() {
        let net = pattern("192.0.2.0/24");
        let of = |side| Pattern {
            side: Some(side),
            ..net
        };
        let address = IpAddr::from([192, 0, 2, 1]);
        let (server, client) = (
            Target::server(address, 20049, None, 7),
            Target::client(address, 20049, None, 7),
        );

        assert!(net.matches(&server) && !net.matches(&client));
        assert!(of(Side::Client).matches(&server) && !of(Side::Client).matches(&client));
        assert!(!of(Side::Server).matches(&server) && of(Side::Server).matches(&client));
        // A side alone is no connection.
        let side = Pattern {
            side: Some(Side::Server),
            ..Pattern::default()
        };
        assert!(!side.matches(&client));
        let rules = [pattern("192.0.2.1"), of(Side::Server)];
        assert!(chosen(&rules, &client) == Some(1) && chosen(&rules, &server) == Some(0));
    }

    #[test]
    fn device_names_have_limits() {
        let long = [b'a'; DeviceName::MAX + 1];
        let text = |len: usize| long.get(..len).and_then(|b| core::str::from_utf8(b).ok());

        assert!(text(DeviceName::MAX).and_then(DeviceName::parse).is_some());
        assert!(text(DeviceName::MAX + 1)
            .and_then(DeviceName::parse)
            .is_none());
        for name in ["", "rxe 0", "rxe/0", "rxe\n"] {
            assert!(DeviceName::parse(name).is_none());
        }
    }
}
