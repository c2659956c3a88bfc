// SPDX-License-Identifier: GPL-2.0

//! The settings of a connection: those that a rule has, and the policy that follows from them and
//! the defaults. Pure.

use super::super::proto::{
    InlineSize,
    PrivateData,
    Versions, //
};

/// The range of the credits to request.
pub(crate) const CREDITS: core::ops::RangeInclusive<u32> = 4..=16384;

/// The range of the memory for the buffers of a connection, in KiB.
pub(crate) const MEMORY: core::ops::RangeInclusive<u32> = 256..=1_048_576;

/// The range of the most connections of clients.
pub(crate) const CONNECTIONS: core::ops::RangeInclusive<u32> = 0..=65536;

/// The policy of remote invalidation (RFC 8797, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteInvalidation {
    /// The server must not invalidate registrations.
    Off,
    /// The server may, even if its own private data does not have R set.
    On,
    /// The server may if its own private data has R set, too.
    Strict,
}

impl RemoteInvalidation {
    /// Reads `off`, `on` or `strict`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "off" | "0" => Some(Self::Off),
            "on" | "1" => Some(Self::On),
            "strict" | "2" => Some(Self::Strict),
            _ => None,
        }
    }

    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
        }
    }
}

/// The settings of a rule; `None` leaves it to the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The largest message to send without RDMA.
    pub(crate) inline_send: Option<InlineSize>,
    /// The largest message to receive without RDMA.
    pub(crate) inline_receive: Option<InlineSize>,
    /// The policy of remote invalidation.
    pub(crate) remote_invalidation: Option<RemoteInvalidation>,
    /// The calls that may be outstanding.
    pub(crate) credits: Option<u32>,
    /// Set to send private data.
    pub(crate) private_data: Option<bool>,
    /// Set to let the server call back on the connection.
    pub(crate) reverse: Option<bool>,
    /// The most that the buffers of the connection may take, in KiB.
    pub(crate) memory: Option<u32>,
    /// The most connections of clients that the rule may be for at a time.
    pub(crate) connections: Option<u32>,
    /// The versions of the protocol.
    pub(crate) version: Option<Versions>,
    /// The largest message without RDMA that a connection in use may be raised to.
    pub(crate) inline_max: Option<InlineSize>,
}

impl Settings {
    /// Returns `true` if they demand version 2 and exclude what it needs (V2-63).
    pub(crate) fn contradict(&self) -> bool {
        let is_small = |size: InlineSize| self.version_with(size) == Some(Versions::One);

        self.version == Some(Versions::Two)
            && (self.private_data == Some(false) || self.inline_receive.is_some_and(is_small))
    }

    fn version_with(&self, receive: InlineSize) -> Option<Versions> {
        Some(self.version?.with_receives(receive.bytes()))
    }
}

/// The policy of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The largest message to send without RDMA.
    pub(crate) inline_send: InlineSize,
    /// The largest message to receive without RDMA.
    pub(crate) inline_receive: InlineSize,
    /// The policy of remote invalidation.
    pub(crate) remote_invalidation: RemoteInvalidation,
    /// The calls that may be outstanding.
    pub(crate) credits: u32,
    /// Set to send private data.
    pub(crate) private_data: bool,
    /// Set to let the server call back on the connection.
    pub(crate) reverse: bool,
    /// The most that the buffers of the connection may take, in KiB.
    pub(crate) memory: u32,
    /// The most connections of clients that have this policy at a time.
    pub(crate) connections: u32,
    /// The versions of the protocol.
    pub(crate) version: Versions,
    /// The largest message without RDMA that a connection in use may be raised to, in either
    /// direction; smaller than the sizes above it permits no change.
    pub(crate) inline_max: InlineSize,
}

impl Policy {
    /// This policy, overridden by `settings`.
    pub(crate) fn with(self, settings: &Settings) -> Self {
        let s = settings;

        Self {
            inline_send: s.inline_send.unwrap_or(self.inline_send),
            inline_receive: s.inline_receive.unwrap_or(self.inline_receive),
            remote_invalidation: s.remote_invalidation.unwrap_or(self.remote_invalidation),
            credits: s.credits.unwrap_or(self.credits),
            private_data: s.private_data.unwrap_or(self.private_data),
            reverse: s.reverse.unwrap_or(self.reverse),
            memory: s.memory.unwrap_or(self.memory),
            connections: s.connections.unwrap_or(self.connections),
            version: s.version.unwrap_or(self.version),
            inline_max: s.inline_max.unwrap_or(self.inline_max),
        }
    }

