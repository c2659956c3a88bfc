// SPDX-License-Identifier: GPL-2.0

//! The operations of an `RDMA2_OPTIONAL`, which exchange characteristics between the ends (xchar
//! section 4).
//!
//! | code | operation | `rdma_optinfo` |
//! |---|---|---|
//! | 1 | `ROPT_INITXCH`: my characteristics | set; the subset that will not change |
//! | 2 | `ROPT_REQXCH`: change yours | set |
//! | 3 | `ROPT_RESPXCH`: the reply to it | three subsets of it: done, rejected, pending |
//! | 4 | `ROPT_UPDXCH`: this one of mine is now | entry; whether that ends your request |

use super::{
    super::{
        neutral::Direction,
        xdr::Reader, //
    },
    characteristics::{
        Entry,
        Set,
        Subset, //
    },
    defect::{
        Defect,
        Reason, //
    }, //
};

/// The operations that are known here (XC-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// `ROPT_INITXCH`.
    Initxch,
    /// `ROPT_REQXCH`.
    Reqxch,
    /// `ROPT_RESPXCH`.
    Respxch,
    /// `ROPT_UPDXCH`.
    Updxch,
}

impl Code {
    /// All of them, in the order of their words.
    pub(crate) const ALL: [Self; 4] = [Self::Initxch, Self::Reqxch, Self::Respxch, Self::Updxch];

    /// The word on the wire.
    pub(crate) const fn word(self) -> u32 {
        match self {
            Self::Initxch => 1,
            Self::Reqxch => 2,
            Self::Respxch => 3,
            Self::Updxch => 4,
        }
    }

    /// The operation that a word on the wire stands for; `None` for unknown ones.
    pub(crate) fn from_word(word: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.word() == word)
    }

    /// The name without its prefix.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Initxch => "INITXCH",
            Self::Reqxch => "REQXCH",
            Self::Respxch => "RESPXCH",
            Self::Updxch => "UPDXCH",
        }
    }

    /// The direction of a message with this operation, as we send it (XC-35).
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Self::Respxch => Direction::Reply,
            Self::Initxch | Self::Reqxch | Self::Updxch => Direction::Call,
        }
    }

    /// Returns `true` if a received message with this operation may have that direction. One-way
    /// operations may have either, since the role of their sender is not defined (XC-35).
    pub(crate) fn may_come(self, direction: Direction) -> bool {
        matches!(self, Self::Initxch | Self::Updxch) || direction == self.direction()
    }
}

/// A request of ours, to which a message of the peer is the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// An RPC call.
    Call,
    /// A `ROPT_REQXCH`.
    Reqxch,
}

impl Request {
    /// The request that an operation with this word responds to.
    pub(crate) fn of(operation: u32) -> Option<Self> {
        (Code::from_word(operation) == Some(Code::Respxch)).then_some(Self::Reqxch)
    }
}

/// The outcome of one entry of a `ROPT_REQXCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value is in force.
    Done,
    /// It is not, and will not be.
    Rejected,
    /// One or more `ROPT_UPDXCH` will follow.
    Pending,
}

/// The body of a `ROPT_RESPXCH`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    /// The entries that are done.
    pub(crate) done: Subset<'a>,
    /// The entries that are rejected.
    pub(crate) rej: Subset<'a>,
    /// The entries that are pending.
    pub(crate) pend: Subset<'a>,
}

impl Response<'_> {
    /// The outcome of entry `at`, and whether the peer named just one. With several, rejected
    /// counts before pending and that before done (XC-54); with none it is rejected (XC-55).
    pub(crate) fn outcome(&self, at: usize) -> (Outcome, bool) {
        let named = [&self.rej, &self.pend, &self.done].map(|subset| subset.contains(at));
        match named {
            [true, pending, done] => (Outcome::Rejected, !pending && !done),
            [false, true, done] => (Outcome::Pending, !done),
            [false, false, true] => (Outcome::Done, true),
            [false, false, false] => (Outcome::Rejected, false),
        }
    }
}

/// A received operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    /// The peer's characteristics.
    Initxch {
        /// Their values; others have their defaults.
        start: Set<'a>,
        /// The entries that are not expected to change (XC-42).
        nochg: Subset<'a>,
    },
    /// A request to change characteristics of ours.
    Reqxch {
        /// The values that the peer wants.
        want: Set<'a>,
    },
    /// The reply to a request of ours.
    Respxch(Response<'a>),
    /// A characteristic of the peer has changed, or a request for that is over.
    Updxch {
        /// The value in force.
        now: Entry<'a>,
        /// The request for this characteristic is finished (XC-62).
        pendclr: bool,
    },
}

