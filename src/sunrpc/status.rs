// SPDX-License-Identifier: GPL-2.0

//! The only results of sending and connecting that reach sunrpc.

use kernel::{
    bindings,
    ffi::c_int, //
};

/// The reason why a message was not sent. Each value is an errno that makes sunrpc try again, in
/// its own way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendStatus {
    /// No connection: connect, then send the same encoded message.
    NotConnected,
    /// No credit is free: wait for a reply.
    NoCredit,
    /// No room to send: wait until the transport reports room. Only valid after
    /// [`super::Xprt::wait_for_buffer_space`].
    NoSpace,
    /// No registrations, or no Receive for the reply: wait for replies to other calls, without a
    /// credit. Only valid after [`super::Call::give_credit_back`].
    NoResources,
    /// Out of memory for now: try again after a quarter of a second.
    NoMemory,
}

impl SendStatus {
    /// The code that sunrpc gets.
    pub(crate) fn to_errno(self) -> c_int {
        let errno = match self {
            SendStatus::NotConnected => bindings::ENOTCONN,
            SendStatus::NoCredit | SendStatus::NoResources => bindings::EBADSLT,
            SendStatus::NoSpace => bindings::EAGAIN,
            SendStatus::NoMemory => bindings::ENOBUFS,
        };
        // CAST: A small number.
        (errno as c_int).wrapping_neg()
    }
}

/// The reason why a call of a server to its client was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackStatus {
    /// The connection has ended, and only the client can make another one: the call ends.
    NotConnected,
    /// No credit is free: wait for a reply.
    NoCredit,
    /// Out of memory for now, too many messages wait, or the connection is about to end: try again
    /// after a quarter of a second.
    NoMemory,
}

impl CallbackStatus {
    /// The code that sunrpc gets.
    pub(crate) fn to_errno(self) -> c_int {
        let errno = match self {
            CallbackStatus::NotConnected => bindings::ENOTCONN,
            CallbackStatus::NoCredit => bindings::EBADSLT,
            CallbackStatus::NoMemory => bindings::ENOBUFS,
        };
        // CAST: A small number.
        (errno as c_int).wrapping_neg()
    }
}

/// The reason why a connection could not be made. Any other code would end all waiting RPCs (H-51),
/// so this list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectStatus {
    /// The peer refuses connections: try again after three seconds; ends soft connection attempts.
    Refused,
    /// The peer cannot be reached: try again after three seconds; ends soft attempts.
    Unreachable,
    /// No RDMA device of this machine leads to the peer, or the device lacks what the transport
    /// needs: try again after three seconds; ends soft attempts. `mount.nfs` repeats a mount after
    /// [`Self::Unreachable`], and not after this.
    NoDevice,
    /// The peer speaks no version of the protocol that may be used: as [`Self::NoDevice`].
    NoVersion,
    /// The network of this end does not lead to the peer: as [`Self::Unreachable`], and final for
    /// mounts with the option `fatal_neterrors`.
    NetUnreachable,
    /// The network of this end is down: as [`Self::NetUnreachable`].
    NetDown,
    /// Out of memory for now: try again after a quarter of a second.
    NoMemory,
    /// Anything that may pass: try again. The transport itself has to back off.
    Retry,
}

impl ConnectStatus {
    /// The code that sunrpc gets.
    pub(crate) fn to_errno(self) -> c_int {
        let errno = match self {
            ConnectStatus::Refused => bindings::ECONNREFUSED,
            ConnectStatus::Unreachable => bindings::EHOSTUNREACH,
            ConnectStatus::NoDevice | ConnectStatus::NoVersion => bindings::EPROTO,
            ConnectStatus::NetUnreachable => bindings::ENETUNREACH,
            ConnectStatus::NetDown => bindings::ENETDOWN,
            ConnectStatus::NoMemory => bindings::ENOBUFS,
            ConnectStatus::Retry => bindings::ENOTCONN,
        };
        // CAST: A small number.
        (errno as c_int).wrapping_neg()
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_status)]
mod tests {
    use super::*;
    use kernel::error::code::*;

    use crate::os::series::{
        ECONNREFUSED,
        EHOSTUNREACH,
        ENETDOWN,
        ENETUNREACH,
        ENOBUFS,
        ENOTCONN, //
    };

    /// H-51: each code is one that makes sunrpc try again; others would end RPCs even on a hard
    /// mount.
    #[test]
    fn codes() {
        assert_eq!(SendStatus::NotConnected.to_errno(), ENOTCONN.to_errno());
        assert_eq!(SendStatus::NoCredit.to_errno(), EBADSLT.to_errno());
        assert_eq!(SendStatus::NoResources.to_errno(), EBADSLT.to_errno());
        assert_eq!(SendStatus::NoSpace.to_errno(), EAGAIN.to_errno());
        assert_eq!(SendStatus::NoMemory.to_errno(), ENOBUFS.to_errno());
        assert_eq!(CallbackStatus::NotConnected.to_errno(), ENOTCONN.to_errno());
        assert_eq!(CallbackStatus::NoCredit.to_errno(), EBADSLT.to_errno());
        assert_eq!(CallbackStatus::NoMemory.to_errno(), ENOBUFS.to_errno());
        assert_eq!(ConnectStatus::Refused.to_errno(), ECONNREFUSED.to_errno());
        assert_eq!(
            ConnectStatus::Unreachable.to_errno(),
            EHOSTUNREACH.to_errno()
        );
        assert_eq!(
            ConnectStatus::NetUnreachable.to_errno(),
            ENETUNREACH.to_errno()
        );
        assert_eq!(ConnectStatus::NoDevice.to_errno(), EPROTO.to_errno());
        assert_eq!(ConnectStatus::NetDown.to_errno(), ENETDOWN.to_errno());
        assert_eq!(ConnectStatus::NoMemory.to_errno(), ENOBUFS.to_errno());
        assert_eq!(ConnectStatus::Retry.to_errno(), ENOTCONN.to_errno());
    }
}
