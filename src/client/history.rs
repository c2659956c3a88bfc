// SPDX-License-Identifier: GPL-2.0

//! The ends of the last connections of a transport.

use kernel::{
    new_spinlock,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::SpinLock, //
};

use super::connection::close_reason::CloseReason;
use crate::os::{
    jiffies,
    secs_since, //
};

/// The number of ends that are remembered.
const LENGTH: usize = 10;

/// The end of a connection, or of an attempt to make one.
#[derive(Clone, Copy)]
struct End {
    /// The time of it, in jiffies.
    at: usize,
    /// The time that the connection was in use, in seconds; `None` for an attempt.
    lasted: Option<usize>,
    /// The reason; for an attempt, the step that failed.
    reason: &'static str,
    /// An errno, or the reason of a rejection; 0 for none.
    code: i32,
}

/// The last ends.
#[pin_data]
pub(super) struct History {
    #[pin]
    ends: SpinLock<Ends>,
}

struct Ends {
    last: [Option<End>; LENGTH],
    next: usize,
}

impl History {
    /// Nothing has ended yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ends <- new_spinlock!(
                Ends {
                    last: [None; LENGTH],
                    next: 0,
                },
                "rpcrdma_rs::History"
            ),
        })
    }

    /// Notes that a connection that was made at `since`, in jiffies, has ended.
    pub(super) fn closed(&self, why: CloseReason, since: usize) {
        self.note(End {
            at: jiffies(),
            lasted: Some(secs_since(since)),
            reason: why.as_str(),
            code: 0,
        });
    }

    /// Notes that an attempt to connect has failed.
    pub(super) fn failed(&self, step: &'static str, code: i32) {
        self.note(End {
            at: jiffies(),
            lasted: None,
            reason: step,
            code,
        });
    }

    fn note(&self, end: End) {
        let mut ends = self.ends.lock();
        let next = ends.next;

        if let Some(place) = ends.last.get_mut(next) {
            *place = Some(end);
        }
        ends.next = next.wrapping_add(1) % LENGTH;
    }

    /// Prints the ends, the last one first.
    pub(super) fn print(&self, seq: &SeqFile) {
        let (last, next) = {
            let ends = self.ends.lock();
            (ends.last, ends.next)
        };

        let (newer, older) = last.split_at_checked(next).unwrap_or((&last, &[]));
        // By path: the prelude brings another `chain`.
        for end in Iterator::chain(newer.iter().rev(), older.iter().rev()).flatten() {
            let ago = secs_since(end.at);
            match end.lasted {
                Some(lasted) => {
                    seq_print!(
                        seq,
                        "closed {ago} s ago, after {lasted} s: {}\n",
                        end.reason
                    );
                }
                None => seq_print!(seq, "failed {ago} s ago: {} ({})\n", end.reason, end.code),
            }
        }
    }
}