impl Operation<'_> {
    /// Its code.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::Initxch { .. } => Code::Initxch,
            Self::Reqxch { .. } => Code::Reqxch,
            Self::Respxch(_) => Code::Respxch,
            Self::Updxch { .. } => Code::Updxch,
        }
    }

    /// Returns `true` if a subset has bits for more entries than there are: no request of ours has
    /// more than one (XC-18).
    pub(crate) fn has_more_bits(&self) -> bool {
        match self {
            Self::Initxch { start, nochg } => nochg.exceeds(start.len()),
            Self::Respxch(Response { done, rej, pend }) => {
                [done, rej, pend].iter().any(|subset| subset.exceeds(1))
            }
            Self::Reqxch { .. } | Self::Updxch { .. } => false,
        }
    }
}

impl<'a> Operation<'a> {
    /// The operation with the code `word` in a received message: known, in a direction that it may
    /// have, well-formed.
    ///
    /// # Errors
    ///
    /// The reason why it is none of these.
    pub(crate) fn receive(word: u32, direction: Direction, info: &'a [u8]) -> Result<Self, Reason> {
        let code = Code::from_word(word).ok_or(Reason::Operation)?;
        if !code.may_come(direction) {
            return Err(Reason::Direction);
        }
        Self::decode(code, info).map_err(Reason::Defect)
    }

    /// Takes `info`, the `rdma_optinfo` of an operation, apart, and checks all of it (XC-10).
    ///
    /// # Errors
    ///
    /// The [`Defect`]; that it ends early, or bytes are left over (XC-11), are two of them.
    pub(crate) fn decode(code: Code, info: &'a [u8]) -> Result<Self, Defect> {
        let mut info = Reader::new(info);
        let operation = match code {
            Code::Initxch => Self::Initxch {
                start: Set::decode(&mut info)?,
                nochg: Subset::decode(&mut info)?,
            },
            Code::Reqxch => Self::Reqxch {
                want: Set::decode(&mut info)?,
            },
            Code::Respxch => Self::Respxch(Response {
                done: Subset::decode(&mut info)?,
                rej: Subset::decode(&mut info)?,
                pend: Subset::decode(&mut info)?,
            }),
            Code::Updxch => Self::Updxch {
                now: Entry::decode(&mut info)?,
                pendclr: flag(&mut info)?,
            },
        };
        if info.rest().is_empty() {
            Ok(operation)
        } else {
            Err(Defect::Leftover)
        }
    }
}

/// Takes a boolean.
fn flag(info: &mut Reader<'_>) -> Result<bool, Defect> {
    match info.word() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Defect::Flag),
        None => Err(Defect::Operation),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_operations))]
mod tests {
    use super::{
        super::{
            super::{
                neutral::Value,
                vectors::*, //
            },
            characteristics::*,
            vectors::*, //
        },
        *, //
    };

    // V2-42, XC-29, XC-35, XC-36: the codes, and the directions of each.
    #[test]
    fn codes() {
        for (at, code) in (1..).zip(Code::ALL) {
            assert_eq!(code.word(), at);
            assert_eq!(Code::from_word(at), Some(code));
        }
        for word in [0, 5, 99, 0x0100_0000, u32::MAX] {
            assert_eq!(Code::from_word(word), None);
        }
        let both = [Direction::Call, Direction::Reply];
        for (code, may) in [
            (Code::Initxch, [true, true]),
            (Code::Reqxch, [true, false]),
            (Code::Respxch, [false, true]),
            (Code::Updxch, [true, true]),
        ] {
            assert_eq!(both.map(|direction| code.may_come(direction)), may);
            assert!(code.may_come(code.direction()));
        }
        assert_eq!(Code::Initxch.direction(), Direction::Call);
        assert_eq!(Code::Updxch.direction(), Direction::Call);
    }

    // TV-XC-1, TV-XC-6, XC-42: the characteristics of an end.
    #[test]
    fn initxch() {
        let message = Message::new(&TV_XC_1);
        let (start, nochg) = match decode(Code::Initxch, &message) {
            Ok(Operation::Initxch { start, nochg }) => (start, nochg),
            _ => Default::default(),
        };
        assert_eq!(start.len(), 3);
        assert!([0, 1, 2].iter().all(|at| nochg.contains(*at)));
        assert!(!nochg.contains(3) && !nochg.exceeds(3) && nochg.exceeds(2));

        let message = Message::new(&TV_XC_6);
        let empty = match decode(Code::Initxch, &message) {
            Ok(Operation::Initxch { start, nochg }) => (start.len(), nochg.words().count()),
            _ => (9, 9),
        };
        assert_eq!(empty, (0, 0));
    }

    // TV-XC-2, TV-XC-8, TV-XC-10, XC-14: requests, one of them without entries.
    #[test]
    fn reqxch() {
        for (words, entries) in [
            (TV_XC_2.as_slice(), 3),
            (TV_XC_8.as_slice(), 0),
            (TV_XC_10.as_slice(), 1),
        ] {
            let message = Message::new(words);
            assert!(matches!(
                decode(Code::Reqxch, &message),
                Ok(Operation::Reqxch { want }) if want.len() == entries
            ));
        }
    }

