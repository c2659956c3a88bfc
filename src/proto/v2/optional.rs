// SPDX-License-Identifier: GPL-2.0

//! The operations that we send (xchar section 4; `operations.rs` reads them).

use super::{
    super::{
        neutral::Value,
        xdr::Writer, //
    },
    characteristics::Entry,
    encode::{
        word,
        EncodeError, //
    },
    header::{
        OPTIONAL,
        OPTIONAL_LEN,
        VERSION, //
    },
    operations::Code, //
};

/// An operation to be sent. Subsets are words; zeros at their end are left out (XC-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing<'a> {
    /// `ROPT_INITXCH`.
    Initxch {
        /// Our characteristics.
        start: &'a [Entry<'a>],
        /// The entries that will not change.
        nochg: &'a [u32],
    },
    /// `ROPT_REQXCH`.
    Reqxch {
        /// The values that the peer is to have.
        want: &'a [Entry<'a>],
    },
    /// `ROPT_RESPXCH`.
    Respxch {
        /// The entries that are done.
        done: &'a [u32],
        /// The entries that are rejected.
        rej: &'a [u32],
        /// The entries that are pending.
        pend: &'a [u32],
    },
    /// `ROPT_UPDXCH`.
    Updxch {
        /// The value in force.
        now: Entry<'a>,
        /// The peer's request for this characteristic is finished.
        pendclr: bool,
    },
}

impl Outgoing<'_> {
    /// The operation.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::Initxch { .. } => Code::Initxch,
            Self::Reqxch { .. } => Code::Reqxch,
            Self::Respxch { .. } => Code::Respxch,
            Self::Updxch { .. } => Code::Updxch,
        }
    }

    /// Writes the message to the front of `out` and returns its length in bytes.
    ///
    /// `xid` is a number of our own, or the request's in a `ROPT_RESPXCH` (XC-49).
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    pub(crate) fn encode(
        &self,
        xid: u32,
        credits: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let (header, info) = out
            .split_at_mut_checked(OPTIONAL_LEN)
            .ok_or(EncodeError::NoRoom)?;
        let mut info = Writer::new(info);
        self.put(&mut info)?;
        let written = info.written();
        let len = u32::try_from(written).map_err(|_| EncodeError::TooMany)?;
        let code = self.code();
        Writer::new(header).words([
            xid,
            VERSION,
            credits,
            OPTIONAL,
            word(code.direction()),
            code.word(),
            len,
        ])?;
        Ok(OPTIONAL_LEN.saturating_add(written))
    }

    fn put(&self, info: &mut Writer<'_>) -> Result<(), EncodeError> {
        match *self {
            Self::Initxch { start, nochg } => {
                put_set(info, start)?;
                put_subset(info, nochg)
            }
            Self::Reqxch { want } => put_set(info, want),
            Self::Respxch { done, rej, pend } => {
                put_subset(info, done)?;
                put_subset(info, rej)?;
                put_subset(info, pend)
            }
            Self::Updxch { now, pendclr } => {
                put_entry(info, &now)?;
                Ok(info.words([u32::from(pendclr)])?)
            }
        }
    }
}

fn put_set(info: &mut Writer<'_>, entries: &[Entry<'_>]) -> Result<(), EncodeError> {
    let count = u32::try_from(entries.len()).map_err(|_| EncodeError::TooMany)?;
    info.words([count])?;
    entries.iter().try_for_each(|entry| put_entry(info, entry))
}

fn put_entry(info: &mut Writer<'_>, entry: &Entry<'_>) -> Result<(), EncodeError> {
    info.words([entry.id])?;
    match entry.value {
        Value::Word(value) | Value::Choice(value) => info.words([4, value])?,
        Value::Flag(value) => info.words([4, u32::from(value)])?,
        Value::Opaque(data) => info.opaque(data)?,
    }
    Ok(())
}

