// SPDX-License-Identifier: GPL-2.0

//! The RPC messages that a transport writes itself (RFC 5531, section 9).
//!
//! Each goes inline behind a transport header without chunks.

use super::{
    encode::{
        encode_bare_header,
        EncodeError, //
    },
    header::VERSION,
    xdr::{
        Reader,
        Writer, //
    },
};

/// Value of the message type word of a call.
const CALL: u32 = 0;
/// Value of the message type word of a reply.
const REPLY: u32 = 1;
/// The version of RPC.
const RPC_VERSION: u32 = 2;
/// Value of the status word of an accepted reply: the call was understood and could not be served.
const SYSTEM_ERR: u32 = 5;

/// The program that a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The number of the program.
    pub(crate) number: u32,
    /// Its version.
    pub(crate) version: u32,
}

impl Program {
    /// The program of an encoded call, from the start of the message; `None` if it is no call.
    pub(crate) fn of_call(message: &[u8]) -> Option<Self> {
        match Reader::new(message).words()? {
            [_, CALL, RPC_VERSION, number, version] => Some(Self { number, version }),
            _ => None,
        }
    }
}

/// An accepted reply that says that the system of the callee has failed.
pub(crate) const fn system_error(xid: u32) -> [u32; 6] {
    [xid, REPLY, 0, 0, 0, SYSTEM_ERR]
}

/// Writes a reply in the reverse direction that says that no reply fits (BI-32), with its transport
/// header, and returns the length of both in bytes.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_system_error(
    xid: u32,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let header = encode_bare_header(xid, credits, out)?;
    let rest = out.get_mut(header..).ok_or(EncodeError::NoRoom)?;
    let mut writer = Writer::new(rest);

    writer.words(system_error(xid))?;
    Ok(header.saturating_add(writer.written()))
}

/// Writes a call of procedure 0 of `program`, to which every program replies at once, with its
/// transport header, and returns the length of both in bytes.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_null_call(
    xid: u32,
    credits: u32,
    program: Program,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let Program { number, version } = program;
    let mut writer = Writer::new(out);

    // An RDMA_MSG without chunks, then the call, with an empty AUTH_NONE credential and verifier.
    writer.words([xid, VERSION, credits, 0, 0, 0, 0])?;
    writer.words([xid, CALL, RPC_VERSION, number, version, 0])?;
    writer.words([0, 0, 0, 0])?;
    Ok(writer.written())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_rpc))]
mod tests {
    use super::super::vectors::*;
    use super::*;

    // BI-32, BI-26: what the server gets is a bare reply to its call.
    #[test]
    fn system_errors() {
        let mut out = [0xee; 56];

        assert_eq!(encode_system_error(7, 16, &mut out), Ok(52));
        assert_eq!(out.get(52..), Some([0xee; 4].as_slice()));
        let expected = [7, 1, 16, 0, 0, 0, 0, 7, 1, 0, 0, 0, 5].map(u32::to_be_bytes);
        assert_eq!(out.get(..52), Some(expected.as_flattened()));
        let (short, _) = out.split_at_mut(51);
        assert_eq!(encode_system_error(7, 16, short), Err(EncodeError::NoRoom));
        let (none, _) = out.split_at_mut(27);
        assert_eq!(encode_system_error(7, 16, none), Err(EncodeError::NoRoom));
    }

    // V1-32: a call that a server can reply to whatever else it has to do.
    #[test]
    fn null_calls() {
        let program = Program {
            number: 100_003,
            version: 3,
        };
        let mut out = [0xee; 72];
        let message = Message::new(&TV_V1_1);

        let found = encode_null_call(0xa1b2_c301, 32, program, &mut out);
        assert_eq!(found, Ok(68));
        assert_eq!(out.get(..68), Some(message.bytes()));
        assert_eq!(out.get(68..), Some([0xee; 4].as_slice()));
        let (short, _) = out.split_at_mut(67);
        let found = encode_null_call(9, 1, program, short);
        assert_eq!(found, Err(EncodeError::NoRoom));
    }

    // The program stands in every call, and in nothing else.
    #[test]
    fn programs() {
        let message = Message::new(&TV_V1_1);
        let call = message.bytes().get(28..).unwrap_or_default();
        let program = Program {
            number: 100_003,
            version: 3,
        };
        assert_eq!(Program::of_call(call), Some(program));
        assert_eq!(call.get(..19).map(Program::of_call), Some(None));
        let message = Message::new(&TV_V1_2);
        let reply = message.bytes().get(28..).unwrap_or_default();
        assert_eq!(Program::of_call(reply), None);
        assert_eq!(Program::of_call(&[]), None);
    }
}
