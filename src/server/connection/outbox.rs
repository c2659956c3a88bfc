// SPDX-License-Identifier: GPL-2.0

//! The messages of a connection to its client, posted or waiting for room in the send queue.

use kernel::{
    alloc::Flags,
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::{
    space::Space,
    ConnectionSends,
    Settled, //
};
use crate::{
    os::{
        series::{
            zeroes,
            EMSGSIZE,
            ENOBUFS,
            ENOTCONN, //
        },
        Fifo, //
    },
    verbs::{
        FromPeer,
        PostError,
        SendBuffer,
        ToPeer,
        Transfer, //
    }, //
};

/// Messages of the outbox beyond one for each credit: replies to calls that threads have taken from
/// a client with more calls than its credits.
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

/// A message that waits for room in the send queue, with all that it needs.
pub(super) enum Message {
    /// A message to the client.
    Send {
        /// Its bytes.
        bytes: KVec<u8>,
        /// RDMA Writes in front of it.
        transfer: Option<Transfer<ToPeer>>,
        /// The handle that it invalidates.
        invalidate: Option<u32>,
    },
    /// RDMA Reads.
    Reads {
        /// The requests.
        transfer: Transfer<FromPeer>,
        /// The number that they are posted with.
        context: usize,
    },
}

/// The messages of a connection to its client.
#[pin_data]
pub(super) struct Outbox {
    #[pin]
    queue: SpinLock<Queue>,
    /// The space for more calls.
    pub(super) space: Space,
}

impl Outbox {
    /// An outbox that takes no message.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- new_spinlock!(Queue::new(), "rpcrdma_rs::Outbox"),
            space: Space::new(),
        })
    }

    /// Opens it, with room for messages that wait.
    pub(super) fn open(&self, sends: ConnectionSends, waiting: Fifo<Message>) {
        self.queue.lock().open(sends, waiting);
    }

    /// Takes no message from now on, and drops all that wait. Calls `dropped` with the numbers of
    /// RDMA Reads among them.
    pub(super) fn close(&self, dropped: impl Fn(usize)) {
        // Dropped without the lock.
        let (mut next, mut waiting) = self.queue.lock().close();
        self.space.flushed(0, 0);
        while let Some(message) = next.take().or_else(|| waiting.pop()) {
            if let Message::Reads { transfer, context } = message {
                drop(transfer);
                dropped(context);
            }
        }
    }

    /// Takes the send queue, for the teardown.
    pub(super) fn take_sends(&self) -> Option<ConnectionSends> {
        self.queue.lock().take_sends()
    }

    /// Calls `change` with the send queue, if it is there.
    pub(super) fn with_sends(&self, change: impl FnOnce(&mut ConnectionSends)) {
        if let Some(sends) = self.queue.lock().sends() {
            change(sends);
        }
    }
}

/// The send queue, and the messages that wait for room in it.
struct Queue {
    /// `None` before it is made, and after the teardown has taken it.
    sends: Option<ConnectionSends>,
    /// The message that has waited longest, and the others behind it.
    next: Option<Message>,
    waiting: Fifo<Message>,
    is_open: bool,
}

impl Queue {
    /// A queue that takes no message.
    const fn new() -> Self {
        Self {
            sends: None,
            next: None,
            waiting: Fifo::none(),
            is_open: false,
        }
    }

    /// Opens it.
    fn open(&mut self, sends: ConnectionSends, waiting: Fifo<Message>) {
        self.sends = Some(sends);
        self.waiting = waiting;
        self.is_open = true;
    }

    /// Takes no message from now on. Returns the messages that wait, to be dropped without the
    /// lock.
    fn close(&mut self) -> (Option<Message>, Fifo<Message>) {
        self.is_open = false;
        let waiting = core::mem::replace(&mut self.waiting, Fifo::none());
        (self.next.take(), waiting)
    }

    /// Takes the send queue, for the teardown.
    fn take_sends(&mut self) -> Option<ConnectionSends> {
        self.is_open = false;
        self.sends.take()
    }

    /// The send queue.
    fn sends(&mut self) -> Option<&mut ConnectionSends> {
        self.sends.as_mut()
    }

    /// The number of messages that wait.
    fn len(&self) -> u32 {
        // CAST: Few.
        (self.waiting.len() as u32).saturating_add(u32::from(self.next.is_some()))
    }

    /// A free buffer.
    fn buffer(sends: &mut ConnectionSends) -> Option<SendBuffer> {
        match sends.take() {
            Some(buf) => Some(buf),
            None => sends.take_any(),
        }
    }

    /// Posts the message that `write` writes, unless it has to wait: then `write` comes back.
    fn try_post<W>(&mut self, write: W, invalidate: Option<u32>) -> Result<Option<W>, Unsent>
    where
        W: FnOnce(&mut [u8]) -> Option<u32>,
    {
        if !self.is_open {
            return Err(Unsent::Closed);
        }
        // A message does not overtake one that waits.
        if self.len() != 0 {
            return Ok(Some(write));
        }
        let sends = self.sends.as_mut().ok_or(Unsent::Closed)?;
        let Some(mut buf) = Self::buffer(sends) else {
            return Ok(Some(write));
        };
        match write(buf.as_mut_slice()) {
            Some(len) => {
                sends.post_with(None, buf, len, invalidate)?;
                Ok(None)
            }
            None => {
                sends.put(buf);
                Err(Unsent::Refused(EMSGSIZE))
            }
        }
    }

