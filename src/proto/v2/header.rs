// SPDX-License-Identifier: GPL-2.0

//! The transport header of version 2, as received (v2-01 sections 3 and 4.2).
//!
//! A message is a [`Prefix`] and a body:
//!
//! | type | body |
//! |---|---|
//! | 0 `RDMA2_MSG` | direction, three chunk lists, then the RPC message |
//! | 1 `RDMA2_NOMSG` | direction, three chunk lists, one of them with the RPC message |
//! | 4 `RDMA2_ERROR` | 1 `ERR_VERS` with two versions, 2 `BAD_HEADER` or 3 `INVAL_OPTION` |
//! | 5 `RDMA2_OPTIONAL` | direction, operation, `rdma_optinfo` (length first), perhaps a payload |
//!
//! An error has no direction word: the layout of `ERR_VERS` is the same in all versions, and errors
//! are sent to requesters alone (V2-39, V2-40). Its version word repeats the rejected message's
//! version word, or is the peer's own, so it is decoded with any value of that word (V2-13).

use super::{
    super::{
        chunk::ChunkLists,
        defect,
        error::RdmaError,
        neutral::{
            Direction,
            Rejection, //
        },
        prefix::{
            Prefix,
            Proc, //
        },
        xdr::Reader, //
    },
    defect::Defect, //
};

/// The version of the protocol in every header of this text.
pub(crate) const VERSION: u32 = 2;

/// Bytes of the smallest header with chunk lists.
pub(crate) const MIN_LEN: usize = 32;

/// Bytes in front of `rdma_optinfo`.
pub(crate) const OPTIONAL_LEN: usize = 28;

/// The type word of `RDMA2_OPTIONAL`.
pub(crate) const OPTIONAL: u32 = 5;

/// The code word of `INVAL_OPTION` in an `RDMA2_ERROR`.
pub(crate) const INVAL_OPTION: u32 = 3;

/// The reason why a received message has no [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// Too short for the words that every message has.
    NoPrefix,
    /// The version word is not 2.
    Version {
        /// The xid of the message.
        xid: u32,
        /// The version word of the message.
        version: u32,
        /// The credits word of the message, unchecked.
        credits: u32,
    },
    /// The version word is 2, the type one that this text does not have (V2-30, V2-70).
    Type {
        /// The xid of the message.
        xid: u32,
        /// The type word.
        code: u32,
    },
    /// The header is not well-formed.
    Defect {
        /// The xid of the message.
        xid: u32,
        /// The direction, if that much can be read.
        direction: Option<Direction>,
        /// The message is an `RDMA2_OPTIONAL`, so its xid belongs to no RPC message.
        optional: bool,
        /// The defect.
        defect: Defect,
    },
    /// An `RDMA2_ERROR` that ends inside its body (V2-50).
    ShortError {
        /// The xid of the message.
        xid: u32,
    },
    /// An `RDMA2_ERROR` with a code that this text does not have (V2-50, V2-69).
    UnknownError {
        /// The xid of the message.
        xid: u32,
        /// The code.
        code: u32,
    },
}

/// The part of a message that depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// `RDMA2_MSG`.
    Msg {
        /// The direction word.
        direction: Direction,
        /// The chunk lists.
        chunks: ChunkLists<'a>,
        /// The inline part of the RPC message.
        payload: &'a [u8],
    },
    /// `RDMA2_NOMSG`; bytes behind the lists are ignored (V2-37).
    NoMsg {
        /// The direction word.
        direction: Direction,
        /// The chunk lists; at least one is not empty.
        chunks: ChunkLists<'a>,
    },
    /// `RDMA2_ERROR`.
    Error(Rejection),
    /// `RDMA2_OPTIONAL`. The operation alone gives the bytes a meaning (V2-46).
    Optional {
        /// The direction word.
        direction: Direction,
        /// The operation.
        operation: u32,
        /// `rdma_optinfo`.
        info: &'a [u8],
        /// The bytes behind it (V2-38).
        payload: &'a [u8],
    },
}

