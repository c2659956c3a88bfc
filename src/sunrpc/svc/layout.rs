// SPDX-License-Identifier: GPL-2.0

//! The places of a reply's bytes in its pages. Pure.

/// Bytes in the pages of a reply, which count one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first byte.
    pub(crate) at: u32,
    /// Bytes.
    pub(crate) len: u32,
}

/// The places of the parts of a reply: its head, its pages, its tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout(pub(super) [Place; 3]);

impl Layout {
    /// The places of `len` bytes of the reply from byte `at` on.
    pub(crate) fn places(&self, at: u32, len: u32) -> impl Iterator<Item = Place> {
        let mut skip = at;
        let mut left = len;

        self.0.into_iter().filter_map(move |part| {
            let skipped = skip.min(part.len);
            // No difference wraps around: neither is more than its minuend.
            skip = skip.wrapping_sub(skipped);
            let len = part.len.wrapping_sub(skipped).min(left);
            left = left.wrapping_sub(len);
            (len != 0).then_some(Place {
                at: part.at.saturating_add(skipped),
                len,
            })
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_layout))]
mod tests {
    use super::*;

    fn place(at: u32, len: u32) -> Place {
        Place { at, len }
    }

    /// Bytes of one part, and of several; the tail may be in front of the pages.
    #[test]
    fn places() {
        let layout = Layout([place(0, 100), place(5000, 3000), place(120, 8)]);

        for (at, len, expected) in [
            (0, 10, [place(0, 10)].as_slice()),
            (90, 20, &[place(90, 10), place(5000, 10)]),
            (100, 3000, &[place(5000, 3000)]),
            (3099, 3, &[place(7999, 1), place(120, 2)]),
            (99, 3009, &[place(99, 1), place(5000, 3000), place(120, 8)]),
            (3100, 8, &[place(120, 8)]),
            (50, 0, &[]),
            // Bytes that the reply does not have.
            (3107, 9, &[place(127, 1)]),
            (4000, 9, &[]),
        ] {
            assert!(layout.places(at, len).eq(expected.iter().copied()));
        }
    }
}