    /// The peer's knowledge of us: our private data, or the default of a peer that sends none
    /// (RFC 8797, section 5.1).
    pub(crate) fn own(&self) -> PrivateData {
        if self.private_data {
            PrivateData {
                send: self.inline_send,
                receive: self.inline_receive,
                remote_invalidation: self.remote_invalidation != RemoteInvalidation::Off,
            }
        } else {
            PrivateData::default()
        }
    }

    /// The largest size that buffers of `size` bytes may be raised to while the connection is in
    /// use.
    pub(crate) fn most(&self, size: u32) -> u32 {
        self.inline_max.bytes().max(size)
    }

    /// The versions that connections use: version 2 needs Receives of 4096 bytes (V2-63).
    pub(crate) fn versions(&self) -> Versions {
        self.version.with_receives(self.own().receive.bytes())
    }

    /// Returns `true` if version 2 is permitted, and its Receives are not (V2-63).
    pub(crate) fn lacks_version_2(&self) -> bool {
        self.version != Versions::One && self.versions() == Versions::One
    }

    /// Returns `true` if the server may invalidate registrations, given its private data.
    pub(crate) fn takes_invalidation(&self, peer: &PrivateData) -> bool {
        self.own().remote_invalidation
            && (self.remote_invalidation != RemoteInvalidation::Strict || peer.remote_invalidation)
    }
}

/// Reads a switch: `1`, `0`, or words for them.
pub(crate) fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "1" | "on" | "yes" | "y" => Some(true),
        "0" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_policy_settings))]
mod tests {
    use super::*;

    fn defaults() -> Policy {
        Policy {
            inline_send: InlineSize::from_bytes(4096).unwrap_or_default(),
            inline_receive: InlineSize::from_bytes(8192).unwrap_or_default(),
            remote_invalidation: RemoteInvalidation::On,
            credits: 128,
            private_data: true,
            reverse: true,
            memory: 1024,
            connections: 7,
            version: Versions::Auto,
            inline_max: InlineSize::DEFAULT,
        }
    }

    #[test]
    fn a_rule_changes_its_own_settings_and_no_more() {
        let settings = Settings {
            inline_send: InlineSize::from_bytes(1024),
            credits: Some(4),
            ..Settings::default()
        };
        let expected = Policy {
            inline_send: InlineSize::DEFAULT,
            credits: 4,
            ..defaults()
        };

        assert!(defaults().with(&Settings::default()) == defaults());
        assert!(defaults().with(&settings) == expected);
    }

    // PD-1: without private data both ends use the defaults.
    #[test]
    fn without_private_data_the_defaults_of_the_protocol_hold() {
        let silent = Policy {
            private_data: false,
            ..defaults()
        };

        assert!(silent.own() == PrivateData::default());
        assert!(!silent.takes_invalidation(&PrivateData {
            remote_invalidation: true,
            ..PrivateData::default()
        }));
    }

    // V2-63: small Receives permit version 1 alone.
    #[test]
    fn version_2_needs_receives_of_4096_bytes() {
        assert!(defaults().versions() == Versions::Auto);
        let silent = Policy {
            private_data: false,
            ..defaults()
        };
        let small = Policy {
            inline_receive: InlineSize::DEFAULT,
            ..defaults()
        };

        assert!(silent.versions() == Versions::One && small.versions() == Versions::One);
        assert!(silent.lacks_version_2() && !defaults().lacks_version_2());
    }

    // V2-63: a rule that demands version 2 excludes nothing that it needs.
    #[test]
    fn contradictions() {
        let size = InlineSize::from_bytes;
        for (version, inline_receive, private_data, contradict) in [
            (Some(Versions::Two), None, None, false),
            (Some(Versions::Two), size(4096), Some(true), false),
            (Some(Versions::Two), size(3072), None, true),
            (Some(Versions::Two), None, Some(false), true),
            (Some(Versions::Auto), size(1024), Some(false), false),
            (None, size(1024), Some(false), false),
        ] {
            let settings = Settings {
                version,
                inline_receive,
                private_data,
                ..Settings::default()
            };
            assert_eq!(settings.contradict(), contradict);
        }
    }

    #[test]
    fn strict_takes_invalidation_only_from_a_peer_that_takes_it_too() {
        let says = |remote_invalidation| PrivateData {
            remote_invalidation,
            ..PrivateData::default()
        };
        for (setting, from_clear, from_set) in [
            (RemoteInvalidation::Off, false, false),
            (RemoteInvalidation::On, true, true),
            (RemoteInvalidation::Strict, false, true),
        ] {
            let policy = Policy {
                remote_invalidation: setting,
                ..defaults()
            };
            assert!(policy.takes_invalidation(&says(false)) == from_clear);
            assert!(policy.takes_invalidation(&says(true)) == from_set);
            assert!(policy.own().remote_invalidation == (setting != RemoteInvalidation::Off));
        }
    }
}