/// A received message, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// The xid of the RPC message or the operation.
    pub(crate) xid: u32,
    /// The version: 2, in an error any.
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
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let Prefix {
            xid,
            version,
            credits,
            code,
        } = Prefix::decode(&mut reader).ok_or(DecodeError::NoPrefix)?;
        let proc = Proc::from_code(code);

        let body = if proc == Some(Proc::Error) {
            Body::Error(error(xid, reader.rest())?)
        } else if version != VERSION {
            return Err(DecodeError::Version {
                xid,
                version,
                credits,
            });
        } else if proc.is_none() && code != OPTIONAL {
            return Err(DecodeError::Type { xid, code });
        } else {
            let defective = |direction, defect| DecodeError::Defect {
                xid,
                direction,
                optional: proc.is_none(),
                defect,
            };
            let direction = direction(&mut reader).map_err(|defect| defective(None, defect))?;
            directed(proc, direction, reader)
                .map_err(|defect| defective(Some(direction), defect))?
        };
        Ok(Self {
            xid,
            version,
            credits,
            body,
        })
    }
}

/// Takes the direction word.
fn direction(message: &mut Reader<'_>) -> Result<Direction, Defect> {
    match message.word() {
        Some(0) => Ok(Direction::Call),
        Some(1) => Ok(Direction::Reply),
        Some(_) => Err(Defect::DirectionWord),
        None => Err(Defect::Common(defect::Defect::Truncated)),
    }
}

/// Takes apart what follows the direction word.
fn directed<'a>(
    proc: Option<Proc>,
    direction: Direction,
    mut message: Reader<'a>,
) -> Result<Body<'a>, Defect> {
    if proc.is_none() {
        let truncated = defect::Defect::Truncated;
        let operation = message.word().ok_or(truncated)?;
        // The length is checked before anything looks at the operation (V2-47).
        let info = message.opaque().ok_or(truncated)?;
        return Ok(Body::Optional {
            direction,
            operation,
            info,
            payload: message.rest(),
        });
    }
    let (chunks, payload) = ChunkLists::decode(message.rest())?;
    if proc == Some(Proc::Msg) {
        Ok(Body::Msg {
            direction,
            chunks,
            payload,
        })
    } else if chunks.is_empty() {
        Err(Defect::Common(defect::Defect::NoLists))
    } else {
        Ok(Body::NoMsg { direction, chunks })
    }
}

