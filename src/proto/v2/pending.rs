// SPDX-License-Identifier: GPL-2.0

//! An end's own requests for a change, until they are settled.
//!
//! At most one `REQXCH` has no response, and none is sent for a characteristic that is pending: an
//! update that finishes a request has only the number of the characteristic. The only one that is
//! ever requested is the size of the peer's Receives; a request without entries confirms what was
//! sent before it.
//!
//! ```text
//!     Idle --- REQXCH ---> Open --- RESPXCH: done, rejected ---> Idle
//!                           |  `--- RESPXCH: pending ---> Pending --- UPDXCH: finished ---> Idle
//!                           `--- UPDXCH: finished ---> Open, and pending opens nothing
//! ```

pub(crate) mod xids;

use super::limits::growth::Disposition;

/// A requested change of the peer's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Change {
    /// The send limit before the request.
    pub(crate) old: u32,
    /// The requested size.
    pub(crate) want: u32,
}

impl Change {
    fn shrinks(self) -> bool {
        self.want < self.old
    }

    /// The size that the peer has, if `told` is what it has announced last and this is its
    /// response.
    fn settle(self, told: u32, response: Disposition) -> u32 {
        match response {
            Disposition::Done => self.want,
            Disposition::Rejected if self.shrinks() => told.min(self.old),
            Disposition::Rejected | Disposition::Pending => told,
            Disposition::Unclear => told.min(self.old).min(self.want),
        }
    }
}

/// A request without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Open {
    /// Its xid.
    pub(crate) xid: u32,
    /// Its number among the two-way messages.
    pub(crate) number: u32,
    /// The requested change; `None` for a request without entries.
    pub(crate) change: Option<Change>,
    /// Set if an update has finished it before its response.
    pub(crate) is_finished: bool,
}

/// The requests of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Requests {
    /// The request without a response.
    pub(crate) open: Option<Open>,
    /// The change that the peer has promised to finish by an update.
    pub(crate) pending: Option<Change>,
}

/// A response that was matched to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The number of the request among the two-way messages.
    pub(crate) number: u32,
    /// The size that the peer has.
    pub(crate) told: u32,
    /// Set if a change of size was requested.
    pub(crate) changes: bool,
}

impl Requests {
    /// Returns `true` if a request may be sent, for a change of size or without entries.
    pub(crate) fn may_ask(&self, changes: bool) -> bool {
        self.open.is_none() && !(changes && self.pending.is_some())
    }

    /// The size that is requested, and not settled.
    pub(crate) fn wanted(&self) -> Option<u32> {
        let open = self.open.and_then(|open| open.change);
        open.or(self.pending).map(|change| change.want)
    }

    /// A request is posted.
    pub(crate) fn ask(&mut self, xid: u32, number: u32, change: Option<Change>) {
        self.open = Some(Open {
            xid,
            number,
            change,
            is_finished: false,
        });
    }

    /// The largest size that may be used, whatever the peer announces: a size that was requested
    /// and is unanswered, and a smaller one also while it is pending.
    ///
    /// An update that was sent before the peer read the request announces a size that the peer
    /// gives up when it reads it, also if the request was one to grow.
    pub(crate) fn cap(&self) -> Option<u32> {
        let open = self.open.filter(|open| !open.is_finished);
        let unanswered = open.and_then(|open| open.change);
        let pending = self.pending.filter(|change| change.shrinks());
        unanswered.or(pending).map(|change| change.want)
    }

    /// A response has arrived, for a peer that has announced `told`. Returns `None` if no request
    /// has this xid.
    pub(crate) fn responded(
        &mut self,
        xid: u32,
        told: u32,
        response: Disposition,
    ) -> Option<Settled> {
        let open = self.open.take_if(|open| open.xid == xid)?;
        let told = match open.change {
            None => told,
            // The update has announced the value; the response cannot raise it.
            Some(change) if open.is_finished => change.settle(told, response).min(told),
            Some(change) => {
                if response == Disposition::Pending {
                    self.pending = Some(change);
                }
                change.settle(told, response)
            }
        };
        Some(Settled {
            number: open.number,
            told,
            changes: open.change.is_some(),
        })
    }

    /// An update has announced that the request for a change of size is finished. Returns `false`
    /// if no such request exists.
    pub(crate) fn finished(&mut self) -> bool {
        if self.pending.take().is_some() {
            return true;
        }
        match &mut self.open {
            Some(open) if open.change.is_some() => !core::mem::replace(&mut open.is_finished, true),
            _ => false,
        }
    }

    /// Returns `true` if `size` lies outside the change that is requested.
    pub(crate) fn is_outside(&self, size: u32) -> bool {
        let open = self.open.and_then(|open| open.change);
        open.or(self.pending).is_some_and(|change| {
            let (low, high) = (change.old.min(change.want), change.old.max(change.want));
            !(low..=high).contains(&size)
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_pending))]
mod tests {
    use super::*;

