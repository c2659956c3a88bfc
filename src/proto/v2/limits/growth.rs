// SPDX-License-Identifier: GPL-2.0

//! The sizes of an end's own Receives.
//!
//! Receives complete in posting order, a posted one cannot be taken back, and a longer Send ends
//! the connection. So the size in force is the size of the smallest posted Receive, and only
//! messages of the peer remove a small one.
//!
//! ```text
//!     Steady(s) --- want g > s ---> Growing(s -> g, last = number of the newest posted Receive)
//!     Growing   --- completed >= last ---> Steady(g), g is announced
//!     Growing   --- no memory ---> a smaller g, or Steady(s)
//!     any       --- the peer requests a smaller size ---> Steady(smaller)
//! ```
//!
//! While it grows, an end posts only Receives of the new size. It shrinks only at the peer's
//! request.

use super::DEFAULT;

/// The answer to a requested change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Disposition {
    /// The requested value is in force.
    Done,
    /// Nothing changes.
    Rejected,
    /// An update follows.
    Pending,
    /// Received only: rejected and in another subset, too, or in none of the three.
    Unclear,
}

impl Disposition {
    /// The disposition of an entry whose bits are set in these subsets of a response. Rejected
    /// prevails over pending, and pending over done.
    pub(crate) const fn of(done: bool, rejected: bool, pending: bool) -> Self {
        match (done, rejected, pending) {
            (_, false, true) => Self::Pending,
            (true, false, false) => Self::Done,
            (false, true, false) => Self::Rejected,
            (_, true, _) | (false, false, false) => Self::Unclear,
        }
    }
}

/// The size of the Receives, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Size {
    /// All posted Receives have at least this size.
    Steady(u32),
    /// Receives of `from` may be posted, up to number `last`.
    Growing {
        /// The size in force.
        from: u32,
        /// The size of all Receives that are posted from now on.
        to: u32,
        /// The number of the last Receive that was posted before.
        last: u32,
        /// Set if the peer has requested it, and waits for an update.
        asked: bool,
    },
}

/// An update to send: the size in force has changed, or a pending request is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Announce {
    /// Set if it finishes the pending request of the peer.
    pub(crate) finished: bool,
}

/// A request of the peer for another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The requested size.
    pub(crate) size: u32,
    /// The number of the newest posted Receive.
    pub(crate) newest: u32,
    /// The longest reply that a call on its way relies on.
    pub(crate) relied: u32,
}

impl Size {
    /// The size in force.
    pub(crate) const fn in_force(self) -> u32 {
        match self {
            Self::Steady(size) | Self::Growing { from: size, .. } => size,
        }
    }

    /// The size of the next Receive to be posted.
    pub(crate) const fn to_post(self) -> u32 {
        match self {
            Self::Steady(size) | Self::Growing { to: size, .. } => size,
        }
    }

    /// Begins to grow. Returns `false` if `to` is not larger, or other growth is under way.
    pub(crate) fn grow(&mut self, to: u32, newest: u32, asked: bool) -> bool {
        match *self {
            Self::Steady(from) if to > from => {
                *self = Self::Growing {
                    from,
                    to,
                    last: newest,
                    asked,
                };
                true
            }
            Self::Steady(_) | Self::Growing { .. } => false,
        }
    }

    /// The Receive of this number has completed, and all before it.
    pub(crate) fn completed(&mut self, number: u32) -> Option<Announce> {
        match *self {
            Self::Growing {
                to, last, asked, ..
            } if number.wrapping_sub(last) < 1 << 31 => {
                *self = Self::Steady(to);
                Some(Announce { finished: asked })
            }
            Self::Steady(_) | Self::Growing { .. } => None,
        }
    }

    /// Memory is short for Receives of the new size, and sufficient for size `reach`.
    pub(crate) fn no_memory(&mut self, reach: u32) -> Option<Announce> {
        match self {
            Self::Growing { from, to, .. } if reach > *from => {
                *to = reach.min(*to);
                None
            }
            Self::Growing { from, asked, .. } => {
                let announce = asked.then_some(Announce { finished: true });
                *self = Self::Steady(*from);
                announce
            }
            Self::Steady(_) => None,
        }
    }

    /// The peer requests a size, up to `max` if it is larger than the present one. Returns the
    /// answer, and the update that finishes an earlier request, which this one ends.
    pub(crate) fn asked(&mut self, asked: Asked, max: u32) -> (Disposition, Option<Announce>) {
        let Asked { size, newest, .. } = asked;
        let in_force = self.in_force();
        if size < DEFAULT {
            (Disposition::Rejected, None)
        } else if size == in_force {
            (Disposition::Done, None)
        } else if size > in_force {
            if size <= max && self.grow(size, newest, true) {
                (Disposition::Pending, None)
            } else {
                (Disposition::Rejected, None)
            }
        } else if asked.relied > size {
            (Disposition::Rejected, None)
        } else {
            let finishes = matches!(*self, Self::Growing { asked: true, .. });
            *self = Self::Steady(size);
            let announce = finishes.then_some(Announce { finished: true });
            (Disposition::Done, announce)
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_growth))]
mod tests {
    use super::*;

