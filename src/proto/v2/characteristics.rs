// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: properties of one end that the other may rely on (xchar sections 2
//! and 3).
//!
//! | view | bytes |
//! |---|---|
//! | [`Entry`] (`xcharval`) | id, length of the data, data, padding |
//! | [`Set`] (`xcharspec`) | number of entries, entries |
//! | [`Subset`] (`xcharsubset`) | number of words, words; bit n mod 32 of word n / 32 is entry n |
//!
//! The views borrow bytes of a received message, which their constructors check, so that walking
//! them cannot fail. [`TABLE`] has the characteristics that are known here. Entries with other ids,
//! experimental ones among them, are bytes, and disturb nothing (XC-9, XC-27, XC-87).

use super::{
    super::{
        neutral::{
            ChangedBy,
            Kind,
            Row,
            Value, //
        },
        xdr::Reader, //
    },
    defect::Defect, //
};

/// The id of `XCHAR_RBSIZ`: the bytes of the smallest Receive that the end posts.
pub(crate) const RBSIZ: u32 = 1;
/// The id of `XCHAR_REQREMINV`: as a requester the end takes Send With Invalidate.
pub(crate) const REQREMINV: u32 = 2;
/// The id of `XCHAR_BRS`: the kind of reverse calls that the end takes.
pub(crate) const BRS: u32 = 3;

/// The value of `XCHAR_BRS` for no reverse calls.
pub(crate) const BKREQSUP_NONE: u32 = 0;
/// The value of `XCHAR_BRS` for reverse calls without chunks.
pub(crate) const BKREQSUP_INLINE: u32 = 1;
/// The value of `XCHAR_BRS` for reverse calls that are as any other.
pub(crate) const BKREQSUP_GENL: u32 = 2;

/// The lowest of the ids for experiments, which no document defines.
pub(crate) const EXPERIMENTAL: u32 = 0xffff_ff00;

/// The known characteristics; a peer's have the values here until it sends others (XC-21).
pub(crate) const TABLE: [Row; 3] = [
    Row {
        id: RBSIZ,
        name: "XCHAR_RBSIZ",
        kind: Kind::Word,
        default: Value::Word(4096),
        changed_by: ChangedBy::Owner,
    },
    Row {
        id: REQREMINV,
        name: "XCHAR_REQREMINV",
        kind: Kind::Flag,
        default: Value::Flag(false),
        changed_by: ChangedBy::None,
    },
    Row {
        id: BRS,
        name: "XCHAR_BRS",
        kind: Kind::Choice(3),
        default: Value::Choice(BKREQSUP_INLINE),
        changed_by: ChangedBy::None,
    },
];

/// The characteristic with an id; `None` for unknown and experimental ones.
#[inline]
pub(crate) fn known(id: u32) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.id == id)
}

/// One characteristic and a value for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Its id.
    pub(crate) id: u32,
    /// Its value; [`Value::Opaque`] for an id that is not known.
    pub(crate) value: Value<'a>,
}

impl<'a> Entry<'a> {
    /// Takes an entry from the front of `info`.
    ///
    /// # Errors
    ///
    /// [`Defect::Operation`] if it ends early, [`Defect::Data`] if the data of a known
    /// characteristic is not of its type.
    #[inline]
    pub(crate) fn decode(info: &mut Reader<'a>) -> Result<Self, Defect> {
        let id = info.word().ok_or(Defect::Operation)?;
        let data = info.opaque().ok_or(Defect::Operation)?;
        let kind = known(id).map_or(Kind::Opaque, |row| row.kind);
        let value = kind.decode(data).ok_or(Defect::Data)?;
        Ok(Self { id, value })
    }
}

/// The place of a characteristic in a [`Set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// It is not there.
    Absent,
    /// It is there once.
    Once {
        /// The index of the entry.
        at: usize,
        /// The value.
        value: Value<'a>,
    },
    /// It is there several times, and no copy counts (XC-13).
    Repeated,
}

/// A received array of characteristics.
///
/// # Invariants
///
/// `entries` is exactly `count` entries, each of them decodable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set<'a> {
    entries: Reader<'a>,
    count: usize,
}

impl<'a> Set<'a> {
    /// Takes an array from the front of `info`, and checks all its entries (XC-10).
    ///
    /// # Errors
    ///
    /// As [`Entry::decode`].
    pub(crate) fn decode(info: &mut Reader<'a>) -> Result<Self, Defect> {
        let wanted = info.word().ok_or(Defect::Operation)?;
        let all = info.rest();
        let mut count = 0_usize;
        // A count beyond the message fails at its end: an entry takes 8 bytes at least.
        for _ in 0..wanted {
            Entry::decode(info)?;
            count = count.saturating_add(1);
        }
        // INVARIANT: the loop walked `count` entries up to the rest of `info`.
        let len = all.len().saturating_sub(info.rest().len());
        let entries = all.get(..len).ok_or(Defect::Operation)?;
        Ok(Self {
            entries: Reader::new(entries),
            count,
        })
    }

