// SPDX-License-Identifier: GPL-2.0

//! Cursors over the bytes of a transport header, which is XDR: big-endian words of 4 bytes
//! (RFC 8166, section 4; RFC 4506).
//!
//! Both cursors move by fixed-size blocks and check the bounds once for each block, not for each
//! word.

/// The buffer has less room than the next block needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Reads from the front of a slice of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor that stands at the first byte of `bytes`.
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads one word; `None`, and no move, when fewer than 4 bytes are left.
    #[inline]
    pub(crate) fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// Reads `W` words; `None`, and no move, when fewer bytes are left than that.
    #[inline]
    pub(crate) fn words<const W: usize>(&mut self) -> Option<[u32; W]> {
        let block = self.take(const { W.saturating_mul(4) })?;
        let mut words = [0; W];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            if let Some(bytes) = bytes.first_chunk() {
                *word = u32::from_be_bytes(*bytes);
            }
        }
        Some(words)
    }

    /// Takes the next `bytes` bytes as they are; `None`, and no move, when fewer are left.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads opaque data of variable length: a word that counts its bytes, the bytes, and the
    /// padding to a whole word, whose content does not matter. `None`, and no move, when the
    /// message ends before.
    #[allow(dead_code, reason = "of version 2, which only the tests use yet")]
    #[inline]
    pub(crate) fn opaque(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = usize::try_from(ahead.word()?).ok()?;
        let padded = ahead.take(len.checked_next_multiple_of(4)?)?;
        *self = ahead;
        padded.get(..len)
    }
}

/// Writes to the front of a slice of bytes.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    room: usize,
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// A cursor that stands at the first byte of `bytes`.
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            room: bytes.len(),
            rest: bytes,
        }
    }

    /// The number of bytes written.
    #[inline]
    pub(crate) fn written(&self) -> usize {
        // NO-OVERFLOW: `rest` is a tail of the slice whose length is `room`.
        self.room.wrapping_sub(self.rest.len())
    }

    /// Writes `words`, 4 bytes each.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] when the words do not fit; nothing is written then.
    #[inline]
    pub(crate) fn words<const W: usize>(&mut self, words: [u32; W]) -> Result<(), NoRoom> {
        let block = self.block(const { W.saturating_mul(4) })?;
        for (bytes, word) in block.chunks_exact_mut(4).zip(words) {
            if let Some(bytes) = bytes.first_chunk_mut() {
                *bytes = word.to_be_bytes();
            }
        }
        Ok(())
    }

    /// Writes `pairs`, each two words, 8 bytes.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] when the pairs do not fit; nothing is written then.
    #[inline]
    pub(crate) fn pairs<const P: usize>(&mut self, pairs: [u64; P]) -> Result<(), NoRoom> {
        let block = self.block(const { P.saturating_mul(8) })?;
        for (bytes, pair) in block.chunks_exact_mut(8).zip(pairs) {
            if let Some(bytes) = bytes.first_chunk_mut() {
                *bytes = pair.to_be_bytes();
            }
        }
        Ok(())
    }

    /// Writes `data` as opaque data of variable length: its length, the bytes, zeros up to a whole
    /// word.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] when it does not fit, or its length does not fit into a word; nothing is written
    /// then.
    #[allow(dead_code, reason = "of version 2, which only the tests use yet")]
    pub(crate) fn opaque(&mut self, data: &[u8]) -> Result<(), NoRoom> {
        let len = u32::try_from(data.len()).map_err(|_| NoRoom)?;
        let padded = data.len().checked_next_multiple_of(4).ok_or(NoRoom)?;
        let block = self.block(padded.checked_add(4).ok_or(NoRoom)?)?;
        let (count, rest) = block.split_first_chunk_mut().ok_or(NoRoom)?;
        let (bytes, padding) = rest.split_at_mut_checked(data.len()).ok_or(NoRoom)?;
        *count = len.to_be_bytes();
        bytes.copy_from_slice(data);
        padding.fill(0);
        Ok(())
    }

    #[inline]
    fn block(&mut self, bytes: usize) -> Result<&'a mut [u8], NoRoom> {
        if bytes > self.rest.len() {
            return Err(NoRoom);
        }
        let (block, rest) = core::mem::take(&mut self.rest)
            .split_at_mut_checked(bytes)
            .ok_or(NoRoom)?;
        self.rest = rest;
        Ok(block)
    }
}

