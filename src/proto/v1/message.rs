// SPDX-License-Identifier: GPL-2.0

//! The messages that a transport writes itself, without an upper layer. Each is inline, behind a
//! transport header without chunks.

use super::{
    super::{
        call_header::EncodeError,
        rpc::{
            null_call,
            system_error,
            Program, //
        },
        xdr::Writer, //
    },
    encode::encode_bare_header, //
};

/// Writes the reply in the reverse direction for a call whose own reply does not fit (BI-32), and
/// returns the length of the message in bytes.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_system_error(
    xid: u32,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    encode_inline(xid, credits, system_error(xid), out)
}

/// Writes a call of procedure 0 of `program`, which every program answers immediately, and returns
/// the length of the message in bytes.
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
    encode_inline(xid, credits, null_call(xid, program), out)
}

fn encode_inline<const N: usize>(
    xid: u32,
    credits: u32,
    payload: [u32; N],
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let header = encode_bare_header(xid, credits, out)?;
    let mut rest = Writer::new(out.get_mut(header..).ok_or(EncodeError::NoRoom)?);

    rest.words(payload)?;
    Ok(header.saturating_add(rest.written()))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_message))]
mod tests {
    use super::{
        super::super::vectors::*,
        *, //
    };

    // BI-32, BI-26: the server gets a bare reply to its call.
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

    // V1-32: a call that a server can reply to immediately.
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
}