    /// The number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The entries in their order, which has no meaning but for subsets (XC-12).
    pub(crate) const fn entries(&self) -> Entries<'a> {
        Entries { rest: self.entries }
    }

    /// Looks for the characteristic `id`.
    pub(crate) fn find(&self, id: u32) -> Found<'a> {
        let mut found = Found::Absent;
        // `enumerate` has a call to panic.
        let mut at = 0_usize;
        for Entry { id: other, value } in self.entries() {
            if other == id {
                found = match found {
                    Found::Absent => Found::Once { at, value },
                    Found::Once { .. } | Found::Repeated => Found::Repeated,
                };
            }
            at = at.saturating_add(1);
        }
        found
    }
}

/// Walks through the entries of a [`Set`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        // By the type invariant of `Set` this fails only at the end.
        Entry::decode(&mut self.rest).ok()
    }
}

/// A received selection of the entries of a [`Set`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subset<'a> {
    words: &'a [u8],
}

impl<'a> Subset<'a> {
    /// Takes a subset from the front of `info`.
    ///
    /// # Errors
    ///
    /// [`Defect::Operation`] if it ends early.
    pub(crate) fn decode(info: &mut Reader<'a>) -> Result<Self, Defect> {
        let count = info.word().ok_or(Defect::Operation)?;
        let words = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(4))
            .and_then(|bytes| info.take(bytes))
            .ok_or(Defect::Operation)?;
        Ok(Self { words })
    }

    /// The words.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + 'a {
        self.words.chunks_exact(4).filter_map(word)
    }

    /// Returns `true` if entry `at` is selected. Bit 0 is the least significant one (XC-15, XC-16);
    /// words that are not there count as 0 (XC-17).
    pub(crate) fn contains(&self, at: usize) -> bool {
        let word = self.words.chunks_exact(4).nth(at / 32).and_then(word);
        word.unwrap_or(0).wrapping_shr(place(at)) & 1 == 1
    }

    /// Returns `true` if a bit is set that belongs to none of `entries` entries; it is ignored, and
    /// worth a counter (XC-18).
    pub(crate) fn exceeds(&self, entries: usize) -> bool {
        let mut words = self.words().skip(entries / 32);
        let last = words.next().unwrap_or(0).wrapping_shr(place(entries));
        last != 0 || words.any(|word| word != 0)
    }
}

