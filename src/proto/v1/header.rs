// SPDX-License-Identifier: GPL-2.0

//! The transport header of version 1, as received (RFC 8166, sections 4.2 and 4.5).
//!
//! A message is a [`Prefix`] and a body:
//!
//! | type | body |
//! |---|---|
//! | 0 `RDMA_MSG` | three chunk lists, then the RPC message |
//! | 1 `RDMA_NOMSG` | three chunk lists, one of them with the RPC message |
//! | 4 `RDMA_ERROR` | [`RdmaError`] |
//!
//! The types 2 and 3 are reserved, all others undefined. The version word of an `RDMA_ERROR`
//! repeats the rejected message's version word, so it is decoded with any value of that word.

use super::super::{
    chunk::ChunkLists,
    defect::Defect,
    error::RdmaError,
    prefix::{
        Prefix,
        Proc, //
    },
    xdr::Reader, //
};

/// The version of the protocol in every header we send.
pub(crate) const VERSION: u32 = 1;

/// Bytes of the smallest header with chunk lists.
pub(crate) const MIN_LEN: usize = 28;

/// The type word of `RDMA_DONE`, which no sender uses and every receiver drops silently (RFC 8166,
/// section 4.6.2).
const DONE: u32 = 3;

/// The reason why a received message has no [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// Too short for the words that every message has.
    NoPrefix,
    /// The version is not ours.
    Version {
        /// The xid of the message.
        xid: u32,
        /// The version word of the message.
        version: u32,
        /// The credits word of the message, unchecked.
        credits: u32,
    },
    /// The version is ours but the header is not well-formed.
    Defect {
        /// The xid of the message.
        xid: u32,
        /// The credits word of the message, unchecked.
        credits: u32,
        /// The defect.
        defect: Defect,
    },
    /// An `RDMA_ERROR` that is short or has an unknown code; it must be dropped silently (RFC
    /// 8166, section 4.5).
    UndecodableError {
        /// The xid of the message.
        xid: u32,
    },
}

/// The part of a message that depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// `RDMA_MSG`.
    Msg {
        /// The chunk lists.
        chunks: ChunkLists<'a>,
        /// The inline part of the RPC message.
        payload: &'a [u8],
    },
    /// `RDMA_NOMSG`.
    NoMsg {
        /// The chunk lists; at least one is not empty.
        chunks: ChunkLists<'a>,
    },
    /// `RDMA_ERROR`.
    Error(RdmaError),
}

/// A received message, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// The xid of the RPC message.
    pub(crate) xid: u32,
    /// The version; in an `RDMA_ERROR` the version of the rejected message.
    pub(crate) version: u32,
    /// Credits requested (call) or granted (reply), unchecked.
    pub(crate) credits: u32,
    /// The rest.
    pub(crate) body: Body<'a>,
}

impl<'a> Header<'a> {
    /// Takes `message` apart.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`].
    #[inline(always)]
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let Prefix {
            xid,
            version,
            credits,
            code,
        } = Prefix::decode(&mut reader).ok_or(DecodeError::NoPrefix)?;
        let rest = reader.rest();
        let proc = Proc::from_code(code);

        let body = if proc == Some(Proc::Error) {
            Body::Error(RdmaError::decode(rest).ok_or(DecodeError::UndecodableError { xid })?)
        } else if version != VERSION {
            return Err(DecodeError::Version {
                xid,
                version,
                credits,
            });
        } else {
            match Self::decode_lists(proc, code, rest) {
                Ok(body) => body,
                Err(defect) => {
                    return Err(DecodeError::Defect {
                        xid,
                        credits,
                        defect,
                    })
                }
            }
        };
        Ok(Self {
            xid,
            version,
            credits,
            body,
        })
    }

    #[inline(always)]
    fn decode_lists(proc: Option<Proc>, code: u32, rest: &'a [u8]) -> Result<Body<'a>, Defect> {
        let inline = match proc {
            Some(Proc::Msg) => true,
            Some(Proc::NoMsg) => false,
            _ if code == DONE => return Err(Defect::Done),
            _ => return Err(Defect::Type),
        };
        let (chunks, payload) = ChunkLists::decode(rest)?;
        if inline {
            Ok(Body::Msg { chunks, payload })
        } else if chunks.is_empty() {
            Err(Defect::NoLists)
        } else {
            Ok(Body::NoMsg { chunks })
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_header))]
mod tests {
    use super::super::super::vectors::*;
    use super::*;

    // TV-V1-1, 2, V1-4, V1-10: prefix, empty lists, payload.
    #[test]
    fn msg() {
        let message = Message::new(&TV_V1_1);
        let header = Header::decode(message.bytes());
        let expected = Header {
            xid: 0xa1b2_c301,
            version: 1,
            credits: 32,
            body: Body::Msg {
                chunks: ChunkLists::default(),
                payload: message.bytes().get(28..).unwrap_or_default(),
            },
        };
        assert_eq!(header, Ok(expected));
        assert_eq!(payload(&Message::new(&TV_V1_2)), Some(24));
    }

    // TV-V1-3..6: with chunk lists, all bytes behind them are payload.
    #[test]
    fn msg_with_chunks() {
        assert_eq!(payload(&Message::new(&TV_V1_3)), Some(132));
        assert_eq!(payload(&Message::new(&TV_V1_4)), Some(40));
        assert_eq!(payload(&Message::new(&TV_V1_5)), Some(24));
        assert_eq!(payload(&Message::new(&TV_V1_6)), Some(40));
    }

