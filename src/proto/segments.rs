// SPDX-License-Identifier: GPL-2.0

//! The most segments that a chunk can take, before its memory is registered.
//!
//! One registration, and so one segment, covers a limited number of pages of one piece of a message
//! (its head, page list or tail). A plan does not know the offset of a piece in its first page.

/// The most segments that `bytes` bytes in `pieces` pieces take.
///
/// A page has `page_size` bytes, a power of two; a registration covers `pages_per_segment` pages.
/// `None` if either is 0, or if the number exceeds 32 bits.
///
/// A piece of n bytes, n > 0, touches at most floor((n + page - 2) / page) + 1 pages, and so takes
/// at most floor((n + page - 2) / (page * pages per segment)) + 1 segments. The split of the bytes
/// between the pieces is not known, but the floors add up to no more than the floor of the sum.
#[inline]
pub(crate) fn most_segments(
    bytes: u32,
    pieces: u32,
    page_size: u32,
    pages_per_segment: u32,
) -> Option<u32> {
    let pieces = pieces.min(bytes);
    if pieces == 0 {
        return Some(0);
    }
    let shift = page_size.checked_ilog2()?;
    let slack = u64::from(page_size.saturating_sub(2)).saturating_mul(u64::from(pieces));
    let pages = u64::from(bytes).saturating_add(slack) >> shift;
    // A division of 64 bits is a library call on 32-bit machines, which the kernel does not have.
    let full = u32::try_from(pages).ok()?.checked_div(pages_per_segment)?;
    full.checked_add(pieces)
}

/// Returns `true` if `bytes` bytes in one piece, more than none, take one segment at most: if
/// [`most_segments`] is 1, without a division.
#[inline(always)]
pub(crate) fn is_one_segment(bytes: u32, page_size: u32, pages_per_segment: u32) -> bool {
    let most = u64::from(page_size).saturating_mul(u64::from(pages_per_segment));
    let slack = u64::from(page_size.saturating_sub(2));

    bytes != 0 && u64::from(bytes).saturating_add(slack) < most
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_segments))]
mod tests {
    use super::*;

    // V1-153: pieces that start anywhere in a page.
    #[test]
    fn counts() {
        for (bytes, pieces, pages_per_segment, count) in [
            (0, 0, 1, 0),
            (0, 2, 1, 0),
            (1, 1, 1, 1),
            (2, 1, 1, 2),
            (4096, 1, 1, 2),
            (4097, 1, 1, 2),
            (4098, 1, 1, 3),
            (1, 2, 1, 1),
            (3, 2, 1, 3),
            (4096, 1, 2, 1),
            (4097, 1, 2, 1),
            (4098, 1, 2, 2),
            (1 << 20, 1, 256, 2),
            (0xf_f001, 1, 256, 1),
            (0xf_f002, 1, 256, 2),
            (u32::MAX, 1, 1, 0x10_0001),
        ] {
            let found = most_segments(bytes, pieces, 4096, pages_per_segment);
            assert_eq!(found, Some(count));
            let is_one = is_one_segment(bytes, 4096, pages_per_segment);
            assert!(pieces != 1 || is_one == (count == 1));
        }
    }

    // V1-153: limits that make no sense, and numbers beyond 32 bits.
    #[test]
    fn nonsense() {
        assert_eq!(most_segments(1, 1, 0, 1), None);
        assert_eq!(most_segments(1, 1, 4096, 0), None);
        assert_eq!(most_segments(0, 1, 0, 0), Some(0));
        assert_eq!(most_segments(u32::MAX, u32::MAX, 4096, 1), None);
        assert_eq!(most_segments(u32::MAX, u32::MAX, u32::MAX, 1), None);
        assert_eq!(most_segments(u32::MAX, 1, 1, 1), None);
        assert_eq!(most_segments(u32::MAX - 1, 1, 1, 1), Some(u32::MAX));
    }
}
