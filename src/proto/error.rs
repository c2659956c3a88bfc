// SPDX-License-Identifier: GPL-2.0

//! `RDMA_ERROR`: a responder rejects a message with it (RFC 8166, section 4.5).
//!
//! | code | body behind it |
//! |---|---|
//! | 1 `ERR_VERS` | the lowest and the highest version that the responder speaks |
//! | 2 `ERR_CHUNK` | none |
//!
//! The layout is the same in all versions, so that ends without a common version understand it.
//! Version 2 has the code 3, `INVAL_OPTION`, without a body.

use super::{
    prefix::Proc,
    xdr::{
        NoRoom,
        Reader,
        Writer, //
    }, //
};

/// The reason why a message could not be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RdmaError {
    /// The peer does not speak its version (`ERR_VERS`).
    Version {
        /// The lowest version the peer speaks.
        low: u32,
        /// The highest version the peer speaks.
        high: u32,
    },
    /// Its header is not well-formed, or its chunks cannot be used (`ERR_CHUNK`).
    BadHeader,
    /// It is of an optional operation that the peer does not support (`INVAL_OPTION`). Of version
    /// 2 alone, and so never [decoded](Self::decode) here.
    InvalidOption,
}

impl RdmaError {
    /// Bytes of the longest message.
    pub(crate) const LONGEST: usize = 28;

    /// The code word of [`RdmaError::Version`].
    const VERSION: u32 = 1;

    /// The code word of [`RdmaError::BadHeader`].
    const BAD_HEADER: u32 = 2;

    /// The code word of [`RdmaError::InvalidOption`].
    const INVALID_OPTION: u32 = 3;

    /// Reads the body of an `RDMA_ERROR`. Bytes behind the body are ignored; `None` for a body that
    /// is short or has an unknown code.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut body = Reader::new(body);
        match body.word()? {
            Self::VERSION => {
                let [low, high] = body.words()?;
                Some(Self::Version { low, high })
            }
            Self::BAD_HEADER => Some(Self::BadHeader),
            _ => None,
        }
    }

    /// Writes the whole message to the front of `out` and returns its length, 20 or 28 bytes.
    ///
    /// `xid` and `version` are from the message that could not be processed, `credits` is the
    /// current grant.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] when the message does not fit.
    pub(crate) fn encode(
        &self,
        xid: u32,
        version: u32,
        credits: u32,
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        let mut out = Writer::new(out);
        out.words([xid, version, credits, Proc::Error.code()])?;
        match *self {
            Self::Version { low, high } => out.words([Self::VERSION, low, high])?,
            Self::BadHeader => out.words([Self::BAD_HEADER])?,
            Self::InvalidOption => out.words([Self::INVALID_OPTION])?,
        }
        Ok(out.written())
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_error))]
mod tests {
    use super::super::vectors::*;
    use super::*;

    // TV-V1-9, 10, V1-104, V1-106, V1-149: both errors, both ways, and any buffer too short.
    #[test]
    fn errors() {
        for (words, xid, version, error) in [
            (
                TV_V1_9.as_slice(),
                0xa1b2_c306,
                2,
                RdmaError::Version { low: 1, high: 1 },
            ),
            (TV_V1_10.as_slice(), 0xa1b2_c307, 1, RdmaError::BadHeader),
        ] {
            let message = Message::new(words);
            let bytes = message.bytes();
            let mut out = [0; 28];
            assert_eq!(error.encode(xid, version, 16, &mut out), Ok(bytes.len()));
            assert_eq!(out.get(..bytes.len()), Some(bytes));
            assert_eq!(bytes.get(16..).and_then(RdmaError::decode), Some(error));
            for len in 0..bytes.len() {
                let out = out.get_mut(..len).unwrap_or_default();
                assert_eq!(error.encode(xid, version, 16, out), Err(NoRoom));
                let body = bytes.get(16..len).unwrap_or_default();
                assert_eq!(RdmaError::decode(body), None);
            }
        }
    }
}
