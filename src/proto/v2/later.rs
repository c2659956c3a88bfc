// SPDX-License-Identifier: GPL-2.0

//! Signs that the peer speaks another text with version number 2.
//!
//! Later texts of version 2, up to the working group's own, have the same number with other types,
//! headers and credits. The version word does not distinguish them, but the first message of such a
//! peer, or its reply to ours, has a type or an error code that this text does not have (V2-69,
//! V2-70). Both ends then return to version 1. Once the version of a connection is known these are
//! ordinary defects.

use super::{
    super::neutral::Rejection,
    header::{
        Body,
        DecodeError,
        Header,
        INVAL_OPTION, //
    }, //
};

/// The sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// A type that this text does not have; a server returns `ERR_VERS` 1..1 (V2-70).
    Type {
        /// The xid of the message.
        xid: u32,
        /// The type.
        code: u32,
    },
    /// An error for another reason than an unknown version 2 or a bad header. About the first
    /// message of a client it ends the connection, and the next one begins with version 1 (V2-69).
    Error {
        /// The xid of the message that the error is about.
        xid: u32,
        /// The code.
        code: u32,
    },
}

impl Later {
    /// Looks for a sign in a message that came before the version of the connection was known.
    pub(crate) fn of(decoded: &Result<Header<'_>, DecodeError>) -> Option<Self> {
        match *decoded {
            Err(DecodeError::Type { xid, code }) => Some(Self::Type { xid, code }),
            Err(DecodeError::UnknownError { xid, code }) => Some(Self::Error { xid, code }),
            Ok(Header {
                xid,
                body: Body::Error(Rejection::InvalidOption),
                ..
            }) => Some(Self::Error {
                xid,
                code: INVAL_OPTION,
            }),
            _ => None,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_later))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // TV-M-42, V2-70: the types of the later texts, and any other that this one lacks.
    #[test]
    fn types() {
        let xid = 0xb200_0001;
        for code in [2, 3, 6, 7, 8, 9, 10, 11, 12, 13, u32::MAX] {
            let message = Message::new(&TV_V2_1).put(12, code);
            assert_eq!(later(&message), Some(Later::Type { xid, code }));
            // In another version it is no sign of anything.
            assert_eq!(later(&message.put(4, 1)), None);
        }
    }

    // TV-M-43, V2-69: the error codes of the later texts, and any other but 1 and 2.
    #[test]
    fn errors() {
        let xid = 0xb200_0002;
        for code in [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, u32::MAX] {
            let message = Message::new(&TV_V2_3).put(16, code);
            assert_eq!(later(&message), Some(Later::Error { xid, code }));
        }
        assert_eq!(later(&Message::new(&TV_V2_3).put(16, 2)), None);
        assert_eq!(later(&Message::new(&TV_V2_4)), None);
        assert_eq!(later(&Message::new(&TV_V2_4).cut(24)), None);
    }

    // V2-70: a good message is no sign, nor is one with a defect, or none at all.
    #[test]
    fn none() {
        let call = Message::new(&TV_V2_1);
        for message in [
            call,
            Message::new(&TV_V2_5),
            Message::new(&TV_XC_1),
            call.put(16, 2),
            call.put(20, 2),
            call.put(4, 3),
            call.cut(15),
        ] {
            assert_eq!(later(&message), None);
        }
    }

    fn later(message: &Message) -> Option<Later> {
        Later::of(&Header::decode(message.bytes()))
    }
}