    const GROW: Change = Change {
        old: 4096,
        want: 16_384,
    };
    const SHRINK: Change = Change {
        old: 16_384,
        want: 4096,
    };

    fn open(change: Change) -> Requests {
        let mut requests = Requests::default();
        assert!(requests.may_ask(true));
        requests.ask(7, 3, Some(change));
        requests
    }

    fn told(change: Change, now: u32, response: Disposition) -> Option<u32> {
        let mut requests = open(change);
        let settled = requests.responded(7, now, response)?;
        assert!(settled.number == 3 && settled.changes && requests.open.is_none());
        Some(settled.told)
    }

    // XC-50, XC-51, XC-54, XC-55, XC-97: the size after each response.
    #[test]
    fn responses() {
        for (change, now, response, size) in [
            (GROW, 4096, Disposition::Done, 16_384),
            (GROW, 4096, Disposition::Rejected, 4096),
            (GROW, 4096, Disposition::Pending, 4096),
            (GROW, 4096, Disposition::Unclear, 4096),
            // An update has crossed the request.
            (GROW, 8192, Disposition::Rejected, 8192),
            (SHRINK, 16_384, Disposition::Done, 4096),
            (SHRINK, 16_384, Disposition::Rejected, 16_384),
            (SHRINK, 65_536, Disposition::Rejected, 16_384),
            (SHRINK, 8192, Disposition::Rejected, 8192),
            (SHRINK, 16_384, Disposition::Unclear, 4096),
        ] {
            assert_eq!(told(change, now, response), Some(size));
        }
    }

    // XC-72, XC-97: a requested size is not exceeded until it is answered.
    #[test]
    fn caps() {
        assert_eq!(Requests::default().cap(), None);
        let mut grow = open(GROW);
        assert_eq!(grow.cap(), Some(16_384));
        assert!(grow.responded(7, 4096, Disposition::Pending).is_some());
        assert_eq!((grow.cap(), grow.pending), (None, Some(GROW)));

        let mut shrink = open(SHRINK);
        assert_eq!(shrink.cap(), Some(4096));
        assert!(shrink.responded(7, 16_384, Disposition::Pending).is_some());
        assert_eq!(shrink.cap(), Some(4096));
        assert!(shrink.finished() && shrink.cap().is_none());
    }

    // XC-57: one request without a response, and none for a size that is pending.
    #[test]
    fn one_at_a_time() {
        let mut requests = open(GROW);
        assert!(!requests.may_ask(true) && !requests.may_ask(false));
        assert!(requests.responded(7, 4096, Disposition::Pending).is_some());
        assert!(!requests.may_ask(true) && requests.may_ask(false));
        assert!(requests.finished());
        assert!(requests.may_ask(true));
    }

    // XC-49, XC-56, XC-59: a response has the xid of its request, an update has nothing of it.
    #[test]
    fn foreign_responses() {
        let mut requests = open(GROW);
        assert_eq!(requests.responded(8, 4096, Disposition::Done), None);
        assert!(requests.open.is_some());
        assert!(requests.responded(7, 4096, Disposition::Done).is_some());
        assert_eq!(requests.responded(7, 4096, Disposition::Done), None);
    }

    // XC-65: finished before the response, so pending opens nothing.
    #[test]
    fn an_early_update() {
        let mut requests = open(GROW);
        assert!(requests.finished());
        assert_eq!(requests.cap(), None);
        assert!(!requests.may_ask(true) && !requests.finished());
        let settled = requests.responded(7, 8192, Disposition::Pending);
        assert_eq!(settled.map(|settled| settled.told), Some(8192));
        assert_eq!(requests, Requests::default());

        let mut requests = open(GROW);
        assert!(requests.finished());
        let settled = requests.responded(7, 8192, Disposition::Done);
        assert_eq!(settled.map(|settled| settled.told), Some(8192));
    }

    // XC-64: nothing is pending. XC-98: nor is it with a request without entries.
    #[test]
    fn nothing_to_finish() {
        let mut requests = Requests::default();
        assert!(!requests.finished());
        requests.ask(7, 3, None);
        assert!(!requests.finished() && requests.cap().is_none());
        let settled = requests.responded(7, 4096, Disposition::Unclear);
        let expected = Settled {
            number: 3,
            told: 4096,
            changes: false,
        };
        assert_eq!(settled, Some(expected));
    }

    // XC-100: outside old..requested.
    #[test]
    fn outside() {
        assert!(!Requests::default().is_outside(0));
        for requests in [open(GROW), open(SHRINK)] {
            for (size, outside) in [(4095, true), (4096, false), (16_384, false), (16_385, true)] {
                assert_eq!(requests.is_outside(size), outside);
            }
        }
    }
}
