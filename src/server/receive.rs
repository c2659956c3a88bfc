// SPDX-License-Identifier: GPL-2.0

//! Messages of the client: the completion handler tells them apart, and threads take the calls.

use kernel::{
    alloc::{
        flags::{
            GFP_NOWAIT,
            __GFP_NOWARN, //
        },
        Flags, //
    },
    prelude::*,
    sync::ArcBorrow, //
};

use super::{
    call::Call,
    connection::{
        CloseReason,
        Connection, //
    },
    outbox::Unsent, //
};
use crate::{
    proto::{
        encode_error,
        v1::{
            header::VERSION,
            responder::{
                call::receive,
                rebuild::{
                    form::Form,
                    ArgumentLimits,
                    Rebuild, //
                },
                received,
                received::Received, //
            }, //
        },
        Defect,
        RdmaError, //
    },
    sunrpc::svc::{
        Arguments,
        Incoming, //
    },
    verbs::{
        self,
        CompletionHandler,
        Failure,
        RecvBuffer,
        SharedRecvQueue, //
    }, //
};

impl CompletionHandler for Connection {
    type Queue = SharedRecvQueue;

    fn sent(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.lost(CloseReason::Completion(failure));
        }
        self.flush_waiting();
    }

    fn received(
        &self,
        _queue: &mut SharedRecvQueue,
        buf: RecvBuffer,
        result: Result<verbs::Received<'_>, Failure>,
    ) {
        self.receives.completed();
        match result {
            Ok(_) => self.arrived(buf),
            // Freed here: the queue pair ends.
            Err(failure) => self.lost(CloseReason::Completion(failure)),
        }
    }
}

/// A message of the client.
enum Arrival {
    /// A call.
    Call(Result<KBox<Call>>),
    /// A message that gets an error in reply.
    Reject {
        xid: u32,
        version: u32,
        error: RdmaError,
    },
    /// A message that gets no reply.
    Nothing,
}

impl Connection {
    /// The kind of `message`.
    fn kind(&self, message: &[u8]) -> Arrival {
        let mut received = receive(message);

        if let Received::Call(call) = &received {
            match check_arguments(call) {
                Ok(()) => return Arrival::Call(Call::new(call, message.len())),
                Err(defect) => received = Received::bad_header(call.xid, defect),
            }
        }
        match received {
            Received::Reject {
                xid,
                version,
                error,
                ..
            } => Arrival::Reject {
                xid,
                version,
                error,
            },
            _ => Arrival::Nothing,
        }
    }

    /// A message of the client has come.
    fn arrived(&self, buf: RecvBuffer) {
        match self.kind(buf.message()) {
            Arrival::Call(Ok(mut call)) => {
                call.keep(buf);
                self.enqueue(call);
            }
            Arrival::Call(Err(_)) => self.lost(CloseReason::NoResources),
            Arrival::Reject {
                xid,
                version,
                error,
            } => {
                // Its Receive is posted again before the client gets its credit back (V1-34).
                self.recycle(buf);
                let _ = self.reject(xid, version, &error, GFP_NOWAIT | __GFP_NOWARN);
            }
            Arrival::Nothing => self.recycle(buf),
        }
    }

    /// Leaves a call to a thread.
    fn enqueue(&self, mut call: KBox<Call>) {
        let Some(terms) = self.terms() else {
            return;
        };
        call.is_busy = true;
        self.receives.begun();
        // The inbox has a place for each Receive. If it is closed the connection ends.
        if let Err(call) = self.calls.push(&terms.xprt, call) {
            self.end_call(call);
        }
    }

    /// Gives the arguments of `call` to a thread. `None` drops the call.
    pub(super) fn take_call<'r>(
        self: ArcBorrow<'_, Self>,
        mut call: KBox<Call>,
        rqst: Incoming<'r>,
    ) -> Option<(Arguments<'r>, KBox<Call>)> {
        let arguments = rqst.copy(call.arguments());

        if let Some(message) = call.take_message() {
            self.recycle(message);
        }
        let Some(arguments) = arguments else {
            let _ = self.reject(call.xid, VERSION, &RdmaError::BadHeader, GFP_KERNEL);
            self.end_call(call);
            return None;
        };
        // A call must not be executed that could not be replied to (H-116).
        if self.is_closed() {
            self.end_call(call);
            return None;
        }
        let most = self.terms().map_or(0, |terms| terms.credits);
        if self.receives.are_few(call.credits, most) {
            Self::grow(self);
        }
        Some((arguments, call))
    }

    /// Rejects the message with this xid and version because of `error`.
    ///
    /// # Errors
    ///
    /// The reason why the client does not learn of it; the connection ends then.
    pub(super) fn reject(&self, xid: u32, version: u32, error: &RdmaError, flags: Flags) -> Result {
        let most = self.terms().map_or(0, |terms| terms.credits);
        let credits = self.receives.grant(most, most);
        let sent = self.send_message(flags, |out| {
            let len = encode_error(xid, version, credits, error, out).ok()?;
            u32::try_from(len).ok()
        });
        self.check_sent(sent)
    }

    /// Ends the connection if a message could not be sent, so that the client does not wait for it
    /// (V1-121).
    pub(super) fn check_sent(&self, sent: Result<(), Unsent>) -> Result {
        match sent {
            Ok(()) | Err(Unsent::Closed) => (),
            Err(Unsent::Device) => self.lost(CloseReason::PostRefused),
            Err(Unsent::Refused(_)) => self.lost(CloseReason::NoResources),
        }
        Ok(sent?)
    }
}

/// Checks that the arguments of a call can be put together.
///
/// # Errors
///
/// The [`Defect`]; the call is rejected.
fn check_arguments(call: &received::Call<'_>) -> Result<(), Defect> {
    const LIMITS: ArgumentLimits = ArgumentLimits {
        len: u32::MAX,
        segments: 0,
    };

    match Rebuild::plan(&call.chunks, call.payload, &LIMITS)?.form() {
        Form::Inline => Ok(()),
        _ => Err(Defect::TooManySegments),
    }
}
