// SPDX-License-Identifier: GPL-2.0

//! RPC messages, as far as a transport looks into them or writes them itself (RFC 5531, section 9).

use super::{
    defect::Defect,
    xdr::Reader, //
};

/// Value of the message type word of a call.
pub(crate) const CALL: u32 = 0;
/// Value of the message type word of a reply.
pub(crate) const REPLY: u32 = 1;
/// The version of RPC.
const RPC_VERSION: u32 = 2;
/// Value of the status word of an accepted reply: the call was understood and could not be served.
const SYSTEM_ERR: u32 = 5;

/// The message type word of an inline payload.
///
/// # Errors
///
/// [`Defect::ShortPayload`], or [`Defect::XidMismatch`] when the payload does not repeat the
/// header's `xid`.
#[inline]
pub(crate) fn direction(xid: u32, payload: &[u8]) -> Result<u32, Defect> {
    match Reader::new(payload).words() {
        Some([inner, direction]) if inner == xid => Ok(direction),
        Some(_) => Err(Defect::XidMismatch),
        None => Err(Defect::ShortPayload),
    }
}

/// The program that a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The number of the program.
    pub(crate) number: u32,
    /// Its version.
    pub(crate) version: u32,
}

/// An accepted reply with the status SYSTEM_ERR: the callee could not serve the call.
pub(crate) const fn system_error(xid: u32) -> [u32; 6] {
    [xid, REPLY, 0, 0, 0, SYSTEM_ERR]
}

/// A call of procedure 0 of `program`, which every program answers immediately, with an empty
/// AUTH_NONE credential and verifier.
pub(crate) const fn null_call(xid: u32, program: Program) -> [u32; 10] {
    let Program { number, version } = program;
    [xid, CALL, RPC_VERSION, number, version, 0, 0, 0, 0, 0]
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_rpc))]
mod tests {
    use super::*;

    // TV-M-8, V1-7, V1-17: the payload begins with the header's xid and the direction.
    #[test]
    fn directions() {
        let payload = [0, 0, 0, 7, 0, 0, 0, 1, 0xff];
        assert_eq!(direction(7, &payload), Ok(REPLY));
        assert_eq!(direction(8, &payload), Err(Defect::XidMismatch));
        for len in 0..8 {
            let short = payload.get(..len).unwrap_or_default();
            assert_eq!(direction(7, short), Err(Defect::ShortPayload));
        }
    }
}
