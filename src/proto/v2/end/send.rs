// SPDX-License-Identifier: GPL-2.0

//! The operations that an end sends, one at a time, as its credits permit.

use super::{
    super::pending::Change,
    Announce,
    End,
    Once,
    Operation,
    Side, //
};

impl End {
    /// The next operation that may be sent now, with its xid, which counts as sent. `newest` and
    /// `is_live` are as for [`Xids::take`].
    pub(crate) fn next(
        &mut self,
        newest: u32,
        is_live: impl Fn(u32) -> bool,
    ) -> Option<(u32, Operation)> {
        let operation = self.may_send().then(|| self.choose()).flatten()?;
        let open = self.requests.open.map(|open| open.xid);
        let one_way = self.credits.unconfirmed.map(|message| message.xid);
        let is_live = |xid| is_live(xid) || open == Some(xid) || one_way == Some(xid);
        let xid = self.xids.take(newest, is_live)?;
        self.sent(xid, operation);
        Some((xid, operation))
    }

    /// The operation that may be sent now: `Some(true)` if it takes a credit.
    pub(crate) fn due(&self) -> Option<bool> {
        let operation = self.may_send().then(|| self.choose()).flatten()?;

        Some(match operation {
            Operation::Request { .. } => true,
            Operation::Init { .. } | Operation::Update { .. } => !self.credits.has_extra,
        })
    }

    /// Returns `true` if a request that confirms the last message may be sent.
    pub(crate) fn may_confirm(&self) -> bool {
        self.may_send()
            && self.confirm == Once::Not
            && !self.unsupported.request
            && self.credits.may_call()
            && self.requests.may_ask(false)
    }

    /// A client that has sent no `INITXCH` may have no Receive for an operation.
    fn may_send(&self) -> bool {
        !self.unsupported.all && (self.side == Side::Client || self.knows)
    }

    fn choose(&self) -> Option<Operation> {
        let may_notify = self.credits.may_notify();
        let may_request = !self.unsupported.request && self.credits.may_call();
        let size = self.size.in_force();
        if self.init == Once::Due && may_notify {
            return Some(Operation::Init { size });
        }
        if self.wanted.is_some() && may_request && self.requests.may_ask(true) {
            return Some(Operation::Request { want: self.wanted });
        }
        let may_update = self.init == Once::Sent && !self.unsupported.update;
        match self.update {
            Some(Announce { finished }) if may_update && may_notify => {
                return Some(Operation::Update { size, finished })
            }
            _ => {}
        }
        let confirms = self.confirm == Once::Due && self.credits.unconfirmed.is_some();
        (confirms && may_request && self.requests.may_ask(false))
            .then_some(Operation::Request { want: None })
    }

    fn sent(&mut self, xid: u32, operation: Operation) {
        match operation {
            Operation::Init { size } => {
                self.init = Once::Sent;
                self.notified(xid, size, false);
                self.update = self.update.filter(|update| update.finished);
            }
            Operation::Update { size, .. } => {
                self.notified(xid, size, true);
                self.update = None;
            }
            Operation::Request { want } => {
                let Some(number) = self.credits.call() else {
                    return;
                };
                let old = self.told;
                let change = want.map(|want| Change { old, want });
                self.requests.ask(xid, number, change);
                if want.is_some() {
                    self.wanted = None;
                }
                // Either kind confirms.
                if self.credits.unconfirmed.is_some() {
                    self.confirm = Once::Sent;
                }
            }
        }
    }

    fn notified(&mut self, xid: u32, size: u32, is_update: bool) {
        self.credits.notify(xid);
        self.announced = size;
        // An update that is not supported is refused, and the peer keeps to the size before.
        if !is_update || self.takes_updates {
            self.taken = size;
        }
        self.last_was_update = is_update;
        self.confirm = Once::Not;
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_end))]
mod tests {
    use super::{
        super::{
            Disposition,
            Entry,
            Event,
            NotAsked,
            Odd,
            Setup, //
        },
        *, //
    };

    fn end(side: Side, receive: u32) -> End {
        End::new(&Setup {
            side,
            requested: 32,
            told: 4096,
            buffers: 65_536,
            receive,
            reply: 4096,
            max: 16_384,
        })
    }

    fn client(credits: u32) -> End {
        let mut end = end(Side::Client, 8192);
        end.on(Event::Established(credits));
        end
    }

    fn next(end: &mut End) -> Option<Operation> {
        end.next(7, |_| false).map(|(_, operation)| operation)
    }

    fn init(end: &mut End, size: Entry) -> Option<Odd> {
        end.on(Event::Init { size, fixed: false }).odd
    }

    // V2-72, XC-38: the client's INITXCH needs two credits, the server's answers it.
    #[test]
    fn first_operations() {
        assert_eq!(next(&mut client(1)), None);
        let operation = Operation::Init { size: 8192 };
        assert_eq!(next(&mut client(2)), Some(operation));

        let mut server = end(Side::Server, 8192);
        server.on(Event::Established(32));
        assert_eq!(next(&mut server), None);
        assert_eq!(init(&mut server, Entry::Absent), None);
        assert_eq!(next(&mut server), Some(operation));
        assert_eq!(next(&mut server), None);
    }

