// SPDX-License-Identifier: GPL-2.0

//! Splits memory into the work requests of RDMA Reads and Writes. Pure.
//!
//! A work request reaches into one segment of the peer's memory, and has a limited number of
//! elements in ours. Runs of our memory that follow each other in the device's addresses are one
//! element.

/// A segment of the peer's memory, as the peer addresses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The handle of its registration.
    pub(crate) handle: u32,
    /// Length in bytes.
    pub(crate) length: u32,
    /// The address of the first byte under that handle.
    pub(crate) offset: u64,
}

/// Bytes in the pages of a set, which count one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte: a multiple of the size of a page is the first byte of a page.
    pub(crate) at: u32,
    /// Length in bytes.
    pub(crate) len: u32,
}

/// A run of bytes of our memory, as the device addresses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The address of the first byte.
    pub(super) addr: u64,
    /// Length in bytes.
    pub(super) length: u32,
}

/// An element of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Our memory.
    pub(super) run: Run,
    /// The peer's memory, from the first byte of the element on.
    pub(super) handle: u32,
    pub(super) offset: u64,
    /// Set if the element is the first of its request.
    pub(super) is_first: bool,
}

/// The runs of ranges of pages. Each is as long as it can be, and none is empty.
pub(super) struct Runs<I, A> {
    ranges: I,
    /// The address of the page of a number.
    addr: A,
    /// Bytes of a page.
    size: u32,
    /// The rest of a range.
    range: Range,
    /// The run behind the last one, if it is known.
    ahead: Option<Run>,
}

impl<I: Iterator<Item = Range>, A: Fn(u32) -> Option<u64>> Runs<I, A> {
    /// The runs of `ranges` of pages of `size` bytes. They end where `addr` has no address.
    pub(super) fn new(ranges: I, size: u32, addr: A) -> Self {
        Self {
            ranges,
            addr,
            // A page has bytes.
            size: size.max(1),
            range: Range::default(),
            ahead: None,
        }
    }

    /// The next bytes of one page.
    fn in_page(&mut self) -> Option<Run> {
        if self.range.len == 0 {
            self.range = self.ranges.find(|range| range.len != 0)?;
        }
        let Range { at, len } = self.range;
        let (page, offset) = (at.checked_div(self.size)?, at.checked_rem(self.size)?);
        let length = len.min(self.size.saturating_sub(offset));
        // A range beyond 4 GiB stays in the last page, which no set has.
        self.range = Range {
            at: at.saturating_add(length),
            len: len.saturating_sub(length),
        };
        let addr = (self.addr)(page)?.checked_add(offset.into())?;
        Some(Run { addr, length })
    }
}

impl<I: Iterator<Item = Range>, A: Fn(u32) -> Option<u64>> Iterator for Runs<I, A> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut run = self.ahead.take().or_else(|| self.in_page())?;

        while let Some(next) = self.in_page() {
            match run.followed_by(next) {
                Some(longer) => run = longer,
                None => {
                    self.ahead = Some(next);
                    break;
                }
            }
        }
        Some(run)
    }
}

impl Run {
    /// It and `next` as one, if that follows in memory.
    fn followed_by(self, next: Self) -> Option<Self> {
        let length = self.length.checked_add(next.length)?;
        let end = self.addr.checked_add(self.length.into());

        (end == Some(next.addr)).then_some(Self { length, ..self })
    }
}

/// The elements of the work requests between our runs and the peer's segments, in order.
pub(super) struct Split<L, R> {
    runs: L,
    remotes: R,
    /// The rest of a run, and of a segment.
    run: Run,
    remote: Remote,
    /// Elements that the current request has room for.
    room: u32,
    /// Elements that a request may have.
    most: u32,
}

impl<L: Iterator<Item = Run>, R: Iterator<Item = Remote>> Split<L, R> {
    /// Splits requests of up to `most` elements, at least one. No run is empty.
    pub(super) fn new(runs: L, remotes: R, most: u32) -> Self {
        Self {
            runs,
            remotes,
            run: Run::default(),
            remote: Remote::default(),
            room: 0,
            most: most.max(1),
        }
    }

    /// Continues with `runs`, whose first element is the first of a request. Bytes that are left of
    /// the runs before come first.
    pub(super) fn set_runs(&mut self, runs: L) {
        self.runs = runs;
        self.room = 0;
    }

    /// Returns `true` if no byte of our memory is left: the segments were long enough.
    pub(super) fn is_exhausted(&mut self) -> bool {
        self.fetch_run().is_none()
    }

    /// The rest of the current run, or the next run with bytes.
    fn fetch_run(&mut self) -> Option<Run> {
        if self.run.length == 0 {
            self.run = self.runs.next()?;
        }
        Some(self.run)
    }
}

impl<L: Iterator<Item = Run>, R: Iterator<Item = Remote>> Iterator for Split<L, R> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let run = self.fetch_run()?;
        if self.remote.length == 0 {
            self.remote = self.remotes.find(|remote| remote.length != 0)?;
            self.room = 0;
        }
        let remote = self.remote;
        let is_first = self.room == 0;
        if is_first {
            self.room = self.most;
        }
        let length = run.length.min(remote.length);

        // Addresses that wrap around are the device's and the peer's own: neither is memory here.
        self.run.addr = run.addr.wrapping_add(length.into());
        self.run.length = run.length.saturating_sub(length);
        self.remote.offset = remote.offset.wrapping_add(length.into());
        self.remote.length = remote.length.saturating_sub(length);
        self.room = self.room.saturating_sub(1);
        Some(Element {
            run: Run { length, ..run },
            handle: remote.handle,
            offset: remote.offset,
            is_first,
        })
    }
}

/// The most work requests, each of up to `most` elements, between `runs` runs and `segments`
/// segments, for plans that are made before memory is mapped.
pub(crate) fn most_requests(runs: u32, segments: u32, most: u32) -> u32 {
    // A border of segments splits a run. The last request of a segment has at least one element.
    let more = runs.saturating_sub(1).checked_div(most.max(1));

    if runs == 0 || segments == 0 {
        0
    } else {
        segments.saturating_add(more.unwrap_or(0))
    }
}

/// Work requests in the arrays of a block.
pub(super) const ORDERS: [u32; 3] = [1, 4, 16];

/// The index in [`ORDERS`] of the block for `left` requests: the smallest that has room, or the
/// largest.
pub(super) fn order_for(left: u32) -> usize {
    ORDERS
        .iter()
        .position(|&size| left <= size)
        .unwrap_or(ORDERS.len().saturating_sub(1))
}
