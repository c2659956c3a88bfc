// SPDX-License-Identifier: GPL-2.0

//! Reasons of rejections.

use kernel::ffi::c_int;

use crate::os::series::ECONNRESET;

/// The reason why a peer rejects a request to connect.
///
/// The connection manager of InfiniBand and RoCE gives the number in the peer's message (`enum
/// ib_cm_rej_reason` of `rdma/ib_cm.h`), iWARP's a negative errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reject {
    /// InfiniBand and RoCE: the peer still has a connection with our numbers.
    StaleConnection,
    /// iWARP: the peer has reset the connection of TCP.
    Reset,
    /// Any other reason, by its number.
    Refused(c_int),
}

impl Reject {
    /// `IB_CM_REJ_STALE_CONN` (InfiniBand Architecture Specification, volume 1, section 12.6.7.2).
    const STALE_CONNECTION: c_int = 10;

    /// The reason with the number `code`.
    pub(super) fn of(code: c_int) -> Self {
        match code {
            Self::STALE_CONNECTION => Self::StaleConnection,
            code if code == ECONNRESET.to_errno() => Self::Reset,
            code => Self::Refused(code),
        }
    }

    /// The number of the reason.
    pub(crate) fn code(self) -> c_int {
        match self {
            Self::StaleConnection => Self::STALE_CONNECTION,
            Self::Reset => ECONNRESET.to_errno(),
            Self::Refused(code) => code,
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_reject)]
mod tests {
    use super::*;
    use crate::os::series::ECONNREFUSED;

    /// Numbers of either connection manager: 8 for an invalid service ID, 28 for the peer's own
    /// reasons.
    #[test]
    fn reasons() {
        let refused = ECONNREFUSED.to_errno();

        for (code, reason) in [
            (10, Reject::StaleConnection),
            (ECONNRESET.to_errno(), Reject::Reset),
            (8, Reject::Refused(8)),
            (28, Reject::Refused(28)),
            (refused, Reject::Refused(refused)),
        ] {
            assert_eq!(Reject::of(code), reason);
            assert_eq!(reason.code(), code);
        }
    }
}
