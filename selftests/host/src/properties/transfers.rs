// SPDX-License-Identifier: GPL-2.0

//! The requests of a transfer, compared with its bytes one by one.

use proptest::{collection::vec, prelude::*};

use super::split::{most_requests, order_for, Element, Range, Remote, Run, Runs, Split, ORDERS};

/// Runs of our memory: a gap in the addresses before each, which is mostly none, and its length.
fn runs() -> impl Strategy<Value = Vec<Run>> {
    let gap = prop_oneof![3 => Just(0_u64), 1 => 1..9_u64];
    vec((gap, 1..20_u32), 0..12).prop_map(|runs| {
        let mut at = 1 << 33;
        runs.into_iter()
            .map(|(gap, length)| {
                let addr = at + gap;
                at = addr + u64::from(length);
                Run { addr, length }
            })
            .collect()
    })
}

/// Segments of the peer's memory.
fn remotes() -> impl Strategy<Value = Vec<Remote>> {
    vec((any::<u32>(), 0..40_u32, any::<u64>()), 0..8).prop_map(|remotes| {
        remotes
            .into_iter()
            .map(|(handle, length, offset)| Remote {
                handle,
                length,
                offset,
            })
            .collect()
    })
}

/// Each byte of `runs`.
fn bytes(runs: impl IntoIterator<Item = Run>) -> Vec<u64> {
    runs.into_iter()
        .flat_map(|run| (0..u64::from(run.length)).map(move |at| run.addr + at))
        .collect()
}

/// Each byte of `remotes`, with the number of its segment.
fn remote_bytes(remotes: &[Remote]) -> Vec<(usize, u32, u64)> {
    remotes
        .iter()
        .enumerate()
        .flat_map(|(number, remote)| {
            (0..u64::from(remote.length))
                .map(move |at| (number, remote.handle, remote.offset.wrapping_add(at)))
        })
        .collect()
}

/// The elements of each request.
fn by_request(elements: &[Element]) -> Vec<&[Element]> {
    let is_next = |_: &Element, next: &Element| !next.is_first;
    elements.chunk_by(is_next).collect()
}

