// SPDX-License-Identifier: GPL-2.0

//! xids of an end's own optional operations.
//!
//! The RPC layer numbers its calls by a counter that cannot be drawn from, so operations take the
//! other half of the space, and none that is in use.

/// The xids that operations have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Xids {
    taken: u32,
}

impl Xids {
    /// The xids that are tried: more than are ever in use together, besides the RPC layer's.
    const TRIES: u32 = 64;

    /// The next xid. `newest` is the xid of the newest RPC call in this direction, and `is_live`
    /// finds the xids of messages without an answer. Returns `None` if all that are tried are live:
    /// the operation waits.
    pub(crate) fn take(&mut self, newest: u32, is_live: impl Fn(u32) -> bool) -> Option<u32> {
        let base = newest ^ 0x8000_0000;
        (0..Self::TRIES).find_map(|_| {
            let xid = base.wrapping_add(self.taken);
            self.taken = self.taken.wrapping_add(1);
            (!is_live(xid)).then_some(xid)
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_xids))]
mod tests {
    use super::*;

    // V2-44: of the other half, none twice in a row, none that is live.
    #[test]
    fn of_the_other_half() {
        let mut xids = Xids::default();
        assert_eq!(xids.take(7, |_| false), Some(0x8000_0007));
        assert_eq!(xids.take(7, |_| false), Some(0x8000_0008));
        assert_eq!(xids.take(6, |xid| xid == 0x8000_0008), Some(0x8000_0009));
        assert_eq!(xids.take(7, |_| true), None);
        // The newest call's xid has wrapped.
        let mut xids = Xids { taken: 1 };
        assert_eq!(xids.take(0x7fff_ffff, |_| false), Some(0));
    }
}