    const MAX: u32 = 65_536;

    fn growing(last: u32, asked: bool) -> Size {
        Size::Growing {
            from: 4096,
            to: 16_384,
            last,
            asked,
        }
    }

    fn ask(size: u32) -> Asked {
        Asked {
            size,
            newest: 9,
            relied: 0,
        }
    }

    // XC-53, XC-54, XC-55: all bits of an entry.
    #[test]
    fn dispositions() {
        for (done, rejected, pending, means) in [
            (true, false, false, Disposition::Done),
            (false, true, false, Disposition::Rejected),
            (false, false, true, Disposition::Pending),
            (true, false, true, Disposition::Pending),
            (true, true, false, Disposition::Unclear),
            (false, true, true, Disposition::Unclear),
            (true, true, true, Disposition::Unclear),
            (false, false, false, Disposition::Unclear),
        ] {
            assert_eq!(Disposition::of(done, rejected, pending), means);
        }
    }

    // XC-68, XC-70, XC-90: announced when the last small Receive has completed; numbers wrap.
    #[test]
    fn grows_behind_the_last_small_receive() {
        for last in [9, 0, u32::MAX] {
            let mut size = Size::Steady(4096);
            assert!(size.grow(16_384, last, false));
            assert_eq!((size.in_force(), size.to_post()), (4096, 16_384));
            assert_eq!(size.completed(last.wrapping_sub(1)), None);
            assert_eq!(
                size.completed(last.wrapping_add(1)),
                Some(Announce { finished: false })
            );
            assert_eq!((size.in_force(), size.to_post()), (16_384, 16_384));
            assert_eq!(size.completed(last.wrapping_add(2)), None);
        }
    }

    // XC-71: nothing but a request of the peer makes it smaller.
    #[test]
    fn never_shrinks_by_itself() {
        let mut size = Size::Steady(16_384);
        assert!(!size.grow(4096, 9, false) && !size.grow(16_384, 9, false));
        assert_eq!(size.no_memory(0), None);
        assert_eq!(size, Size::Steady(16_384));
    }

    // XC-91: less memory, or none.
    #[test]
    fn without_memory() {
        let mut size = growing(9, true);
        assert_eq!(size.no_memory(8192), None);
        assert_eq!((size.in_force(), size.to_post()), (4096, 8192));
        assert_eq!(size.no_memory(32_768), None);
        assert_eq!(size.to_post(), 8192);
        assert_eq!(size.no_memory(4096), Some(Announce { finished: true }));
        assert_eq!(size, Size::Steady(4096));

        let mut size = growing(9, false);
        assert_eq!(size.no_memory(0), None);
        assert_eq!(size, Size::Steady(4096));
    }

    // XC-23, XC-50, XC-51, XC-52, XC-92, XC-94: the answers to a request for a larger size.
    #[test]
    fn asked_to_grow() {
        let steady = Size::Steady(4096);
        for (before, want, max, answer, after) in [
            (steady, 16_384, MAX, Disposition::Pending, growing(9, true)),
            (steady, 16_384, 8192, Disposition::Rejected, steady),
            (steady, u32::MAX, MAX, Disposition::Rejected, steady),
            (steady, 4096, 0, Disposition::Done, steady),
            (
                growing(5, false),
                16_384,
                MAX,
                Disposition::Rejected,
                growing(5, false),
            ),
            (
                growing(5, false),
                4096,
                MAX,
                Disposition::Done,
                growing(5, false),
            ),
        ] {
            let mut size = before;
            assert_eq!(size.asked(ask(want), max), (answer, None));
            assert_eq!(size, after);
        }
    }

    // XC-93, XC-95: a smaller size is in force immediately, unless a call relies on more.
    #[test]
    fn asked_to_shrink() {
        let large = Size::Steady(65_536);
        for (before, want, relied, answer, after) in [
            (large, 4096, 0, Disposition::Done, Size::Steady(4096)),
            (large, 4096, 4096, Disposition::Done, Size::Steady(4096)),
            (large, 4096, 4097, Disposition::Rejected, large),
            (large, 4095, 0, Disposition::Rejected, large),
            (large, 0, 0, Disposition::Rejected, large),
        ] {
            let mut size = before;
            let asked = Asked {
                relied,
                ..ask(want)
            };
            assert_eq!(size.asked(asked, MAX), (answer, None));
            assert_eq!(size, after);
        }
    }

    // XC-93, XC-62: growth under way ends, and so does the request for it.
    #[test]
    fn asked_to_shrink_during_growth() {
        for asked in [true, false] {
            let mut size = Size::Growing {
                from: 16_384,
                to: 65_536,
                last: 9,
                asked,
            };
            let announce = asked.then_some(Announce { finished: true });
            assert_eq!(size.asked(ask(4096), MAX), (Disposition::Done, announce));
            assert_eq!(size, Size::Steady(4096));
        }
    }
}
