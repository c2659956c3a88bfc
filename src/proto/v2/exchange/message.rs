// SPDX-License-Identifier: GPL-2.0

//! The messages that one end of the exchange sends: the sets and subsets of its operations.

use super::{
    super::{
        super::{
            call_header::EncodeError,
            neutral::{
                Optional,
                Value, //
            }, //
        },
        characteristics::{
            place,
            Entry,
            BKREQSUP_INLINE,
            BKREQSUP_NONE,
            BRS,
            RBSIZ,
            REQREMINV, //
        },
        limits::growth::Disposition,
        operations::Code,
        optional::Outgoing, //
    },
    end,
    operation, //
};

/// The characteristics that an end announces with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// As a requester it takes Send With Invalidate.
    pub(crate) invalidation: bool,
    /// It takes reverse calls, without chunks.
    pub(crate) reverse: bool,
}

/// Words of a subset: entries of a request behind these are in none, and so rejected (XC-55).
const WORDS: usize = 16;

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// The xid of the request.
    pub(super) xid: u32,
    /// The number of its entries.
    pub(super) entries: usize,
    /// The index of the entry for the size, and its disposition.
    pub(super) size: Option<(usize, Disposition)>,
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// An operation of this end, with its xid.
    Operation(u32, end::Operation, Own),
    /// The response to a request.
    Response(Response),
}

/// The name of a received operation.
pub(crate) fn name(arrived: &Optional<'_>) -> &'static str {
    operation(arrived).map_or("malformed", |(operation, _)| operation.code().as_str())
}

/// Returns `true` if a received operation announces the peer's characteristics.
pub(crate) fn is_announcement(arrived: &Optional<'_>) -> bool {
    operation(arrived).is_some_and(|(operation, _)| operation.code() == Code::Initxch)
}

impl Message {
    /// Its xid.
    pub(crate) const fn xid(&self) -> u32 {
        match self {
            Self::Operation(xid, ..) => *xid,
            Self::Response(response) => response.xid,
        }
    }

    /// The name of its operation.
    pub(crate) const fn name(&self) -> &'static str {
        let code = match self {
            Self::Operation(_, end::Operation::Init { .. }, _) => Code::Initxch,
            Self::Operation(_, end::Operation::Request { .. }, _) => Code::Reqxch,
            Self::Operation(_, end::Operation::Update { .. }, _) => Code::Updxch,
            Self::Response(_) => Code::Respxch,
        };

        code.as_str()
    }

    /// Returns `true` if the peer responds to it.
    pub(crate) const fn is_request(&self) -> bool {
        matches!(self, Self::Operation(_, end::Operation::Request { .. }, _))
    }

    /// Writes the message to the front of `out` and returns its length in bytes. `credits` is the
    /// credits word.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    pub(crate) fn write(&self, credits: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        match *self {
            Self::Operation(xid, operation, own) => write(xid, operation, own, credits, out),
            Self::Response(response) => response.write(credits, out),
        }
    }
}

/// The places of the characteristics of [`start`] that keep their values (XC-44).
const ALL_BUT_THE_SIZE: u32 = 0b110;

/// The characteristic of Receives of `size` bytes.
fn rbsiz(size: u32) -> Entry<'static> {
    Entry {
        id: RBSIZ,
        value: Value::Word(size),
    }
}

/// All characteristics of this end, with Receives of `size` bytes.
fn start(size: u32, own: Own) -> [Entry<'static>; 3] {
    let reverse = if own.reverse {
        BKREQSUP_INLINE
    } else {
        BKREQSUP_NONE
    };

    [
        rbsiz(size),
        Entry {
            id: REQREMINV,
            value: Value::Flag(own.invalidation),
        },
        Entry {
            id: BRS,
            value: Value::Choice(reverse),
        },
    ]
}

/// Writes an operation.
fn write(
    xid: u32,
    operation: end::Operation,
    own: Own,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let written = match operation {
        end::Operation::Init { size } => {
            let message = Outgoing::Initxch {
                start: &start(size, own),
                nochg: &[ALL_BUT_THE_SIZE],
            };
            message.encode(xid, credits, out)
        }
        end::Operation::Request { want: Some(size) } => {
            let want = [rbsiz(size)];
            Outgoing::Reqxch { want: &want }.encode(xid, credits, out)
        }
        end::Operation::Request { want: None } => {
            Outgoing::Reqxch { want: &[] }.encode(xid, credits, out)
        }
        end::Operation::Update { size, finished } => {
            let message = Outgoing::Updxch {
                now: rbsiz(size),
                pendclr: finished,
            };
            message.encode(xid, credits, out)
        }
    };
    Ok(written?)
}

impl Response {
    /// The most entries that it can answer.
    pub(super) const MOST: usize = 32 * WORDS;

    pub(super) fn write(&self, credits: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let (mut done, mut rej, mut pend) = ([0_u32; WORDS], [0_u32; WORDS], [0_u32; WORDS]);

        for at in 0..self.entries {
            let disposition = match self.size {
                Some((size, disposition)) if size == at => disposition,
                _ => Disposition::Rejected,
            };
            let words = match disposition {
                Disposition::Done => &mut done,
                Disposition::Pending => &mut pend,
                Disposition::Rejected | Disposition::Unclear => &mut rej,
            };
            let Some(word) = words.get_mut(at / 32) else {
                break;
            };
            *word |= 1_u32.wrapping_shl(place(at));
        }
        let message = Outgoing::Respxch {
            done: &done,
            rej: &rej,
            pend: &pend,
        };
        Ok(message.encode(self.xid, credits, out)?)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_response))]
mod tests {
    use super::{
        super::{
            super::super::{
                incoming::Incoming,
                wire::Wire, //
            },
            operation,
            Operation, //
        },
        *, //
    };

    // XC-50..XC-52: the subsets of a response, for entries of many words.
    #[test]
    fn responses() {
        let entries = 40;
        let response = Response {
            xid: 9,
            entries,
            size: Some((33, Disposition::Done)),
        };
        let mut bytes = [0; 128];
        let len = response.write(1, &mut bytes).unwrap_or_default();
        let arrived = match Wire::V2.receive(bytes.get(..len).unwrap_or_default()) {
            Incoming::Operation(arrived) => operation(&arrived).map(|it| it.0),
            _ => None,
        };
        let Some(Operation::Respxch(found)) = arrived else {
            return assert!(false);
        };
        for at in 0..entries {
            assert!(found.done.contains(at) == (at == 33));
            assert!(found.rej.contains(at) == (at != 33));
        }
        assert!(!found.rej.exceeds(entries) && !found.pend.contains(0));
        // More entries than the subsets have.
        let many = Response {
            entries: 1000,
            ..response
        };
        assert!(many.write(1, &mut [0; 256]).is_ok());
    }
}
