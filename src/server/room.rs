// SPDX-License-Identifier: GPL-2.0

//! The memory of a connection that is free for arguments, and the calls that wait for some. Pure,
//! and explored by the host tests.

use crate::os::Fifo;

/// Memory for the arguments of one call: the room of its connection takes it back. `S` is what
/// connections share.
#[must_use]
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Share<S> {
    bytes: usize,
    /// `None` of the connection's own memory. Of a connection that has ended the other returns
    /// without the room.
    shared: Option<S>,
}

/// The memory of a connection for the arguments of its calls `C`.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Room<C> {
    /// Bytes of the connection's own memory, and of it what calls have.
    most: usize,
    own: usize,
    /// Bytes that they have beyond it.
    shared: usize,
    /// Without places once it is closed.
    waiting: Fifo<C>,
}

impl<C> Room<C> {
    /// Memory of `most` bytes, and no place for a call that waits.
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            own: 0,
            shared: 0,
            waiting: Fifo::none(),
        }
    }

    /// Has calls wait in `waiting`, before the first one waits. Not after [`Self::close`].
    pub(crate) fn open(&mut self, waiting: Fifo<C>) {
        self.waiting = waiting;
    }

    /// Takes `bytes`. `shared` takes as many of the memory that connections share; the first
    /// argument is what calls of this connection have of it.
    fn take<S>(
        &mut self,
        bytes: usize,
        shared: impl FnOnce(usize, usize) -> Option<S>,
    ) -> Option<Share<S>> {
        let own = self.own.saturating_add(bytes);

        if own <= self.most {
            self.own = own;
            return Some(Share {
                bytes,
                shared: None,
            });
        }
        let more = shared(self.shared, bytes)?;
        self.shared = self.shared.saturating_add(bytes);
        Some(Share {
            bytes,
            shared: Some(more),
        })
    }

    /// Takes `bytes` for `call`, `shared` as in [`Self::take`]. Returns `None` if the call waits:
    /// [`Self::next`] returns it. No call overtakes one that waits.
    ///
    /// # Errors
    ///
    /// The call, if too many wait.
    pub(crate) fn admit<S>(
        &mut self,
        call: C,
        bytes: usize,
        shared: impl FnOnce(usize, usize) -> Option<S>,
    ) -> Result<Option<(C, Share<S>)>, C> {
        if self.waiting.is_empty() {
            if let Some(share) = self.take(bytes, shared) {
                return Ok(Some((call, share)));
            }
        }
        self.waiting.push(call).map(|()| None)
    }

    /// Takes back the memory of a call that has none of its arguments any longer. Returns what
    /// connections share of it.
    pub(crate) fn put<S>(&mut self, share: Share<S>) -> Option<S> {
        let account = match share.shared {
            None => &mut self.own,
            Some(_) => &mut self.shared,
        };

        *account = account.saturating_sub(share.bytes);
        share.shared
    }

    /// Takes the call that has waited longest, with memory for its arguments, if it can have that:
    /// `bytes` of the call, `shared` as in [`Self::take`].
    pub(crate) fn next<S>(
        &mut self,
        bytes: impl FnOnce(&C) -> usize,
        shared: impl FnOnce(usize, usize) -> Option<S>,
    ) -> Option<(C, Share<S>)> {
        let bytes = bytes(self.waiting.first()?);
        let share = self.take(bytes, shared)?;

        Some((self.waiting.pop()?, share))
    }

    /// Bytes of the connection's own memory that calls have, and of all of it; and the number of
    /// calls that wait.
    pub(crate) fn usage(&self) -> (usize, usize, usize) {
        (self.own, self.most, self.waiting.len())
    }

    /// Lets no call wait from now on. Returns the calls that do.
    pub(crate) fn close(&mut self) -> Fifo<C> {
        core::mem::replace(&mut self.waiting, Fifo::none())
    }
}
