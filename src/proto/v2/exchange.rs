// SPDX-License-Identifier: GPL-2.0

//! The exchange of characteristics, as one end of a connection sees it: received operations in, and
//! the messages that they call for out.
//!
//! The decisions are those of [`End`]; [`message`] has the sets and subsets of its operations. All
//! entries of a request but the size are rejected: the other characteristics keep their first
//! values.

pub(crate) mod message;
mod receive;
mod sizes;

use super::{
    super::{
        error::RdmaError,
        neutral::Optional, //
    },
    end::{
        self,
        End,
        Event,
        Odd, //
    },
    header::{
        Body,
        Header, //
    },
    limits::Limits,
    operations::Operation, //
};

pub(crate) use super::end::{
    NotAsked,
    Setup,
    Side, //
};
pub(crate) use message::{
    Message,
    Own,
    Response, //
};

/// The effect of a received operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The response to send.
    pub(crate) respond: Option<Response>,
    /// It is the response to a request of this end.
    pub(crate) is_response: bool,
    /// Set if it is to be counted.
    pub(crate) odd: Option<Odd>,
}

/// The effect of an error on the operations of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// None: it is about no operation.
    Nothing,
    /// It is about a message without a response.
    OneWay,
    /// It stands for the response to a request.
    Request,
}

/// One end of the exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    end: End,
    own: Own,
    /// The number of the edition of the Receives that are posted. Each exchange of the Receives
    /// for others begins one, so that an end of growth is told from an earlier one.
    edition: u32,
    /// Bytes of the Receives of that edition.
    posted: u32,
    /// The longest reply that the peer has shown to be able to send, since it has requested that
    /// size; 0 before.
    longest_reply: u32,
    /// Bytes of the shortest and of the longest Send buffers that this end may have.
    sends: (u32, u32),
    /// Bytes of the Send buffers that it has.
    has_sends: u32,
    /// The size of a request that waits for Send buffers of that length.
    asks: Option<u32>,
    /// The peer takes Send With Invalidate.
    pub(crate) peer_invalidates: bool,
    /// The peer takes reverse calls.
    pub(crate) peer_reverse: bool,
}

impl Exchange {
    /// The exchange of a connection of version 2, which begins with `credits` as the first credits
    /// word.
    pub(crate) fn new(setup: &Setup, own: Own, credits: u32) -> Self {
        let mut end = End::new(setup);

        end.on(Event::Established(credits));
        Self {
            end,
            own,
            edition: 0,
            posted: setup.receive,
            longest_reply: 0,
            sends: (setup.buffers, setup.buffers),
            has_sends: setup.buffers,
            asks: None,
            peer_invalidates: false,
            peer_reverse: true,
        }
    }

    /// This end sends no operation, as if the peer supported none.
    pub(crate) fn be_silent(&mut self) {
        self.end.be_silent();
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> Limits {
        self.end.limits()
    }

    /// The next message to send, if its credits permit one. `newest` is the xid of the last RPC
    /// call in this direction.
    pub(crate) fn next(&mut self, newest: u32) -> Option<Message> {
        if self.is_blocked() {
            self.confirm();
        }
        let (xid, operation) = self.end.next(newest, |_| false)?;
        Some(Message::Operation(xid, operation, self.own))
    }

    /// Returns `true` if an update waits until the message before it is confirmed.
    fn is_blocked(&self) -> bool {
        self.end.update.is_some() && self.end.credits.unconfirmed.is_some()
    }

    /// The longest reply that the peer has shown to be able to send; 0 if it has shown none.
    pub(crate) fn longest_reply(&self) -> u32 {
        self.longest_reply
    }

    /// The credits that operations hold.
    pub(crate) fn held_credits(&self) -> u32 {
        self.end.credits.held_by_all()
    }

    /// The next message that the credits permit: `Some(true)` if it takes a credit.
    pub(crate) fn due(&self) -> Option<bool> {
        if self.is_blocked() && self.end.may_confirm() {
            return Some(true);
        }
        self.end.due()
    }

    /// A request without entries is to confirm what was sent (XC-98).
    pub(crate) fn confirm(&mut self) {
        self.end.on(Event::Confirm);
    }

    /// Returns `true` if no message of this end waits for a response or to be confirmed.
    pub(crate) fn is_settled(&self) -> bool {
        self.end.credits.unconfirmed.is_none() && self.end.requests.open.is_none()
    }

    /// A response with this xid has come that cannot be decoded: its request counts as rejected
    /// (XC-56). Returns `false` if none is open.
    pub(crate) fn undecoded(&mut self, xid: u32) -> bool {
        let is_open = self.end.requests.open.is_some_and(|open| open.xid == xid);

        if is_open {
            let unsupported = false;
            self.end.on(Event::Refused { xid, unsupported });
        }
        is_open
    }

    /// Takes an error with this xid.
    pub(crate) fn refused(&mut self, xid: u32, error: &RdmaError) -> Refused {
        let is_request = self.end.requests.open.is_some_and(|open| open.xid == xid);
        let message = self.end.credits.unconfirmed;
        let is_one_way = message.is_some_and(|message| message.xid == xid);
        let unsupported = *error == RdmaError::InvalidOption;

        if !is_request && !is_one_way {
            return Refused::Nothing;
        }
        self.end.on(Event::Refused { xid, unsupported });
        if is_request {
            Refused::Request
        } else {
            Refused::OneWay
        }
    }
}

/// The operation in a message, which was found well-formed, and what is ignored of it.
fn operation<'a>(arrived: &Optional<'a>) -> Option<(Operation<'a>, Option<Odd>)> {
    match Header::decode(arrived.message).ok()?.body {
        Body::Optional {
            direction,
            operation,
            info,
            payload,
        } => {
            let operation = Operation::receive(operation, direction, info).ok()?;
            let ignored = if direction != operation.code().direction() {
                Some(Odd::Direction)
            } else if !payload.is_empty() || operation.has_more_bits() {
                Some(Odd::Leftover)
            } else {
                None
            };
            Some((operation, ignored))
        }
        _ => None,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_exchange))]
