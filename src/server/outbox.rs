// SPDX-License-Identifier: GPL-2.0

//! The messages of a connection to its client, posted or waiting for room in the send queue.

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::atomic::Relaxed, //
};

use super::connection::{
    CloseReason,
    Connection,
    ConnectionSends, //
};
use crate::{
    os::{
        series::{
            smp_mb,
            EMSGSIZE,
            ENOBUFS,
            ENOTCONN, //
        },
        Fifo, //
    },
    verbs::{
        PostError,
        SendBuffer, //
    }, //
};

/// Messages that wait before the connection takes no more calls.
const MANY: usize = 16;

/// Messages of the outbox beyond one for each credit: those of calls that threads have taken from a
/// client with more calls than its credits.
pub(super) const BEYOND: u32 = 64;

/// The reason why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The connection is closed.
    Closed,
    /// It could not be written, or there are too many.
    Refused(Error),
    /// The device has refused it: the connection has to end.
    Device,
}

impl From<Unsent> for Error {
    fn from(why: Unsent) -> Self {
        match why {
            Unsent::Closed => ENOTCONN,
            Unsent::Refused(error) => error,
            Unsent::Device => EIO,
        }
    }
}

/// The send queue, and the messages that wait for room in it.
pub(super) struct Outbox {
    /// `None` before it is made, and after the teardown has taken it.
    sends: Option<ConnectionSends>,
    waiting: Fifo<KVec<u8>>,
    is_open: bool,
}

impl Outbox {
    /// An outbox that takes no message.
    pub(super) const fn new() -> Self {
        Self {
            sends: None,
            waiting: Fifo::none(),
            is_open: false,
        }
    }

    /// Opens it.
    pub(super) fn open(&mut self, sends: ConnectionSends, waiting: Fifo<KVec<u8>>) {
        self.sends = Some(sends);
        self.waiting = waiting;
        self.is_open = true;
    }

    /// Takes no message from now on. Returns the messages that wait, to be dropped without the
    /// lock.
    pub(super) fn close(&mut self) -> Fifo<KVec<u8>> {
        self.is_open = false;
        core::mem::replace(&mut self.waiting, Fifo::none())
    }

    /// Takes the send queue, for the teardown.
    pub(super) fn take_sends(&mut self) -> Option<ConnectionSends> {
        self.is_open = false;
        self.sends.take()
    }

    /// The send queue.
    pub(super) fn sends(&mut self) -> Option<&mut ConnectionSends> {
        self.sends.as_mut()
    }

    /// A free buffer.
    fn buffer(sends: &mut ConnectionSends) -> Option<SendBuffer> {
        match sends.take() {
            Some(buf) => Some(buf),
            None => sends.take_any(),
        }
    }

    fn post(sends: &mut ConnectionSends, buf: SendBuffer, len: u32) -> Result<(), Unsent> {
        match sends.post(None, buf, len) {
            Ok(_) => Ok(()),
            Err(PostError::Closed) => Err(Unsent::Closed),
            Err(PostError::Device(_)) => Err(Unsent::Device),
        }
    }

    /// Posts the message that `write` writes, unless it has to wait: then `write` comes back.
    fn try_post<W>(&mut self, write: W) -> Result<Option<W>, Unsent>
    where
        W: FnOnce(&mut [u8]) -> Option<u32>,
    {
        if !self.is_open {
            return Err(Unsent::Closed);
        }
        let sends = self.sends.as_mut().ok_or(Unsent::Closed)?;
        // A message does not overtake one that waits.
        if !self.waiting.is_empty() {
            return Ok(Some(write));
        }
        let Some(mut buf) = Self::buffer(sends) else {
            return Ok(Some(write));
        };
        match write(buf.as_mut_slice()) {
            Some(len) => Self::post(sends, buf, len).map(|()| None),
            None => {
                sends.put(buf);
                Err(Unsent::Refused(EMSGSIZE))
            }
        }
    }

    /// Posts the messages that wait, as long as there is room.
    fn flush(&mut self) -> Result<(), Unsent> {
        let Some(sends) = self.sends.as_mut() else {
            return Ok(());
        };
        while self.is_open && !self.waiting.is_empty() {
            let Some(mut buf) = Self::buffer(sends) else {
                break;
            };
            let Some(message) = self.waiting.pop() else {
                sends.put(buf);
                break;
            };
            match buf.as_mut_slice().get_mut(..message.len()) {
                Some(place) => place.copy_from_slice(&message),
                None => {
                    sends.put(buf);
                    continue;
                }
            }
            // CAST: A message is shorter than 4 GiB.
            Self::post(sends, buf, message.len() as u32)?;
        }
        Ok(())
    }
}

impl Connection {
    /// Sends the message that `write` writes; it returns the length, or `None` if it has too little
    /// room. A message that finds no room is written to memory from `flags`, and posted later.
    ///
    /// # Errors
    ///
    /// The reason why it was not, and will not be, sent.
    pub(super) fn send_message(
        &self,
        flags: Flags,
        write: impl FnOnce(&mut [u8]) -> Option<u32>,
    ) -> Result<(), Unsent> {
        let write = match self.outbox.lock().try_post(write)? {
            Some(write) => write,
            None => return Ok(()),
        };
        let len = self.terms().map_or(0, |terms| terms.send_len);
        let mut message = KVec::from_elem(0u8, len, flags).map_err(|_| Unsent::Refused(ENOMEM))?;
        let len = write(&mut message).ok_or(Unsent::Refused(EMSGSIZE))?;
        // CAST: Widening.
        message.truncate(len as usize);
        self.wait_for_room(message)
    }

    /// Sends `message` once the send queue has room for it.
    fn wait_for_room(&self, message: KVec<u8>) -> Result<(), Unsent> {
        let mut outbox = self.outbox.lock();

        if !outbox.is_open {
            return Err(Unsent::Closed);
        }
        outbox
            .waiting
            .push(message)
            .map_err(|_| Unsent::Refused(ENOBUFS))?;
        self.waiting.store(outbox.waiting.len(), Relaxed);
        // Store-buffer pattern. Thread: set `waiting`, smp_mb(), look for completed Sends.
        // Handler: note a completed Send, smp_mb(), test `waiting`.
        smp_mb();
        let flushed = outbox.flush();
        self.waiting.store(outbox.waiting.len(), Relaxed);
        flushed
    }

    /// Sends have completed: posts the messages that wait for their room.
    pub(super) fn flush_waiting(&self) {
        // Pairs with the barrier of a thread whose message waits.
        smp_mb();
        if self.waiting.load(Relaxed) == 0 {
            return;
        }
        let mut outbox = self.outbox.lock();
        let before = outbox.waiting.len();
        let flushed = outbox.flush();
        let after = outbox.waiting.len();
        self.waiting.store(after, Relaxed);
        drop(outbox);
        if flushed == Err(Unsent::Device) {
            self.lost(CloseReason::PostRefused);
        }
        if before >= MANY && after < MANY {
            self.look_again();
        }
    }

    /// Returns `true` while few messages wait, so that more calls may be served.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < MANY
    }
}