#[inline]
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// The number of the bit of entry `at` in its word.
pub(crate) fn place(at: usize) -> u32 {
    u32::try_from(at % 32).unwrap_or(0)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_characteristics))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // XC-21, XC-26, XC-27, XC-68, XC-77, XC-82: the table; all other ids are unknown.
    #[test]
    fn table() {
        let ids = TABLE.map(|row| (row.id, row.name, row.default));
        let expected = [
            (1, "XCHAR_RBSIZ", Value::Word(4096)),
            (2, "XCHAR_REQREMINV", Value::Flag(false)),
            (3, "XCHAR_BRS", Value::Choice(1)),
        ];
        assert_eq!(ids, expected);
        for row in &TABLE {
            assert_eq!(known(row.id), Some(row));
        }
        for id in [0, 4, 99, EXPERIMENTAL, u32::MAX] {
            assert_eq!(known(id), None);
        }
    }

    // XC-71, XC-81: only the size of the Receives changes during a connection.
    #[test]
    fn changes() {
        let changing = TABLE
            .iter()
            .filter(|row| row.changed_by == ChangedBy::Owner);
        assert!(changing.map(|row| row.id).eq([RBSIZ]));
    }

    // TV-XC-1, TV-XC-2, XC-2, XC-3, XC-9, XC-87: known entries have values, all others bytes.
    #[test]
    fn sets() {
        let message = Message::new(&TV_XC_1);
        let set = set(&message);
        assert_eq!(set.len(), 3);
        let ids = [
            (1, Value::Word(8192)),
            (2, Value::Flag(true)),
            (3, Value::Choice(1)),
        ];
        assert!(set.entries().map(|entry| (entry.id, entry.value)).eq(ids));

        let message = Message::new(&TV_XC_2);
        let set = self::set(&message);
        assert_eq!(set.len(), 3);
        let expected = Entry {
            id: 0xffff_ff01,
            value: Value::Opaque(b"hello"),
        };
        assert_eq!(set.entries().nth(2), Some(expected));
        assert_eq!(set.entries().count(), 3);
    }

    // TV-M-31, XC-9, XC-12, XC-13: characteristics are found in any place, once.
    #[test]
    fn finding() {
        let message = Message::new(&TV_XC_1);
        let once = |at, value| Found::Once { at, value };
        assert_eq!(set(&message).find(RBSIZ), once(0, Value::Word(8192)));
        assert_eq!(set(&message).find(BRS), once(2, Value::Choice(1)));
        assert_eq!(set(&message).find(99), Found::Absent);
        let unknown = message.put(32, 99);
        assert_eq!(set(&unknown).find(RBSIZ), Found::Absent);
        let opaque = Value::Opaque(&[0, 0, 0x20, 0]);
        assert_eq!(set(&unknown).find(99), once(0, opaque));
        let moved = message.put(32, 3).put(40, 2).put(56, 1);
        assert_eq!(set(&moved).find(RBSIZ), once(2, Value::Word(1)));
        let twice = message.put(56, 1);
        assert_eq!(set(&twice).find(RBSIZ), Found::Repeated);
        assert_eq!(set(&twice).find(REQREMINV), once(1, Value::Flag(true)));
    }

    // TV-M-26..TV-M-30, TV-M-39, XC-4, XC-5, XC-6, XC-7, XC-8, XC-20: data of a
    // wrong length or value, and counts.
    #[test]
    fn bad_sets() {
        let message = Message::new(&TV_XC_1);
        for (at, word, defect) in [
            (36, 0x1000, Defect::Operation),
            (36, u32::MAX, Defect::Operation),
            (36, 2, Defect::Data),
            (36, 3, Defect::Data),
            (36, 5, Defect::Data),
            (52, 2, Defect::Data),
            (52, 0x0100_0000, Defect::Data),
            (64, 3, Defect::Data),
            (28, 0x2000_0000, Defect::Operation),
            (28, u32::MAX, Defect::Operation),
        ] {
            assert_eq!(decode(&message.put(at, word)), Err(defect));
        }
        for len in 28..68 {
            assert_eq!(decode(&message.cut(len)), Err(Defect::Operation));
        }
        let unknown = message.put(32, 4).put(36, 2);
        assert_eq!(decode(&unknown), Ok(3));
    }

    // TV-XC-6, XC-14: no entries.
    #[test]
    fn empty_sets() {
        let message = Message::new(&TV_XC_6);
        assert_eq!(decode(&message), Ok(0));
        assert_eq!(set(&message).entries().next(), None);
    }

    // TV-XC-7, XC-15, XC-16, XC-17: the bits of a subset.
    #[test]
    fn subsets() {
        let message = Message::new(&[2, 0x8000_0001, 0x0000_0101]);
        let subset = subset(&message);
        let selected = (0..1000).filter(|at| subset.contains(*at));
        assert!(selected.eq([0, 31, 32, 40]));
        assert!(subset.words().eq([0x8000_0001, 0x101]));
        assert!(!Subset::default().contains(0) && !Subset::default().exceeds(0));
        for len in 0..12 {
            let mut info = Reader::new(message.bytes().get(..len).unwrap_or_default());
            assert_eq!(Subset::decode(&mut info), Err(Defect::Operation));
        }
        for count in [3, 0x4000_0000, 0x4000_0001, u32::MAX] {
            let message = message.put(0, count);
            let found = Subset::decode(&mut Reader::new(message.bytes()));
            assert_eq!(found, Err(Defect::Operation));
        }
    }

    // TV-M-32, XC-18: bits and words beyond the entries.
    #[test]
    fn bits_beyond() {
        let message = Message::new(&[2, 0x8000_0001, 0x0000_0101]);
        for (entries, exceeds) in [
            (0, true),
            (1, true),
            (32, true),
            (33, true),
            (40, true),
            (41, false),
            (64, false),
            (1000, false),
        ] {
            assert_eq!(subset(&message).exceeds(entries), exceeds);
        }
        let message = Message::new(&[3, 1, 0, 0]);
        assert!(!subset(&message).exceeds(1) && subset(&message).exceeds(0));
        assert!(subset(&message.put(12, 1)).exceeds(64));
    }

    fn decode(message: &Message) -> Result<usize, Defect> {
        let info = message.bytes().get(28..).unwrap_or_default();
        Set::decode(&mut Reader::new(info)).map(|set| set.entries().count())
    }

    // The set in front of a message's `rdma_optinfo`.
    fn set(message: &Message) -> Set<'_> {
        let info = message.bytes().get(28..).unwrap_or_default();
        Set::decode(&mut Reader::new(info)).unwrap_or_default()
    }

    fn subset(message: &Message) -> Subset<'_> {
        Subset::decode(&mut Reader::new(message.bytes())).unwrap_or_default()
    }
}
