// SPDX-License-Identifier: GPL-2.0

//! A change of a connection in use that the administrator requests: `receive-size=65536` or
//! `peer-receive-size=65536`. Pure.

use super::{
    super::proto::{
        exchange::{
            Exchange,
            NotAsked, //
        },
        InlineSize, //
    },
    prefix::decimal, //
};

/// The reason why a change is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The peer does not support it.
    Unsupported,
    /// Only the peer may request it.
    OnlyThePeer,
    /// No end may have that size.
    Size,
    /// An earlier change is not over.
    UnderWay,
}

/// A change of a connection of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The own Receives are to have this size.
    Receive(InlineSize),
    /// The Receives of the peer are to have this size.
    PeerReceive(InlineSize),
}

impl Change {
    /// Reads a change, with a size in bytes, 1024 to 262144, which is rounded down to a multiple of
    /// 1024.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let size = |value| {
            let bytes = decimal(value)?;
            let is_valid = (InlineSize::MIN..=InlineSize::MAX).contains(&bytes);
            is_valid.then(|| InlineSize::from_bytes(bytes)).flatten()
        };

        match text.strip_prefix("receive-size=") {
            Some(value) => size(value).map(Self::Receive),
            None => size(text.strip_prefix("peer-receive-size=")?).map(Self::PeerReceive),
        }
    }

    /// Requests the change; it takes effect as messages come.
    ///
    /// # Errors
    ///
    /// The reason why it never will.
    pub(crate) fn request(self, exchange: &mut Exchange) -> Result<(), Refusal> {
        match self {
            Self::Receive(size) => {
                let (now, to) = (exchange.in_force().0, size.bytes());
                if to < now {
                    return Err(Refusal::OnlyThePeer);
                }
                if to == now || exchange.grow(to) {
                    Ok(())
                } else {
                    Err(Refusal::UnderWay)
                }
            }
            Self::PeerReceive(size) => {
                exchange.ask(size.bytes()).map_err(|why| match why {
                    NotAsked::Unsupported | NotAsked::Fixed => Refusal::Unsupported,
                    NotAsked::TooSmall => Refusal::Size,
                    NotAsked::ServerShrinks => Refusal::OnlyThePeer,
                })?;
                exchange.permit_sends(0, size.bytes());
                Ok(())
            }
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_policy_change))]
mod tests {
    use super::{
        super::super::proto::exchange::{
            Own,
            Setup,
            Side, //
        },
        *, //
    };

    fn size(bytes: u32) -> InlineSize {
        InlineSize::from_bytes(bytes).unwrap_or_default()
    }

    fn exchange(side: Side) -> Exchange {
        let setup = Setup {
            side,
            requested: 32,
            told: 8192,
            buffers: 4096,
            receive: 8192,
            reply: 4096,
            max: 8192,
        };
        let own = Own {
            invalidation: true,
            reverse: true,
        };
        Exchange::new(&setup, own, 32)
    }

    // XC-71, XC-93: no end makes its own Receives smaller, and a server asks for no smaller ones.
    #[test]
    fn requests() {
        for (side, change, expected) in [
            (Side::Client, Change::Receive(size(8192)), Ok(())),
            (Side::Client, Change::Receive(size(16384)), Ok(())),
            (
                Side::Server,
                Change::Receive(size(4096)),
                Err(Refusal::OnlyThePeer),
            ),
            (Side::Client, Change::PeerReceive(size(4096)), Ok(())),
            (Side::Server, Change::PeerReceive(size(16384)), Ok(())),
            (
                Side::Server,
                Change::PeerReceive(size(4096)),
                Err(Refusal::OnlyThePeer),
            ),
            (
                Side::Client,
                Change::PeerReceive(size(1024)),
                Err(Refusal::Size),
            ),
        ] {
            assert_eq!(change.request(&mut exchange(side)), expected);
        }
    }

    // XC-90: one growth at a time; the Send buffers follow the peer's size.
    #[test]
    fn effects() {
        let mut client = exchange(Side::Client);
        let (large, larger) = (Change::Receive(size(16384)), Change::Receive(size(65536)));
        assert_eq!(large.request(&mut client), Ok(()));
        assert_eq!(client.posts(), 16384);
        assert_eq!(larger.request(&mut client), Err(Refusal::UnderWay));

        assert_eq!(client.sends(), 4096);
        let peer = Change::PeerReceive(size(16384));
        assert_eq!(peer.request(&mut client), Ok(()));
        assert_eq!((client.sends(), client.requested()), (8192, Some(16384)));
    }

    #[test]
    fn texts() {
        for (text, change) in [
            ("receive-size=65536", Some(Change::Receive(size(65536)))),
            ("receive-size=66000", Some(Change::Receive(size(65536)))),
            (
                "peer-receive-size=65536",
                Some(Change::PeerReceive(size(65536))),
            ),
            ("receive-size", None),
            ("receive-size=", None),
            ("receive-size=1023", None),
            ("receive-size=262145", None),
            ("receive-size=4294971392", None),
            ("receive-size=-4096", None),
            ("receive-size=4096 ", None),
            ("receive_size=4096", None),
            ("=4096", None),
            ("", None),
        ] {
            assert_eq!(Change::parse(text), change);
        }
    }
}