proptest! {
    /// Each byte of ours meets the byte of the peer's with the same number; a request has no more
    /// elements than it may, in one segment; requests and elements are no more than they need to
    /// be.
    #[test]
    fn bytes_meet(runs in runs(), remotes in remotes(), most in 1..6_u32) {
        let mut split = Split::new(runs.iter().copied(), remotes.iter().copied(), most);
        let elements: Vec<_> = split.by_ref().collect();
        let (ours, theirs) = (bytes(runs.iter().copied()), remote_bytes(&remotes));
        let count = ours.len().min(theirs.len());

        prop_assert_eq!(split.is_exhausted(), ours.len() <= theirs.len());
        prop_assert_eq!(bytes(elements.iter().map(|element| element.run)), &ours[..count]);
        let mut at = 0;
        for request in by_request(&elements) {
            prop_assert!(request[0].is_first && request.len() <= most as usize);
            let segment = theirs[at].0;
            for element in request {
                for byte in 0..u64::from(element.run.length) {
                    let reached = (segment, element.handle, element.offset.wrapping_add(byte));
                    prop_assert_eq!(reached, theirs[at]);
                    at += 1;
                }
            }
        }
        let known = by_request(&elements).len();
        prop_assert!(known <= most_requests(runs.len() as u32, remotes.len() as u32, most) as usize);
    }

    /// The bytes of ranges, page by page, in runs of which none is empty, and none follows another.
    #[test]
    fn pages(
        ranges in vec((0..500_u32, 0..200_u32), 0..5),
        size in 1..70_u32,
        gaps in vec(prop_oneof![3 => Just(0_u64), 1 => 1..9_u64], 700),
    ) {
        let ranges: Vec<_> = ranges.into_iter().map(|(at, len)| Range { at, len }).collect();
        // Pages that mostly follow each other.
        let mut next = 1 << 33;
        let pages: Vec<u64> = gaps
            .iter()
            .map(|gap| {
                let addr = next + gap;
                next = addr + u64::from(size);
                addr
            })
            .collect();
        let addr = |page: u32| pages.get(page as usize).copied();
        let runs: Vec<_> = Runs::new(ranges.iter().copied(), size, addr).collect();
        let all = ranges
            .iter()
            .flat_map(|range| range.at..range.at + range.len)
            .map(|at| pages[(at / size) as usize] + u64::from(at % size));

        prop_assert_eq!(bytes(runs.iter().copied()), all.collect::<Vec<_>>());
        prop_assert!(runs.iter().all(|run| run.length != 0));
        for pair in runs.windows(2) {
            prop_assert!(pair[0].addr + u64::from(pair[0].length) != pair[1].addr);
        }
    }

    /// The elements after new runs begin a request, in the rest of the segment.
    #[test]
    fn continued(first in 1..50_u32, second in 1..50_u32, remotes in remotes()) {
        let run = |length| Run { addr: 1 << 20, length };
        let mut split = Split::new(std::iter::once(run(first)), remotes.iter().copied(), 9);
        let mut elements: Vec<_> = split.by_ref().collect();
        let is_all = split.is_exhausted();
        if is_all {
            split.set_runs(std::iter::once(run(second)));
            let begin = elements.len();
            elements.extend(split.by_ref());
            prop_assert!(elements.get(begin).is_none_or(|element| element.is_first));
        }
        let reached: Vec<_> = elements
            .iter()
            .flat_map(|element| {
                (0..u64::from(element.run.length))
                    .map(|at| (element.handle, element.offset.wrapping_add(at)))
            })
            .collect();
        let there = remote_bytes(&remotes).into_iter().map(|(_, handle, offset)| (handle, offset));
        let wanted = first + if is_all { second } else { 0 };
        prop_assert_eq!(reached, there.take(wanted as usize).collect::<Vec<_>>());
    }
}

/// The bounds of plans, and addresses at the ends of their types.
#[test]
fn borders() {
    for (runs, segments, most, count) in [
        (0, 4, 1, 0),
        (4, 0, 1, 0),
        (1, 1, 1, 1),
        (256, 1, 19, 14),
        (256, 1, 5, 52),
        (1, 3, 5, 3),
        (u32::MAX, u32::MAX, 0, u32::MAX),
    ] {
        assert_eq!(most_requests(runs, segments, most), count);
    }
    for (left, order) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (16, 2), (999, 2)] {
        assert_eq!(order_for(left), order);
    }
    assert_eq!(ORDERS, [1, 4, 16]);

    let range = |at, len| Range { at, len };
    // Addresses that end where their type does, lengths that do, and pages that are missing.
    let ends = |page: u32| match page {
        0 => Some(u64::MAX - 1),
        1 => Some(0),
        _ => None,
    };
    let found: Vec<_> = Runs::new([range(0, 4)].into_iter(), 2, ends).collect();
    let (addr, length) = (u64::MAX - 1, 2);
    assert_eq!(found, [Run { addr, length }, Run { addr: 0, length }]);
    let follow = |page: u32| Some(u64::from(page) * 0x8000_0000);
    let whole = [range(0, u32::MAX), range(u32::MAX, 1)];
    let found: Vec<_> = Runs::new(whole.into_iter(), 0x8000_0000, follow).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(Runs::new([range(4, 1)].into_iter(), 2, ends).count(), 0);
    let last = |page: u32| (page != (1 << 20) - 1).then_some(0);
    assert_eq!(
        Runs::new([range(u32::MAX - 1, 9)].into_iter(), 4096, last).count(),
        0
    );
    assert_eq!(
        Runs::new([range(0, 2)].into_iter(), 0, |_| Some(0)).count(),
        2
    );
}