/// Two neighbouring words as one value, the first one in the upper half.
#[inline]
pub(crate) fn pair(first: u32, second: u32) -> u64 {
    (u64::from(first) << 32) | u64::from(second)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_xdr))]
mod tests {
    use super::*;

    // V1-1: big-endian words.
    #[test]
    fn words_are_big_endian() {
        let mut bytes = [0xee; 13];
        let mut writer = Writer::new(&mut bytes);
        assert_eq!(writer.words([0x0102_0304]), Ok(()));
        assert_eq!(writer.pairs([pair(0x0506_0708, 0x090a_0b0c)]), Ok(()));
        assert_eq!(writer.written(), 12);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xee]);

        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.word(), Some(0x0102_0304));
        assert_eq!(reader.words(), Some([0x0506_0708, 0x090a_0b0c]));
        assert_eq!(reader.rest(), [0xee].as_slice());
    }

    // V1-19: nothing is read past the end, and the cursor stays.
    #[test]
    fn reading_past_the_end() {
        let bytes = [0, 0, 0, 7, 0, 0, 0];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.words::<2>(), None);
        assert_eq!(reader.take(8), None);
        assert_eq!(reader.take(usize::MAX), None);
        assert_eq!(reader.word(), Some(7));
        assert_eq!(reader.word(), None);
        assert_eq!(reader.take(3), Some([0, 0, 0].as_slice()));
        assert_eq!(reader.take(0), Some([].as_slice()));
        assert_eq!(reader.take(1), None);
        assert_eq!(reader.words::<0>(), Some([]));
    }

    // V1-14: nothing is written beyond the buffer.
    #[test]
    fn writing_past_the_end() {
        let mut bytes = [0xee; 11];
        let mut writer = Writer::new(&mut bytes);
        assert_eq!(writer.words([1]), Ok(()));
        assert_eq!(writer.words([2, 3]), Err(NoRoom));
        assert_eq!(writer.pairs([4]), Err(NoRoom));
        assert_eq!(writer.written(), 4);
        assert_eq!(writer.words([5]), Ok(()));
        assert_eq!(writer.words([6]), Err(NoRoom));
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 5, 0xee, 0xee, 0xee]);
        assert_eq!(Writer::new(&mut []).words([7]), Err(NoRoom));
        assert_eq!(Writer::new(&mut []).words([]), Ok(()));
    }

    // V1-1, XC-2: opaque data of each length, padded with zeros.
    #[test]
    fn opaque_data() {
        let data = [1, 2, 3, 4, 5];
        for (len, room) in [(0, 4), (1, 8), (3, 8), (4, 8), (5, 12)] {
            let data = data.get(..len).unwrap_or_default();
            let mut bytes = [0xee; 12];
            let out = bytes.get_mut(..room).unwrap_or_default();
            let mut writer = Writer::new(out);
            assert_eq!(writer.opaque(data), Ok(()));
            assert_eq!(writer.written(), room);
            let written = bytes.get(..room).unwrap_or_default();
            let mut reader = Reader::new(written);
            assert_eq!(reader.opaque(), Some(data));
            assert_eq!(reader.rest(), [].as_slice());
            let end = len.wrapping_add(4);
            assert!(written.iter().skip(end).all(|byte| *byte == 0));
            for short in 0..room {
                let mut reader = Reader::new(written.get(..short).unwrap_or_default());
                assert_eq!(reader.opaque(), None);
                assert_eq!(reader.rest().len(), short);
                let mut bytes = [0xee; 12];
                let out = bytes.get_mut(..short).unwrap_or_default();
                assert_eq!(Writer::new(out).opaque(data), Err(NoRoom));
                assert!(bytes.iter().all(|byte| *byte == 0xee));
            }
        }
    }

    // XC-20: a length that no message can have.
    #[test]
    fn opaque_lengths() {
        for len in [9, 0x7fff_ffff, 0xffff_fffc, 0xffff_fffd, u32::MAX] {
            let mut bytes = [0; 12];
            assert_eq!(Writer::new(&mut bytes).words([len]), Ok(()));
            assert_eq!(Reader::new(&bytes).opaque(), None);
        }
    }
}