mod tests {
    use super::{
        super::{
            super::{
                incoming::Incoming,
                responder::received::Received,
                wire::Wire, //
            }, //
        },
        *, //
    };

    fn setup(side: Side, size: u32) -> Setup {
        Setup {
            side,
            requested: 32,
            told: 4096,
            buffers: 16384,
            receive: size,
            reply: 4096,
            max: size,
        }
    }

    /// Two ends, of a client with Receives of 8192 bytes, and of a server with 16384.
    fn ends(credits: u32) -> (Exchange, Exchange) {
        let client = Own {
            invalidation: true,
            reverse: true,
        };
        let server = Own {
            invalidation: false,
            reverse: false,
        };
        (
            Exchange::new(&setup(Side::Client, 8192), client, credits),
            Exchange::new(&setup(Side::Server, 16384), server, 1),
        )
    }

    /// Delivers a message to a server, or to a client.
    fn deliver(message: &Message, to: &mut Exchange, is_server: bool) -> Option<Effect> {
        let mut bytes = [0; 256];
        let len = message.write(32, &mut bytes).ok()?;
        let bytes = bytes.get(..len)?;
        if is_server {
            match Wire::V2.receive_call(bytes) {
                Received::Operation(arrived) => Some(to.receive(&arrived, 8192)),
                _ => None,
            }
        } else {
            match Wire::V2.receive(bytes) {
                Incoming::Operation(arrived) => Some(to.receive(&arrived, 8192)),
                _ => None,
            }
        }
    }

    // XC-21, XC-38, XC-40, XC-43, XC-77, XC-82, XC-98: both ends know each other's after one round
    // trip.
    #[test]
    fn both_ways() {
        let (mut client, mut server) = ends(32);
        assert!(server.next(0).is_none());
        let Some(init) = client.next(7) else {
            return assert!(false);
        };
        client.confirm();
        let Some(request) = client.next(7) else {
            return assert!(false);
        };
        assert!(!init.is_request() && request.is_request() && client.next(7).is_none());
        assert!(!client.is_settled());

        assert_eq!(deliver(&init, &mut server, true), Some(Effect::default()));
        assert!(server.peer_invalidates && server.peer_reverse);
        assert_eq!(server.limits().send, 8192);
        let answer = server.next(0);
        let Some(respond) = deliver(&request, &mut server, true).and_then(|it| it.respond) else {
            return assert!(false);
        };
        let answered = answer.and_then(|answer| deliver(&answer, &mut client, false));
        assert_eq!(answered, Some(Effect::default()));
        assert!(!client.peer_invalidates && !client.peer_reverse);
        let respond = Message::Response(respond);
        let effect = deliver(&respond, &mut client, false);
        assert!(effect.is_some_and(|effect| effect.is_response && effect.odd.is_none()));
        assert!(client.is_settled() && client.limits().send == 16384);
        // The reply is planned by the size that the server has taken (XC-89).
        assert_eq!(client.limits().reply, 8192);
        // A second response is no answer.
        let effect = deliver(&respond, &mut client, false);
        assert!(effect.is_some_and(|effect| !effect.is_response && effect.odd.is_some()));
    }

    /// Requests `size` of a server, which takes it after all Receives of `edition` are there.
    fn raise(client: &mut Exchange, server: &mut Exchange, size: u32, edition: u32) -> Option<()> {
        client.ask(size).ok()?;
        let request = client.next(7)?;
        let respond = deliver(&request, server, true)?.respond?;
        deliver(&Message::Response(respond), client, false)?;
        if server.posts() != size {
            return None;
        }
        server.exchanged(edition);
        let update = server.next(0)?;
        deliver(&update, client, false)?;
        (client.in_force().1 == size && client.requested().is_none()).then_some(())
    }