    // XC-13, XC-21, XC-22, XC-45, XC-75: the sizes of INITXCH.
    #[test]
    fn sizes_of_init() {
        for (size, odd, send) in [
            (Entry::Absent, None, 4096),
            (Entry::Twice, Some(Odd::Twice), 4096),
            (Entry::Value(1023), Some(Odd::TooSmall), 4096),
            (Entry::Value(1024), None, 1024),
            (Entry::Value(16_387), None, 16_384),
            // XC-103: not more than the own Send buffers.
            (Entry::Value(u32::MAX), None, 65_536),
        ] {
            let mut end = client(2);
            assert_eq!(init(&mut end, size), odd);
            assert_eq!(end.limits().send, send);
            assert_eq!(init(&mut end, Entry::Absent), Some(Odd::SecondInit));
        }
    }

    // XC-88, XC-89: replies are planned by the own size when the peer has named one.
    #[test]
    fn evidence() {
        let mut end = client(2);
        assert!(next(&mut end).is_some());
        init(&mut end, Entry::Absent);
        assert_eq!(end.limits().reply, 4096);
        end.on(Event::Updated {
            size: 4096,
            finished: false,
        });
        assert_eq!(end.limits().reply, 8192);
    }

    // V2-51, XC-24, XC-47: operations that are not supported.
    #[test]
    fn refusals() {
        let mut end = client(3);
        let first = end.next(7, |_| false).map(|(xid, _)| xid);
        let unsupported = true;
        let xid = first.unwrap_or_default();
        assert_eq!(end.on(Event::Refused { xid, unsupported }).odd, None);
        assert_eq!(end.ask(16_384), Err(NotAsked::Unsupported));
        assert_eq!(next(&mut end), None);
        let odd = end.on(Event::Refused { xid, unsupported }).odd;
        assert_eq!(odd, Some(Odd::Unmatched));
    }

    // XC-43, XC-93, XC-95: sizes that are never requested.
    #[test]
    fn not_asked() {
        let mut client = client(2);
        assert_eq!(client.ask(2048), Err(NotAsked::TooSmall));
        let (size, fixed) = (Entry::Value(8192), true);
        client.on(Event::Init { size, fixed });
        assert_eq!(client.ask(16_384), Err(NotAsked::Fixed));

        let mut server = end(Side::Server, 4096);
        init(&mut server, Entry::Value(16_384));
        assert_eq!(server.ask(8192), Err(NotAsked::ServerShrinks));
        assert_eq!(server.ask(65_536), Ok(()));
    }

    // XC-14, XC-32, XC-48, XC-92: each request has one response.
    #[test]
    fn responses() {
        for (size, respond) in [
            (Entry::Absent, Disposition::Rejected),
            (Entry::Twice, Disposition::Rejected),
            (Entry::Value(4096), Disposition::Done),
            (Entry::Value(16_384), Disposition::Pending),
            (Entry::Value(65_536), Disposition::Rejected),
        ] {
            let mut end = end(Side::Server, 4096);
            let outcome = end.on(Event::Requested {
                size,
                newest: 9,
                relied: 0,
            });
            assert_eq!(outcome.respond, Some(respond));
        }
    }

    // XC-58, XC-60, XC-61, XC-74, XC-91: updates, sent and received.
    #[test]
    fn updates() {
        let mut end = client(2);
        assert!(next(&mut end).is_some());
        init(&mut end, Entry::Value(8192));
        end.on(Event::Grow {
            to: 16_384,
            newest: 9,
        });
        end.on(Event::Completed(9));
        // The first one-way message is not confirmed.
        assert_eq!(next(&mut end), None);
        let number = end.credits.call().unwrap_or_default();
        let credits = Some(2);
        end.on(Event::Answered { number, credits });
        let (size, finished) = (16_384, false);
        assert_eq!(next(&mut end), Some(Operation::Update { size, finished }));

        let size = 4096;
        let odd = end.on(Event::Updated { size, finished }).odd;
        assert_eq!((odd, end.limits().send), (Some(Odd::Shrinks), 4096));
        let finished = true;
        let odd = end.on(Event::Updated { size, finished }).odd;
        assert_eq!(odd, Some(Odd::NothingPending));
    }

    // XC-98: a request without entries, once for each one-way message.
    #[test]
    fn confirmation() {
        let mut end = client(3);
        assert!(next(&mut end).is_some());
        end.on(Event::Confirm);
        let (xid, operation) = end.next(7, |_| false).unzip();
        assert_eq!(operation, Some(Operation::Request { want: None }));
        end.on(Event::Confirm);
        assert_eq!(next(&mut end), None);
        end.on(Event::Responded {
            xid: xid.unwrap_or_default(),
            credits: 3,
            size: Disposition::Unclear,
        });
        assert_eq!(end.credits.unconfirmed, None);
        assert_eq!(end.credits.outstanding, 0);
    }
}
