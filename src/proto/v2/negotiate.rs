// SPDX-License-Identifier: GPL-2.0

//! The version of a connection: found by its first message.
//!
//! A client offers version 2 by a call of its own, so that no call of the upper layer meets an
//! unknown version; a server's version is fixed by the first message that it can serve. The version
//! holds until the connection ends. An end that speaks another document's version 2, or version 1
//! alone, ends on version 1.

pub(crate) mod client;
pub(crate) mod server;

use super::limits::DEFAULT;

/// The versions that a rule permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Versions {
    /// Version 1 alone.
    One,
    /// Version 2 alone, of the documents that this module names.
    Two,
    /// Version 2 is offered and served, and version 1 as well.
    Auto,
}

impl Versions {
    /// The versions that Receives of `receive` bytes permit: version 2 needs the default size.
    pub(crate) const fn with_receives(self, receive: u32) -> Self {
        if receive < DEFAULT {
            Self::One
        } else {
            self
        }
    }

    /// Reads `1`, `2` or `auto`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "1" => Some(Self::One),
            "2" => Some(Self::Two),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }

    /// The word for it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Auto => "auto",
        }
    }

    /// The lowest and the highest version.
    pub(crate) const fn range(self) -> (u32, u32) {
        match self {
            Self::One => (1, 1),
            Self::Two => (2, 2),
            Self::Auto => (1, 2),
        }
    }

    /// Returns `true` if this version is spoken.
    pub(crate) const fn permit(self, version: u32) -> bool {
        let (low, high) = self.range();
        low <= version && version <= high
    }
}

/// The longest first message, and its longest answer unless private data promises more: the peer
/// may be one of version 1.
pub(crate) fn first_message(promised: Option<u32>) -> u32 {
    const FIRST: u32 = 1024;

    promised.unwrap_or(FIRST).max(FIRST)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_versions))]
mod tests {
    use super::*;

    // V2-62: the range of each rule.
    #[test]
    fn ranges() {
        for (versions, range, one, two) in [
            (Versions::One, (1, 1), true, false),
            (Versions::Two, (2, 2), false, true),
            (Versions::Auto, (1, 2), true, true),
        ] {
            assert_eq!(versions.range(), range);
            assert_eq!(Versions::parse(versions.as_str()), Some(versions));
            let permitted = [0, 1, 2, 3, u32::MAX].map(|version| versions.permit(version));
            assert_eq!(permitted, [false, one, two, false, false]);
        }
    }

    #[test]
    fn other_words() {
        for text in ["", "0", "3", "AUTO", "1-2"] {
            assert_eq!(Versions::parse(text), None);
        }
    }

    // V2-21, V2-63: version 2 needs Receives of the default size.
    #[test]
    fn small_receives() {
        assert_eq!(Versions::Auto.with_receives(4095), Versions::One);
        assert_eq!(Versions::Two.with_receives(1024), Versions::One);
        assert_eq!(Versions::Auto.with_receives(4096), Versions::Auto);
    }

    // V2-4, V2-61: the first message and its answer.
    #[test]
    fn first_messages() {
        for (promised, len) in [(None, 1024), (Some(4096), 4096), (Some(0), 1024)] {
            assert_eq!(first_message(promised), len);
        }
    }
}
