// SPDX-License-Identifier: GPL-2.0

//! The sizes of the buffers of an end, as both ends agree on them.

use super::{
    super::end::{
        Event,
        NotAsked,
        Side, //
    },
    Exchange, //
};

impl Exchange {
    /// Permits Send buffers of `least` to `most` bytes, and what was permitted before.
    pub(crate) fn permit_sends(&mut self, least: u32, most: u32) {
        self.sends.0 = self.sends.0.max(least);
        self.sends.1 = self.sends.1.max(most).max(self.sends.0);
    }

    /// Send buffers of more than `most` bytes are not to be had.
    pub(crate) fn cut_sends(&mut self, most: u32) {
        self.sends.1 = most.max(self.sends.0);
        let rest = self.asks.map(|want| want.min(self.sends.1));
        self.asks = rest.filter(|want| *want > self.end.told);
        self.ask_if_able();
    }

    /// The size that the Send buffers are to have: that of the peer's Receives, or that to request
    /// of it, where permitted. Those of a server do not get shorter, for replies that are planned
    /// and not sent.
    pub(crate) fn sends(&self) -> u32 {
        let (least, most) = self.sends;
        let wanted = self.end.told.max(self.asks.unwrap_or(0));
        let size = wanted.min(most).max(least);

        match self.end.side {
            Side::Client => size,
            Side::Server => size.max(self.has_sends),
        }
    }

    /// The size of Receives that are to be posted from now on.
    pub(crate) fn posts(&self) -> u32 {
        self.end.size.to_post()
    }

    /// The size of the own Receives, and of the peer's, that both ends rely on.
    pub(crate) fn in_force(&self) -> (u32, u32) {
        (self.end.size.in_force(), self.end.told)
    }

    /// The size that is requested of the peer, and not settled.
    pub(crate) fn requested(&self) -> Option<u32> {
        let waits = self.asks.or(self.end.wanted);

        waits.or(self.end.requests.wanted())
    }

    /// The own Receives are to grow to `to` bytes. Returns `false` if they are not smaller, or
    /// another growth is under way.
    pub(crate) fn grow(&mut self, to: u32) -> bool {
        let before = self.end.size;

        self.end.on(Event::Grow {
            to,
            newest: self.next_edition(),
        });
        self.end.size != before
    }

    /// Requests that the peer's Receives have `want` bytes; at a server, as soon as the Send
    /// buffers have as many.
    ///
    /// # Errors
    ///
    /// The reason why that is not requested.
    pub(crate) fn ask(&mut self, want: u32) -> Result<(), NotAsked> {
        self.asks = Some(self.end.may_ask(want)?);
        self.ask_if_able();
        Ok(())
    }

    /// Makes the request that waits, if the Send buffers permit it. A client plans replies by a
    /// size that the server has requested (XC-89).
    fn ask_if_able(&mut self) {
        let is_able = |want: &u32| self.end.side == Side::Client || *want <= self.has_sends;

        if let Some(want) = self.asks.filter(is_able) {
            self.asks = None;
            self.end.wanted = Some(want);
        }
    }

    /// The Receives that are posted from now on are of this edition, and have `len` bytes.
    pub(crate) fn begin_edition(&mut self, edition: u32, len: u32) {
        self.edition = edition;
        self.posted = len;
    }

    /// None but Receives of this edition, or of later ones, are left.
    pub(crate) fn exchanged(&mut self, edition: u32) {
        // Growth back to a length that they still have takes no other edition.
        let has_wanted = edition == self.edition && self.posted == self.posts();
        let number = if has_wanted {
            self.next_edition()
        } else {
            edition
        };

        self.end.on(Event::Completed(number));
    }

    /// Memory suffices for Receives of `reach` bytes.
    pub(crate) fn no_memory(&mut self, reach: u32) {
        self.end.on(Event::NoMemory(reach));
    }

    /// The Send buffers have `len` bytes.
    pub(crate) fn buffers(&mut self, len: u32) {
        self.has_sends = len;
        self.end.on(Event::Buffers(len));
        self.ask_if_able();
    }

    /// The number of the edition that the next exchange of Receives begins.
    pub(super) fn next_edition(&self) -> u32 {
        self.edition.wrapping_add(1)
    }
}
