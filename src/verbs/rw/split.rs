// SPDX-License-Identifier: GPL-2.0

//! Splits memory into the work requests of RDMA Reads and Writes. Pure.
//!
//! A work request reaches into one segment of the peer's memory, and has a limited number of
//! elements in ours. Runs of our memory that follow each other in the device's addresses are one
//! element.

use core::iter::{
    from_fn,
    Peekable, //
};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte: a multiple of the size of a page is the first byte of a page.
    pub(crate) at: u32,
    /// Length in bytes.
    pub(crate) len: u32,
}

/// Bytes of one page of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The number of the page.
    pub(super) page: u32,
    /// The first byte.
    pub(super) offset: u32,
    /// Length in bytes.
    pub(super) len: u32,
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

/// Splits `ranges` at the borders of pages of `size` bytes.
pub(super) fn spans(ranges: impl Iterator<Item = Range>, size: u32) -> impl Iterator<Item = Span> {
    // A page has bytes.
    let size = size.max(1);

    ranges.flat_map(move |range| {
        let (mut at, mut left) = (range.at, range.len);
        from_fn(move || {
            let (page, offset) = (at.checked_div(size)?, at.checked_rem(size)?);
            let len = left.min(size.saturating_sub(offset));
            if len == 0 {
                return None;
            }
            // A range beyond 4 GiB stays in the last page, which no set has.
            at = at.saturating_add(len);
            left = left.saturating_sub(len);
            Some(Span { page, offset, len })
        })
    })
}

/// Joins runs that follow each other, and leaves out empty ones.
pub(super) fn join(runs: impl Iterator<Item = Run>) -> impl Iterator<Item = Run> {
    let mut runs = runs.filter(|run| run.length != 0).peekable();

    from_fn(move || {
        let mut run = runs.next()?;
        while let Some(longer) = followed_by_next(run, &mut runs) {
            run = longer;
        }
        Some(run)
    })
}

/// `run`, with the next of `runs`, which is consumed, if it follows in memory.
fn followed_by_next(run: Run, runs: &mut Peekable<impl Iterator<Item = Run>>) -> Option<Run> {
    let end = run.addr.checked_add(run.length.into())?;
    let length = run.length.checked_add(runs.peek()?.length)?;

    runs.next_if(|next| next.addr == end)?;
    Some(Run { length, ..run })
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
    /// Splits requests of up to `most` elements, at least one.
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
            self.run = self.runs.find(|run| run.length != 0)?;
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

/// The work requests of `elements`.
pub(super) fn requests(elements: impl Iterator<Item = Element>) -> u32 {
    elements
        .filter(|element| element.is_first)
        .fold(0, |count, _| count.saturating_add(1))
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