    // TV-V1-7, 8, V1-11, V1-16: no payload, with any bytes behind the lists.
    #[test]
    fn nomsg() {
        for words in [TV_V1_7.as_slice(), TV_V1_8.as_slice()] {
            let header = Message::new(words);
            let longer = Message::new(words.iter().chain(&[0xdead_beef]));
            for message in [header, longer] {
                let decoded = Header::decode(message.bytes());
                assert!(matches!(
                    decoded,
                    Ok(Header {
                        xid: 0xa1b2_c305,
                        body: Body::NoMsg { .. },
                        ..
                    })
                ));
            }
        }
    }

    // TV-V1-9, 10, V1-12, V1-16, V1-104: errors, of any version and with anything behind.
    #[test]
    fn errors() {
        let version = RdmaError::Version { low: 1, high: 1 };
        let longer = Message::new(TV_V1_9.iter().chain(&[0xdead_beef]));
        assert_eq!(error(&Message::new(&TV_V1_9)), Ok((2, version)));
        assert_eq!(error(&longer), Ok((2, version)));
        assert_eq!(
            error(&Message::new(&TV_V1_9).put(4, u32::MAX)),
            Ok((u32::MAX, version))
        );

        let longer = Message::new(TV_V1_10.iter().chain(&[1, 2, 3]));
        assert_eq!(
            error(&Message::new(&TV_V1_10)),
            Ok((1, RdmaError::BadHeader))
        );
        assert_eq!(error(&longer), Ok((1, RdmaError::BadHeader)));
    }

    // TV-M-18..20, V1-15, V1-105: undecodable errors, at every length and with every other code.
    #[test]
    fn undecodable_errors() {
        let version = Message::new(&TV_V1_9);
        let undecodable = |xid| Err(DecodeError::UndecodableError { xid });
        for len in 16..28 {
            assert_eq!(error(&version.cut(len)), undecodable(0xa1b2_c306));
        }
        let bad_header = Message::new(&TV_V1_10);
        for len in 16..20 {
            assert_eq!(error(&bad_header.cut(len)), undecodable(0xa1b2_c307));
        }
        for code in [0, 3, 9, 0x0200_0000, u32::MAX] {
            let message = bad_header.put(16, code);
            assert_eq!(error(&message), undecodable(0xa1b2_c307));
        }
    }

    // TV-M-1, 2, V1-15: too short for a prefix, too short for the lists.
    #[test]
    fn short() {
        let message = Message::new(&TV_V1_1);
        for len in 1..16 {
            assert_eq!(failure(&message.cut(len)), Some(DecodeError::NoPrefix));
        }
        assert_eq!(Header::decode(&[]), Err(DecodeError::NoPrefix));
        for len in 16..28 {
            assert_eq!(failure(&message.cut(len)), malformed(Defect::Truncated));
        }
        assert_eq!(payload(&message.cut(28)), Some(0));
    }

    // TV-M-3, V1-8: any other version, in any type but RDMA_ERROR.
    #[test]
    fn versions() {
        for version in [0, 2, 0x0100_0000, u32::MAX] {
            for code in [0, 1, 2, 3, 5, u32::MAX] {
                let message = Message::new(&TV_V1_1).put(4, version).put(12, code);
                let expected = DecodeError::Version {
                    xid: 0xa1b2_c301,
                    version,
                    credits: 32,
                };
                assert_eq!(failure(&message), Some(expected));
            }
        }
    }

    // TV-M-4, 5, V1-9: reserved and undefined types.
    #[test]
    fn types() {
        for code in [2, 5, 0x0100_0000, u32::MAX] {
            let message = Message::new(&TV_V1_1).put(12, code);
            assert_eq!(failure(&message), malformed(Defect::Type));
        }
        let message = Message::new(&TV_V1_1).put(12, 3);
        assert_eq!(failure(&message), malformed(Defect::Done));
    }

    // TV-M-6, 7, 11: RDMA_NOMSG without lists, optional data, count.
    #[test]
    fn lists() {
        let call = Message::new(&TV_V1_1);
        assert_eq!(failure(&call.put(12, 1)), malformed(Defect::NoLists));
        assert_eq!(failure(&call.put(16, 2)), malformed(Defect::OptionalData));
        let write = Message::new(&TV_V1_4).put(24, 0x0fff_ffff);
        assert!(matches!(
            failure(&write),
            Some(DecodeError::Defect {
                xid: 0xa1b2_c303,
                credits: 32,
                defect: Defect::Truncated
            })
        ));
    }

    fn payload(message: &Message) -> Option<usize> {
        match Header::decode(message.bytes()).ok()?.body {
            Body::Msg { payload, .. } => Some(payload.len()),
            _ => None,
        }
    }

    fn error(message: &Message) -> Result<(u32, RdmaError), DecodeError> {
        let header = Header::decode(message.bytes())?;
        match header.body {
            Body::Error(error) => Ok((header.version, error)),
            _ => Err(DecodeError::NoPrefix),
        }
    }

    fn failure(message: &Message) -> Option<DecodeError> {
        Header::decode(message.bytes()).err()
    }

    // The defect of a spoiled TV-V1-1.
    fn malformed(defect: Defect) -> Option<DecodeError> {
        Some(DecodeError::Defect {
            xid: 0xa1b2_c301,
            credits: 32,
            defect,
        })
    }
}
