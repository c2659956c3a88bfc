// SPDX-License-Identifier: GPL-2.0

//! The four words in front of every message, which mean the same in all versions (RFC 8166,
//! sections 4.2 and 7).
//!
//! | word | meaning |
//! |---|---|
//! | 0 | the xid of the RPC message |
//! | 1 | the version of the protocol |
//! | 2 | credits, requested or granted |
//! | 3 | the type of the message, [`Proc`] |

use super::xdr::Reader;

/// The prefix of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The xid of the RPC message.
    pub(crate) xid: u32,
    /// The version; in an `RDMA_ERROR` the version of the rejected message.
    pub(crate) version: u32,
    /// Credits requested (call) or granted (reply), unchecked.
    pub(crate) credits: u32,
    /// The type word; see [`Proc::from_code`].
    pub(crate) code: u32,
}

impl Prefix {
    /// Takes the prefix from the front of `message`; `None` if that is shorter.
    #[inline(always)]
    pub(crate) fn decode(message: &mut Reader<'_>) -> Option<Self> {
        let [xid, version, credits, code] = message.words()?;
        Some(Self {
            xid,
            version,
            credits,
            code,
        })
    }
}

/// The type of a message, as far as all versions have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proc {
    /// The payload follows the header.
    Msg,
    /// The payload is in a chunk.
    NoMsg,
    /// A message could not be processed.
    Error,
}

impl Proc {
    /// The word on the wire.
    #[inline]
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Msg => 0,
            Self::NoMsg => 1,
            Self::Error => 4,
        }
    }

    /// The type that a word on the wire stands for; `None` for the reserved and the undefined ones.
    #[inline]
    pub(crate) const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Msg),
            1 => Some(Self::NoMsg),
            4 => Some(Self::Error),
            _ => None,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_prefix))]
mod tests {
    use super::super::vectors::*;
    use super::*;

    // V1-4, V1-15: four words, and nothing of a message that is shorter.
    #[test]
    fn prefixes() {
        let message = Message::new(&TV_V1_9);
        let expected = Prefix {
            xid: 0xa1b2_c306,
            version: 2,
            credits: 16,
            code: 4,
        };
        assert_eq!(
            Prefix::decode(&mut Reader::new(message.bytes())),
            Some(expected)
        );
        for len in 1..16 {
            let message = message.cut(len);
            assert_eq!(Prefix::decode(&mut Reader::new(message.bytes())), None);
        }
        assert_eq!(Prefix::decode(&mut Reader::new(&[])), None);
    }

    // V1-9: the types and their words.
    #[test]
    fn types() {
        for code in [2, 3, 5, 0x0100_0000, u32::MAX] {
            assert_eq!(Proc::from_code(code), None);
        }
        for proc in [Proc::Msg, Proc::NoMsg, Proc::Error] {
            assert_eq!(Proc::from_code(proc.code()), Some(proc));
        }
    }
}