    // XC-56: a response that cannot be decoded ends its request as one that rejects, and no other.
    #[test]
    fn undecoded() {
        let mut client = ends(32).0;
        let _ = client.next(7);
        client.end.on(Event::Init {
            size: end::Entry::Value(8192),
            fixed: false,
        });
        for _ in 0..2 {
            assert!(client.ask(16384).is_ok());
            let Some(request) = client.next(7) else {
                return assert!(false);
            };
            assert!(request.is_request() && !client.is_settled());
            assert!(client.held_credits() > 0);
            assert!(!client.undecoded(request.xid() ^ 1) && client.requested().is_some());
            assert!(client.undecoded(request.xid()) && client.requested().is_none());
            assert_eq!((client.held_credits(), client.in_force().1), (0, 8192));
            assert!(!client.undecoded(request.xid()));
        }
    }

    // XC-57, XC-90: growth back to a length that the Receives still have needs no other ones.
    #[test]
    fn there_and_back() {
        let (mut client, mut server) = ends(32);
        let large = Setup {
            max: 65536,
            ..setup(Side::Server, 8192)
        };
        server = Exchange::new(&large, server.own, 1);
        server.end.on(Event::Init {
            size: end::Entry::Value(8192),
            fixed: false,
        });
        client.end.on(Event::Init {
            size: end::Entry::Value(8192),
            fixed: false,
        });
        server.end.init = end::Once::Sent;
        client.end.init = end::Once::Sent;

        // Not before the Receives of the next edition are there.
        assert_eq!(raise(&mut client, &mut server, 16384, 0), None);
        server.begin_edition(1, 16384);
        server.exchanged(1);
        let update = server
            .next(0)
            .and_then(|it| deliver(&it, &mut client, false));
        assert!(update.is_some() && client.in_force().1 == 16384);
        // Smaller, immediately, and larger again before any Receive is exchanged.
        assert_eq!(client.ask(8192), Ok(()));
        let request = client.next(7);
        let effect = request.and_then(|it| deliver(&it, &mut server, true));
        let Some(respond) = effect.and_then(|effect| effect.respond) else {
            return assert!(false);
        };
        assert!(deliver(&Message::Response(respond), &mut client, false).is_some());
        assert_eq!((client.in_force().1, server.posts()), (8192, 8192));
        server.end.credits.unconfirmed = None;
        assert_eq!(raise(&mut client, &mut server, 16384, 1), Some(()));
    }

    // XC-89, XC-103: a client plans replies by a size that the server has requested, so a server
    // requests none before it can send as much.
    #[test]
    fn requests_wait_for_send_buffers() {
        let mut server = Exchange::new(&setup(Side::Server, 4096), ends(1).1.own, 32);
        server.end.on(Event::Init {
            size: end::Entry::Value(4096),
            fixed: false,
        });
        server.end.init = end::Once::Sent;
        server.permit_sends(0, 65536);

        assert_eq!(
            (server.ask(65536), server.requested()),
            (Ok(()), Some(65536))
        );
        assert!(server.sends() == 65536 && server.due().is_none() && server.next(0).is_none());
        // Half of it is all that memory suffices for.
        server.cut_sends(32768);
        assert!(server.sends() == 32768 && server.next(0).is_none());
        server.buffers(32768);
        assert!(server.requested() == Some(32768) && server.due() == Some(true));
        assert!(server.next(0).is_some_and(|message| message.is_request()));
        // A request for what it can send already does not wait.
        server.end.requests = Default::default();
        assert_eq!((server.ask(16384), server.due()), (Ok(()), Some(true)));
        // No memory for more than the client has.
        server.end.wanted = None;
        server.permit_sends(0, 65536);
        assert_eq!(server.ask(65536), Ok(()));
        server.end.told = 32768;
        server.cut_sends(32768);
        assert!(server.requested().is_none() && server.due().is_none());
    }

    // V2-59: with one credit nothing is sent, since it would stop the calls.
    #[test]
    fn one_credit() {
        let (mut client, _) = ends(1);
        assert!(client.next(7).is_none() && client.is_settled());
    }

    // XC-47, V2-51: a peer without characteristics.
    #[test]
    fn without_characteristics() {
        let (mut client, _) = ends(32);
        let first = client.next(7);
        client.confirm();
        let second = client.next(7);
        let (Some(Message::Operation(init, ..)), Some(Message::Operation(request, ..))) =
            (first, second)
        else {
            return assert!(false);
        };
        let error = RdmaError::InvalidOption;
        assert_eq!(client.refused(init ^ 1, &error), Refused::Nothing);
        assert_eq!(client.refused(init, &error), Refused::OneWay);
        assert_eq!(client.refused(request, &error), Refused::Request);
        assert!(client.is_settled() && client.limits().send == 4096);
        assert!(client.next(7).is_none());
    }
}
