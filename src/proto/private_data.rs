// SPDX-License-Identifier: GPL-2.0

//! The message of both ends in the connection manager's private data (RFC 8797).
//!
//! | byte | content |
//! |---|---|
//! | 0..4 | identifier `f6 ab 0e 18` |
//! | 4 | version, 1 |
//! | 5 | bit 0: R, the sender takes remote invalidation; the other bits are sent as 0 and ignored |
//! | 6 | size code of the largest message that the sender can send |
//! | 7 | size code of the largest message that the sender can receive |
//!
//! It arrives before any authentication, so [`PrivateData::find`] takes any bytes and never
//! fails a connection: without a well-formed message the defaults hold.

/// An inline threshold as one byte can name it: a multiple of 1024, from 1024 to 262144 bytes
/// (RFC 8797, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InlineSize(u8);

impl InlineSize {
    /// The smallest size, in bytes; every peer can take that much.
    pub(crate) const MIN: u32 = 1024;

    /// The largest size, in bytes.
    pub(crate) const MAX: u32 = 262_144;

    /// The size of an end that announced none.
    pub(crate) const DEFAULT: Self = Self(0);

    /// The largest size that does not exceed `bytes`, clamped to [`InlineSize::MAX`].
    ///
    /// `None` below [`InlineSize::MIN`], which the protocol does not allow.
    pub(crate) fn from_bytes(bytes: u32) -> Option<Self> {
        let units = bytes.checked_div(Self::MIN)?;
        let code = units.checked_sub(1)?;
        Some(Self(u8::try_from(code).unwrap_or(u8::MAX)))
    }

    /// The size that the byte `code` on the wire stands for; every byte stands for one.
    pub(crate) const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// The byte on the wire.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The size in bytes.
    pub(crate) fn bytes(self) -> u32 {
        // NO-OVERFLOW: at most 256 * 1024.
        u32::from(self.0).wrapping_add(1).wrapping_mul(Self::MIN)
    }
}

/// The message of one end about itself when it connects or accepts (RFC 8797, section 4).
///
/// The default stands for a peer that sent no message (RFC 8797, section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrivateData {
    /// The largest message the sender of this will send.
    pub(crate) send: InlineSize,
    /// The largest message the sender of this can receive.
    pub(crate) receive: InlineSize,
    /// Every handle it exposes on this connection may be invalidated by the peer's Send.
    pub(crate) remote_invalidation: bool,
}

impl PrivateData {
    /// The length of the message, in bytes.
    pub(crate) const LEN: usize = 8;

    const VERSION: u8 = 1;
    const REMOTE_INVALIDATION: u8 = 0x01;

    /// The bytes of the message, for the front of the private data.
    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let flags = if self.remote_invalidation {
            Self::REMOTE_INVALIDATION
        } else {
            0
        };
        [
            0xf6,
            0xab,
            0x0e,
            0x18,
            Self::VERSION,
            flags,
            self.send.code(),
            self.receive.code(),
        ]
    }

    /// Finds the first well-formed message in `bytes`, at any offset.
    ///
    /// Other layers put bytes of their own before it and the connection manager pads behind it. A
    /// candidate of another version, or one that runs over the end, is no message and the search
    /// continues. `None`: use the default.
    pub(crate) fn find(bytes: &[u8]) -> Option<Self> {
        bytes.windows(Self::LEN).find_map(Self::decode)
    }

    /// The bytes of the message that [`PrivateData::find`] finds, with the flags that it ignores.
    pub(crate) fn locate(bytes: &[u8]) -> Option<[u8; Self::LEN]> {
        bytes
            .windows(Self::LEN)
            .find(|message| Self::decode(message).is_some())
            .and_then(|message| message.first_chunk().copied())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [0xf6, 0xab, 0x0e, 0x18, Self::VERSION, flags, send, receive] => Some(Self {
                send: InlineSize::from_code(send),
                receive: InlineSize::from_code(receive),
                remote_invalidation: flags & Self::REMOTE_INVALIDATION != 0,
            }),
            _ => None,
        }
    }
}