    /// Posts a message to the client, unless it has to wait: then it comes back.
    fn post_send(
        &mut self,
        bytes: KVec<u8>,
        transfer: Option<Transfer<ToPeer>>,
        invalidate: Option<u32>,
    ) -> Result<Option<Message>, Unsent> {
        let wait = |bytes, transfer| {
            Ok(Some(Message::Send {
                bytes,
                transfer,
                invalidate,
            }))
        };
        let sends = self.sends.as_mut().ok_or(Unsent::Closed)?;
        let Some(mut buf) = Self::buffer(sends) else {
            return wait(bytes, transfer);
        };
        let admitted = match transfer.map(Transfer::admit).transpose() {
            Ok(admitted) => admitted,
            Err(transfer) => {
                sends.put(buf);
                return wait(bytes, Some(transfer));
            }
        };
        let Some(place) = buf.as_mut_slice().get_mut(..bytes.len()) else {
            sends.put(buf);
            return Err(Unsent::Refused(EMSGSIZE));
        };
        place.copy_from_slice(&bytes);
        // The number of the RDMA Writes is the xid. CAST: Widening.
        let xid = bytes.first_chunk().copied().map_or(0, u32::from_be_bytes) as usize;
        // CAST: A message is shorter than 4 GiB.
        let len = bytes.len() as u32;
        sends.post_with(admitted.map(|writes| (writes, xid)), buf, len, invalidate)?;
        Ok(None)
    }
}

impl From<PostError> for Unsent {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Closed => Self::Closed,
            PostError::Device(_) => Self::Device,
        }
    }
}

impl Settled<'_> {
    /// Sends the message of up to `most` bytes that `write` writes, which invalidates the handle
    /// `invalidate`; it returns the length, or `None` if it has too little room. A message that
    /// finds no room in the queue is written to memory from `flags`, and posted later.
    ///
    /// # Errors
    ///
    /// The reason why it was not, and will not be, sent.
    pub(super) fn send_message(
        &self,
        most: usize,
        invalidate: Option<u32>,
        flags: Flags,
        write: impl FnOnce(&mut [u8]) -> Option<u32>,
    ) -> Result<(), Unsent> {
        let posted = self.outbox.queue.lock().try_post(write, invalidate);
        let Some(write) = posted? else {
            return Ok(());
        };
        let mut bytes = zeroes(most, flags).map_err(|_| Unsent::Refused(ENOMEM))?;
        let len = write(&mut bytes).ok_or(Unsent::Refused(EMSGSIZE))?;
        // CAST: Widening.
        bytes.truncate(len as usize);
        self.send_or_wait(Message::Send {
            bytes,
            transfer: None,
            invalidate,
        })
    }

    /// Sends `message`, as soon as the send queue has room for it.
    ///
    /// # Errors
    ///
    /// As [`Self::send_message`].
    pub(super) fn send_or_wait(&self, message: Message) -> Result<(), Unsent> {
        let mut outbox = self.outbox.queue.lock();

        if !outbox.is_open {
            return Err(Unsent::Closed);
        }
        let pushed = outbox.waiting.push(message);
        if let Err(message) = pushed {
            drop(outbox);
            drop(message);
            return Err(Unsent::Refused(ENOBUFS));
        }
        self.outbox.space.wait(outbox.len());
        let (flushed, makes_room) = self.flush(&mut outbox);
        let is_delayed = outbox.len() != 0;
        drop(outbox);
        if is_delayed {
            self.stats.delayed_messages.inc();
        }
        if makes_room {
            self.outbox.space.made(|| self.ask());
        }
        // The message that was not sent may be another one, whose sender is no longer here.
        let _ = self.check_sent(flushed);
        flushed
    }

    /// Posts the messages that wait, until the queue is full. The second value is `true` if few
    /// enough are left for more calls, and were not before.
    fn flush(&self, outbox: &mut Queue) -> (Result<(), Unsent>, bool) {
        let before = outbox.len();
        let flushed = self.post_waiting(outbox);

        (flushed, self.outbox.space.flushed(before, outbox.len()))
    }

    fn post_waiting(&self, outbox: &mut Queue) -> Result<(), Unsent> {
        while outbox.is_open {
            let Some(message) = outbox.next.take().or_else(|| outbox.waiting.pop()) else {
                break;
            };
            let back = match message {
                Message::Send {
                    bytes,
                    transfer,
                    invalidate,
                } => outbox.post_send(bytes, transfer, invalidate)?,
                Message::Reads { transfer, context } => self.post_reads(transfer, context)?,
            };
            if back.is_some() {
                outbox.next = back;
                break;
            }
        }
        Ok(())
    }

    /// Posts RDMA Reads, unless they have to wait: then they come back.
    fn post_reads(
        &self,
        transfer: Transfer<FromPeer>,
        context: usize,
    ) -> Result<Option<Message>, Unsent> {
        let admitted = match transfer.admit() {
            Ok(admitted) => admitted,
            Err(transfer) => return Ok(Some(Message::Reads { transfer, context })),
        };
        let posted = self
            .link
            .with_qp(|qp| self.terms.transfers.post(qp.poster(), admitted, context));
        posted.ok_or(Unsent::Closed)??;
        Ok(None)
    }

    /// Requests have completed, or buffers were made: posts the messages that wait for room.
    pub(super) fn flush_waiting(&self) {
        if !self.outbox.space.is_waited_for() {
            return;
        }
        let mut outbox = self.outbox.queue.lock();
        let (flushed, makes_room) = self.flush(&mut outbox);
        drop(outbox);
        let _ = self.check_sent(flushed);
        if makes_room {
            self.outbox.space.made(|| self.ask());
        }
    }
}