fn put_subset(info: &mut Writer<'_>, mut words: &[u32]) -> Result<(), EncodeError> {
    while let Some((0, shorter)) = words.split_last() {
        words = shorter;
    }
    let count = u32::try_from(words.len()).map_err(|_| EncodeError::TooMany)?;
    info.words([count])?;
    for word in words {
        info.words([*word])?;
    }
    Ok(())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_optional))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            characteristics::*,
            vectors::*, //
        },
        *, //
    };

    // TV-XC-1, TV-XC-6, XC-37, XC-39: our characteristics; the usual message is far shorter
    // than the first Receives of any peer.
    #[test]
    fn initxch() {
        let start = [
            size(8192),
            Entry {
                id: REQREMINV,
                value: Value::Flag(true),
            },
            support(BKREQSUP_INLINE),
        ];
        let operation = Outgoing::Initxch {
            start: &start,
            nochg: &[7],
        };
        assert!(gives(&operation, &TV_XC_1));
        let none = Outgoing::Initxch {
            start: &[],
            nochg: &[],
        };
        assert!(gives(&none, &TV_XC_6));
    }

    // TV-XC-2, TV-XC-8, TV-XC-10, XC-98: requests, and one that only confirms.
    #[test]
    fn reqxch() {
        let want = [
            size(16384),
            support(BKREQSUP_GENL),
            Entry {
                id: EXPERIMENTAL.wrapping_add(1),
                value: Value::Opaque(b"hello"),
            },
        ];
        assert!(gives(&Outgoing::Reqxch { want: &want }, &TV_XC_2));
        assert!(gives(&Outgoing::Reqxch { want: &[] }, &TV_XC_8));
        let want = [size(65536)];
        assert!(gives(&Outgoing::Reqxch { want: &want }, &TV_XC_10));
    }

    // TV-XC-3, TV-XC-9, TV-XC-11, XC-19, XC-53: replies, their subsets as short as they can
    // be.
    #[test]
    fn respxch() {
        for (words, done, rej, pend) in [
            (TV_XC_3.as_slice(), 2, 4, 1),
            (TV_XC_9.as_slice(), 0, 0, 0),
            (TV_XC_11.as_slice(), 0, 0, 1),
        ] {
            let operation = Outgoing::Respxch {
                done: &[done],
                rej: &[rej, 0],
                pend: &[pend, 0, 0],
            };
            assert!(gives(&operation, words));
        }
    }

    // TV-XC-7, XC-15, XC-19: a subset of two words keeps the zero words inside it.
    #[test]
    fn subsets() {
        for (words, written) in [
            ([0x8000_0001, 0x101, 0].as_slice(), 2_usize),
            (&[0, 1], 2),
            (&[1, 0], 1),
            (&[0, 0], 0),
        ] {
            let operation = Outgoing::Respxch {
                done: words,
                rej: &[],
                pend: &[],
            };
            let mut out = [0xee; 64];
            let len = written.wrapping_mul(4).wrapping_add(40);
            assert_eq!(operation.encode(1, 1, &mut out), Ok(len));
            let kept = words.iter().take(written).copied();
            let mut info = out.get(32..).unwrap_or_default().chunks_exact(4);
            assert!(kept
                .map(u32::to_be_bytes)
                .all(|word| info.next() == Some(&word)));
        }
    }

    // TV-XC-4, TV-XC-5, TV-XC-12, XC-58, XC-62: updates, solicited or not.
    #[test]
    fn updxch() {
        for (words, value, pendclr) in [
            (TV_XC_4.as_slice(), 8192, false),
            (TV_XC_5.as_slice(), 16384, true),
            (TV_XC_12.as_slice(), 16384, true),
        ] {
            let now = size(value);
            assert!(gives(&Outgoing::Updxch { now, pendclr }, words));
        }
    }

    fn size(bytes: u32) -> Entry<'static> {
        Entry {
            id: RBSIZ,
            value: Value::Word(bytes),
        }
    }

    fn support(level: u32) -> Entry<'static> {
        Entry {
            id: BRS,
            value: Value::Choice(level),
        }
    }

    // Returns `true` if the operation is `words`, with their xid and credits, and no shorter buffer
    // takes it.
    fn gives(operation: &Outgoing<'_>, words: &[u32]) -> bool {
        let [xid, _, credits, ..] = words else {
            return false;
        };
        let message = Message::new(words);
        let len = message.bytes().len();
        let mut out = [0xee; 128];
        operation.encode(*xid, *credits, &mut out) == Ok(len)
            && out.get(..len) == Some(message.bytes())
            && out.iter().skip(len).all(|byte| *byte == 0xee)
            && (0..len).all(|len| {
                let out = out.get_mut(..len).unwrap_or_default();
                operation.encode(*xid, *credits, out) == Err(EncodeError::NoRoom)
            })
    }
}