/// Reads the body of an error. Bytes behind it are ignored.
fn error(xid: u32, body: &[u8]) -> Result<Rejection, DecodeError> {
    if let Some(error) = RdmaError::decode(body) {
        return Ok(error.into());
    }
    match Reader::new(body).word() {
        Some(INVAL_OPTION) => Ok(Rejection::InvalidOption),
        // `ERR_VERS` without both bounds.
        None | Some(1) => Err(DecodeError::ShortError { xid }),
        Some(code) => Err(DecodeError::UnknownError { xid, code }),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_header))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // TV-V2-1, 2, 7, V2-31, V2-32, V2-35: prefix, direction, empty lists, payload.
    #[test]
    fn msg() {
        for (words, xid, credits, direction) in [
            (TV_V2_1.as_slice(), 0xb200_0001, 32, Direction::Call),
            (TV_V2_2.as_slice(), 0xb200_0001, 16, Direction::Reply),
            (TV_V2_7.as_slice(), 0x31, 2, Direction::Call),
        ] {
            let message = Message::new(words);
            let expected = Header {
                xid,
                version: 2,
                credits,
                body: Body::Msg {
                    direction,
                    chunks: ChunkLists::default(),
                    payload: message.bytes().get(32..).unwrap_or_default(),
                },
            };
            assert_eq!(Header::decode(message.bytes()), Ok(expected));
        }
    }

    // TV-V2-5, 6, V2-37, V2-54: the lists are as in version 1.
    #[test]
    fn chunks() {
        let long = Message::new(TV_V2_5.iter().chain(&[0xdead_beef]));
        let read = match body(&long) {
            Ok(Body::NoMsg {
                direction: Direction::Call,
                chunks,
            }) => chunks.read.segments().next(),
            _ => None,
        };
        let read = read.unwrap_or_default();
        assert_eq!(read.position, 0);
        assert_eq!(read.segment, segment(0x2101, 1400, 0x10000));

        let reply = Message::new(&TV_V2_6);
        let (written, payload) = match body(&reply) {
            Ok(Body::Msg {
                direction: Direction::Reply,
                chunks,
                payload,
            }) => (
                chunks.write.chunks().next().unwrap_or_default(),
                payload.len(),
            ),
            _ => Default::default(),
        };
        let written = written.segments().next();
        assert_eq!(written, Some(segment(0x2102, 8192, 0x20000)));
        assert_eq!(payload, 24);
    }

    // TV-V2-3, 4, TV-V1-9, 10, V2-13, V2-29, V2-36, V2-40, V2-49: errors of any version, with
    // anything behind them.
    #[test]
    fn errors() {
        let versions = Rejection::Version { low: 1, high: 1 };
        for (words, version, rejection) in [
            (TV_V2_3.as_slice(), 2, Rejection::InvalidOption),
            (TV_V2_4.as_slice(), 1, versions),
            (TV_V1_9.as_slice(), 2, versions),
            (TV_V1_10.as_slice(), 1, Rejection::BadHeader),
        ] {
            let message = Message::new(words.iter().chain(&[0, 1, 2]));
            let header = Header::decode(message.bytes());
            let found = header.map(|header| (header.version, header.body));
            assert_eq!(found, Ok((version, Body::Error(rejection))));
            let message = Message::new(words).put(4, u32::MAX);
            assert_eq!(body(&message), Ok(Body::Error(rejection)));
        }
    }

    // TV-M-20, V2-50, V2-58: errors at every length, and of every other code.
    #[test]
    fn undecodable_errors() {
        let short = |xid| Err(DecodeError::ShortError { xid });
        for len in 16..28 {
            assert_eq!(body(&Message::new(&TV_V2_4).cut(len)), short(0xb200_0001));
        }
        for len in 16..20 {
            assert_eq!(body(&Message::new(&TV_V2_3).cut(len)), short(0xb200_0002));
        }
        for code in [0, 4, 9, 100, 0x0300_0000, u32::MAX] {
            let xid = 0xb200_0002;
            let message = Message::new(&TV_V2_3).put(16, code);
            assert_eq!(body(&message), Err(DecodeError::UnknownError { xid, code }));
        }
    }

    // TV-XC-1, V2-38, V2-46: an operation is bytes, and so is what follows it.
    #[test]
    fn optional() {
        let message = Message::new(TV_XC_1.iter().chain(&[7]));
        let expected = Body::Optional {
            direction: Direction::Call,
            operation: 1,
            info: message.bytes().get(28..76).unwrap_or_default(),
            payload: &[0, 0, 0, 7],
        };
        assert_eq!(body(&message), Ok(expected));
        let expected = Body::Optional {
            direction: Direction::Reply,
            operation: 0x63,
            info: message.bytes().get(28..33).unwrap_or_default(),
            payload: message.bytes().get(36..).unwrap_or_default(),
        };
        let message = message.put(16, 1).put(20, 0x63).put(24, 5);
        assert_eq!(body(&message), Ok(expected));
    }

    // TV-M-25, V2-47, V2-58, XC-4: lengths of `rdma_optinfo`, for any operation.
    #[test]
    fn optional_lengths() {
        for operation in [1, 99] {
            let message = Message::new(&TV_XC_1).put(20, operation);
            for len in 0..=48 {
                assert!(body(&message.put(24, len)).is_ok());
            }
            for len in [49, 52, 0x1000, 0x7fff_ffff, 0xffff_fffd, u32::MAX] {
                let message = message.put(24, len);
                assert_eq!(body(&message), defective(Direction::Call, true));
            }
            for len in 20..28 {
                let message = message.cut(len);
                assert_eq!(body(&message), defective(Direction::Call, true));
            }
        }
    }

    // V2-58, V1-15: too short for a prefix, for a direction, for the lists.
    #[test]
    fn short() {
        let message = Message::new(&TV_V2_2).put(0, 0xb200_0003);
        for len in 1..16 {
            assert_eq!(body(&message.cut(len)), Err(DecodeError::NoPrefix));
        }
        for (message, optional) in [(message, false), (message.put(12, 5), true)] {
            for len in 16..20 {
                let expected = DecodeError::Defect {
                    xid: 0xb200_0003,
                    direction: None,
                    optional,
                    defect: defect::Defect::Truncated.into(),
                };
                assert_eq!(body(&message.cut(len)), Err(expected));
            }
        }
        for len in 20..32 {
            let message = message.cut(len);
            assert_eq!(body(&message), defective(Direction::Reply, false));
        }
        assert!(body(&message.cut(32)).is_ok());
    }

    // TV-M-22, V2-33: every other direction word.
    #[test]
    fn direction_words() {
        for words in [TV_V2_1.as_slice(), TV_V2_5.as_slice(), TV_XC_1.as_slice()] {
            for word in [2, 0x0100_0000, u32::MAX] {
                assert!(matches!(
                    body(&Message::new(words).put(16, word)),
                    Err(DecodeError::Defect {
                        direction: None,
                        defect: Defect::DirectionWord,
                        ..
                    })
                ));
            }
        }
    }

    // TV-M-23, TV-M-42, V2-29, V2-30: types that this text does not have.
    #[test]
    fn types() {
        for code in [2, 3, 6, 10, 13, 0x0100_0000, u32::MAX] {
            let xid = 0xb200_0001;
            let message = Message::new(&TV_V2_1).put(12, code);
            assert_eq!(body(&message), Err(DecodeError::Type { xid, code }));
        }
    }

    // V2-18, V1-8: any other version, in any type but an error.
    #[test]
    fn versions() {
        for version in [0, 1, 3, 0x0200_0000, u32::MAX] {
            for code in [0, 1, 2, 3, 5, 10] {
                let message = Message::new(&TV_V2_1).put(4, version).put(12, code);
                let expected = DecodeError::Version {
                    xid: 0xb200_0001,
                    version,
                    credits: 32,
                };
                assert_eq!(body(&message), Err(expected));
            }
        }
    }

    // TV-M-54 (as far as the lists), TV-M-55, V1-11, V1-18: defects of the lists.
    #[test]
    fn lists() {
        let none = Message::new(&TV_V2_7).put(12, 1);
        assert!(matches!(
            body(&none),
            Err(DecodeError::Defect {
                defect: Defect::Common(defect::Defect::NoLists),
                ..
            })
        ));
        let word = Message::new(&TV_V2_7).put(24, 1);
        assert!(matches!(
            body(&word),
            Err(DecodeError::Defect {
                xid: 0x31,
                direction: Some(Direction::Call),
                optional: false,
                defect: Defect::Common(defect::Defect::OptionalData),
            })
        ));
    }

    fn body(message: &Message) -> Result<Body<'_>, DecodeError> {
        Header::decode(message.bytes()).map(|header| header.body)
    }

    // The failure of a message that ends too early.
    fn defective(direction: Direction, optional: bool) -> Result<Body<'static>, DecodeError> {
        Err(DecodeError::Defect {
            xid: 0xb200_0003,
            direction: Some(direction),
            optional,
            defect: defect::Defect::Truncated.into(),
        })
    }
}