/// The inline thresholds of one connection, fixed for its life (RFC 8797, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// The largest message from the client to the server, in bytes.
    pub(crate) call: u32,
    /// The largest message from the server to the client, in bytes.
    pub(crate) reply: u32,
}

impl PrivateData {
    /// The sizes of an end of version 2 without private data: 4096 bytes (V2-22).
    pub(crate) fn of_version_2() -> Self {
        let size = InlineSize::from_bytes(4096).unwrap_or(InlineSize::DEFAULT);

        Self {
            send: size,
            receive: size,
            ..Self::default()
        }
    }
}

impl Thresholds {
    /// The thresholds as a client finds them: `own` is the message in its connect, `peer` the
    /// message in the server's accept.
    pub(crate) fn for_client(own: &PrivateData, peer: &PrivateData) -> Self {
        Self {
            call: own.send.min(peer.receive).bytes(),
            reply: own.receive.min(peer.send).bytes(),
        }
    }

    /// The thresholds as a server finds them: `own` is the message in its accept, `peer` the
    /// message in the client's connect.
    pub(crate) fn for_server(own: &PrivateData, peer: &PrivateData) -> Self {
        Self::for_client(peer, own)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_private_data))]
mod tests {
    use super::*;

    // TV-PD-1..3, PD-2, PD-4..PD-6, PD-8: both ways.
    #[test]
    fn messages() {
        let vectors = [
            (4096, 4096, true, [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]),
            (1024, 1024, false, [0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0]),
            (
                262_144,
                65536,
                true,
                [0xf6, 0xab, 0x0e, 0x18, 1, 1, 0xff, 0x3f],
            ),
        ];
        for (send, receive, remote_invalidation, bytes) in vectors {
            let message = message(send, receive, remote_invalidation);
            assert_eq!(message.map(|message| message.encode()), Some(bytes));
            assert_eq!(PrivateData::find(&bytes), message);
        }
    }

