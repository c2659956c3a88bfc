// SPDX-License-Identifier: GPL-2.0

//! The server's side: the first message that it can serve fixes the version.
//!
//! ```text
//!     Open     --- decodes in a version spoken here ---> Fixed(version)
//!     Open     --- version 2, a type that no document here has ---> ERR_VERS, range without 2
//!     any      --- another version ---> ERR_VERS with the range
//!     any      --- a defect ---> BAD_HEADER
//! ```
//!
//! A refused message fixes nothing. Replies, errors and calls in the reverse direction have the
//! fixed version.

use super::Versions;

/// The parts of a message that count here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Kind {
    /// It decodes without a defect.
    Good,
    /// An error message, which is never answered.
    Error,
    /// Its type is none of version 2.
    UnknownType,
    /// It has another defect, that is reported unless it is a reply.
    Defect { is_reply: bool },
}

/// The action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Serve the message, in its version.
    Serve,
    /// Send `ERR_VERS` with this range.
    Versions { low: u32, high: u32 },
    /// Send the error of code 2.
    BadHeader,
    /// Drop and count the message.
    Drop,
}

/// A server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Server {
    versions: Versions,
    /// The version, once it is fixed.
    pub(crate) fixed: Option<u32>,
}

impl Server {
    /// A new connection.
    pub(crate) const fn new(versions: Versions) -> Self {
        Self {
            versions,
            fixed: None,
        }
    }

    /// A message with this version word was received. If its answer cannot be built or posted the
    /// connection ends: silence makes clients wait.
    pub(crate) fn received(&mut self, version: u32, kind: Kind) -> Action {
        if kind == Kind::Error {
            return Action::Drop;
        }
        let is_spoken = match self.fixed {
            Some(fixed) => version == fixed,
            None => self.versions.permit(version),
        };
        let (low, high) = self.versions.range();
        if !is_spoken {
            return Action::Versions { low, high };
        }
        match kind {
            Kind::Good => {
                self.fixed = Some(version);
                Action::Serve
            }
            // Another document's version 2: its client can fall back to version 1, if that is
            // spoken here.
            Kind::UnknownType if version == 2 && self.fixed.is_none() => {
                let high = if self.versions.permit(1) { 1 } else { high };
                Action::Versions { low, high }
            }
            Kind::Defect { is_reply: true } | Kind::Error => Action::Drop,
            Kind::UnknownType | Kind::Defect { is_reply: false } => Action::BadHeader,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_server))]
mod tests {
    use super::*;

    const DEFECT: Kind = Kind::Defect { is_reply: false };

    fn refusal(low: u32, high: u32) -> Action {
        Action::Versions { low, high }
    }

    // V2-7, V2-9, V2-19, V2-20, V2-62: the first good message, by each rule.
    #[test]
    fn first_messages() {
        for (versions, version, action) in [
            (Versions::One, 1, Action::Serve),
            (Versions::One, 2, refusal(1, 1)),
            (Versions::Two, 1, refusal(2, 2)),
            (Versions::Two, 2, Action::Serve),
            (Versions::Auto, 1, Action::Serve),
            (Versions::Auto, 2, Action::Serve),
            (Versions::Auto, 0, refusal(1, 2)),
            (Versions::Auto, 3, refusal(1, 2)),
        ] {
            let mut server = Server::new(versions);
            assert_eq!(server.received(version, Kind::Good), action);
            let fixed = (action == Action::Serve).then_some(version);
            assert_eq!(server.fixed, fixed);
        }
    }

    // V2-17, V2-18: the version stays.
    #[test]
    fn the_version_holds() {
        for (first, other) in [(1, 2), (2, 1)] {
            let mut server = Server::new(Versions::Auto);
            assert_eq!(server.received(first, Kind::Good), Action::Serve);
            assert_eq!(server.received(other, Kind::Good), refusal(1, 2));
            assert_eq!(server.received(first, DEFECT), Action::BadHeader);
            assert_eq!(server.received(first, Kind::Good), Action::Serve);
            assert_eq!(server.fixed, Some(first));
        }
    }

    // V2-68: what is refused fixes nothing.
    #[test]
    fn refused_messages_fix_nothing() {
        for (version, kind, action) in [
            (3, Kind::Good, refusal(1, 2)),
            (2, Kind::UnknownType, refusal(1, 1)),
            (1, DEFECT, Action::BadHeader),
            (2, DEFECT, Action::BadHeader),
            (2, Kind::Defect { is_reply: true }, Action::Drop),
            (2, Kind::Error, Action::Drop),
            (3, Kind::Error, Action::Drop),
        ] {
            for next in [1, 2] {
                let mut server = Server::new(Versions::Auto);
                assert_eq!(server.received(version, kind), action);
                assert_eq!(server.fixed, None);
                assert_eq!(server.received(next, Kind::Good), Action::Serve);
            }
        }
    }

    // V2-30, V2-70: an unknown type before and after the version is fixed.
    #[test]
    fn another_version_2() {
        let mut server = Server::new(Versions::Auto);
        assert_eq!(server.received(2, Kind::UnknownType), refusal(1, 1));
        assert_eq!(server.received(2, Kind::Good), Action::Serve);
        assert_eq!(server.received(2, Kind::UnknownType), Action::BadHeader);

        // Version 1 is not promised where it is not spoken.
        let mut server = Server::new(Versions::Two);
        assert_eq!(server.received(2, Kind::UnknownType), refusal(2, 2));
        let mut server = Server::new(Versions::One);
        assert_eq!(server.received(1, Kind::UnknownType), Action::BadHeader);
    }
}