    // TV-XC-3, TV-XC-9, TV-XC-11, TV-M-33, XC-50, XC-51, XC-52, XC-54, XC-55: the outcome of each
    // entry, whether or not the subsets overlap.
    #[test]
    fn respxch() {
        use Outcome::*;
        let regular = [(Pending, true), (Done, true), (Rejected, true)];
        assert_eq!(outcomes(&Message::new(&TV_XC_3)), regular);
        let none = [(Rejected, false); 3];
        assert_eq!(outcomes(&Message::new(&TV_XC_9)), none);
        let pending = [(Pending, true), (Rejected, false), (Rejected, false)];
        assert_eq!(outcomes(&Message::new(&TV_XC_11)), pending);
        let overlap = [(Pending, true), (Rejected, false), (Rejected, false)];
        assert_eq!(outcomes(&Message::new(&TV_XC_3).put(32, 4)), overlap);

        // Entry 0 in each combination.
        let message = Message::new(&TV_XC_3);
        for (done, rej, pend, expected) in [
            (0, 0, 0, (Rejected, false)),
            (1, 0, 0, (Done, true)),
            (0, 1, 0, (Rejected, true)),
            (0, 0, 1, (Pending, true)),
            (1, 1, 0, (Rejected, false)),
            (1, 0, 1, (Pending, false)),
            (0, 1, 1, (Rejected, false)),
            (1, 1, 1, (Rejected, false)),
        ] {
            let message = message.put(32, done).put(40, rej).put(48, pend);
            assert_eq!(outcomes(&message).first(), Some(&expected));
        }
    }

    // TV-XC-4, TV-XC-5, TV-XC-12, TV-M-40, XC-58, XC-62, XC-63: updates; of an unknown id, too.
    #[test]
    fn updxch() {
        for (words, size, pendclr) in [
            (TV_XC_4.as_slice(), 8192, false),
            (TV_XC_5.as_slice(), 16384, true),
            (TV_XC_12.as_slice(), 16384, true),
        ] {
            let now = Entry {
                id: RBSIZ,
                value: Value::Word(size),
            };
            let message = Message::new(words);
            let found = decode(Code::Updxch, &message);
            assert_eq!(found, Ok(Operation::Updxch { now, pendclr }));
        }
        let message = Message::new(&TV_XC_5).put(28, 99);
        let now = Entry {
            id: 99,
            value: Value::Opaque(&[0, 0, 0x40, 0]),
        };
        let found = decode(Code::Updxch, &message);
        assert_eq!(found, Ok(Operation::Updxch { now, pendclr: true }));
    }

    // TV-M-34, XC-66: a boolean is 0 or 1.
    #[test]
    fn flags() {
        for word in [2, 0x0100_0000, u32::MAX] {
            let message = Message::new(&TV_XC_5).put(40, word);
            assert_eq!(decode(Code::Updxch, &message), Err(Defect::Flag));
        }
    }

    // TV-M-28, TV-M-36, TV-M-37, TV-M-53, XC-4, XC-7, XC-11: structures that end early or late.
    #[test]
    fn lengths() {
        for (code, words) in [
            (Code::Initxch, TV_XC_1.as_slice()),
            (Code::Initxch, TV_XC_6.as_slice()),
            (Code::Reqxch, TV_XC_2.as_slice()),
            (Code::Reqxch, TV_XC_8.as_slice()),
            (Code::Respxch, TV_XC_3.as_slice()),
            (Code::Respxch, TV_XC_9.as_slice()),
            (Code::Updxch, TV_XC_4.as_slice()),
        ] {
            let message = Message::new(words);
            for len in 28..message.bytes().len() {
                let found = decode(code, &message.cut(len)).err();
                assert_eq!(found, Some(Defect::Operation));
            }
            let longer = Message::new(words.iter().chain(&[0]));
            assert_eq!(decode(code, &longer).err(), Some(Defect::Leftover));
        }
        let second = Message::new(TV_XC_10.iter().chain(&[0])).put(28, 2);
        assert_eq!(decode(Code::Reqxch, &second).err(), Some(Defect::Operation));
        let (head, tail) = TV_XC_1.split_at(11);
        let longer = Message::new(head.iter().chain(&[0]).chain(tail)).put(36, 8);
        assert_eq!(decode(Code::Initxch, &longer).err(), Some(Defect::Data));
    }

    fn decode(code: Code, message: &Message) -> Result<Operation<'_>, Defect> {
        Operation::decode(code, message.bytes().get(28..).unwrap_or_default())
    }

    fn outcomes(message: &Message) -> [(Outcome, bool); 3] {
        match decode(Code::Respxch, message) {
            Ok(Operation::Respxch(response)) => [0, 1, 2].map(|at| response.outcome(at)),
            _ => [(Outcome::Done, false); 3],
        }
    }
}