    // TV-PD-4, 5, 12: at any offset, with anything around it (PD-36, PD-37, PD-43).
    #[test]
    fn message_among_other_bytes() {
        let found = message(4096, 4096, true);
        assert!(found.is_some());
        let after3 = [0xaa, 0xbb, 0xcc, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        assert_eq!(PrivateData::find(&after3), found);
        let after16 = [
            0, 0, 0, 4, 1, 2, 3, 4, 0xf6, 0xab, 0x0e, 0x19, 0, 0, 0xf6, 0xab, 0xf6, 0xab, 0x0e,
            0x18, 1, 1, 3, 3,
        ];
        assert_eq!(PrivateData::find(&after16), found);
        let message = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        assert_eq!(PrivateData::locate(&after16), Some(message));
        let padded = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(PrivateData::find(&padded), found);

        // TV-PD-13: the same, truncated at the end.
        let (truncated, _) = after16.split_at(23);
        assert_eq!(PrivateData::find(truncated), None);
    }

    // TV-PD-6, PD-40, PD-41: no part of a message is one.
    #[test]
    fn truncated() {
        let bytes = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        for len in 0..bytes.len() {
            assert_eq!(bytes.get(..len).map(PrivateData::find), Some(None));
        }
        assert!(PrivateData::find(&bytes).is_some());
    }

    // TV-PD-7, 8, PD-38, PD-39: only version 1 is one we know.
    #[test]
    fn other_versions() {
        for version in 0..=u8::MAX {
            let bytes = [0xf6, 0xab, 0x0e, 0x18, version, 1, 3, 3];
            assert_eq!(PrivateData::find(&bytes).is_some(), version == 1);
        }
    }

    // TV-PD-9, 10, PD-7: of the flags only R is read.
    #[test]
    fn reserved_bits() {
        for flags in 0..=u8::MAX {
            let bytes = [0xf6, 0xab, 0x0e, 0x18, 1, flags, 3, 3];
            assert_eq!(
                PrivateData::find(&bytes),
                message(4096, 4096, flags & 1 == 1)
            );
            assert_eq!(PrivateData::locate(&bytes), Some(bytes));
        }
    }

    // TV-PD-11, PD-42: the first that passes both checks wins.
    #[test]
    fn several_candidates() {
        let second = [
            0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3, 0xf6, 0xab, 0x0e, 0x18, 1, 0, 7, 0,
        ];
        assert_eq!(PrivateData::find(&second), message(8192, 1024, false));
        let first = [
            0xf6, 0xab, 0x0e, 0x18, 1, 0, 7, 0, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3,
        ];
        assert_eq!(PrivateData::find(&first), message(8192, 1024, false));
    }

    // TV-PD-14, 15, PD-34, PD-35, PD-44, PD-52: no message, and the defaults.
    #[test]
    fn no_message() {
        assert_eq!(PrivateData::find(&[]), None);
        assert_eq!(PrivateData::find(&[0; 56]), None);
        assert_eq!(PrivateData::locate(&[0; 56]), None);
        assert_eq!(
            PrivateData::find(&[0x18, 0x0e, 0xab, 0xf6, 1, 1, 3, 3]),
            None
        );
        assert_eq!(message(1024, 1024, false), Some(PrivateData::default()));
        assert_eq!(InlineSize::DEFAULT, InlineSize::default());
        assert_eq!(InlineSize::DEFAULT.bytes(), 1024);
    }

    // PD-9..PD-12: sizes and their byte.
    #[test]
    fn sizes() {
        let sizes = [
            (0, None),
            (1, None),
            (1023, None),
            (1024, Some(0)),
            (1025, Some(0)),
            (2047, Some(0)),
            (2048, Some(1)),
            (4096, Some(3)),
            (261_120, Some(254)),
            (262_143, Some(254)),
            (262_144, Some(255)),
            (262_145, Some(255)),
            (u32::MAX, Some(255)),
        ];
        for (bytes, code) in sizes {
            assert_eq!(InlineSize::from_bytes(bytes).map(InlineSize::code), code);
        }
        for code in 0..=u8::MAX {
            let size = InlineSize::from_code(code);
            assert_eq!(size.code(), code);
            assert_eq!(size.bytes() % InlineSize::MIN, 0);
            assert_eq!(InlineSize::from_bytes(size.bytes()), Some(size));
        }
        assert_eq!(InlineSize::from_code(0).bytes(), InlineSize::MIN);
        assert_eq!(InlineSize::from_code(255).bytes(), InlineSize::MAX);
    }

    // PD-14..PD-16, PD-50: each direction is limited by its sender and its receiver.
    #[test]
    fn thresholds() {
        let client = message(8192, 2048, true).unwrap_or_default();
        let server = message(16384, 4096, false).unwrap_or_default();
        let expected = Thresholds {
            call: 4096,
            reply: 2048,
        };
        assert_eq!(Thresholds::for_client(&client, &server), expected);
        assert_eq!(Thresholds::for_server(&server, &client), expected);

        let swapped = Thresholds {
            call: 2048,
            reply: 4096,
        };
        assert_eq!(Thresholds::for_client(&server, &client), swapped);

        // PD-34: a peer that sends no message.
        let least = Thresholds {
            call: 1024,
            reply: 1024,
        };
        assert_eq!(
            Thresholds::for_client(&client, &PrivateData::default()),
            least
        );
    }

    fn message(send: u32, receive: u32, remote_invalidation: bool) -> Option<PrivateData> {
        Some(PrivateData {
            send: InlineSize::from_bytes(send)?,
            receive: InlineSize::from_bytes(receive)?,
            remote_invalidation,
        })
    }
}
