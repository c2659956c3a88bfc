// SPDX-License-Identifier: GPL-2.0

//! The transport as sunrpc sees it.

use core::net::SocketAddr;

use kernel::{
    impl_has_delayed_work,
    new_delayed_work,
    new_spinlock,
    prelude::*,
    seq_file::SeqFile,
    sync::{
        atomic::{
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        ArcBorrow,
        SpinLock, //
    },
    workqueue::{
        DelayedWork,
        WorkItem, //
    }, //
};

use super::{
    connect,
    connection::{
        attempt::RELEASE_POLL,
        close_reason::CloseReason,
        Connection,
        Shared, //
    },
    request::{
        state::ReleaseAction,
        Request, //
    },
    send::Sender,
    shared::REVERSE_SLOTS, //
    transports,
};
use crate::os::series::EOPNOTSUPP;
use crate::{
    os::{
        self,
        debugfs::File,
        jiffies,
        secs_to_jiffies,
        PAGE_SIZE, //
    },
    policy::{
        self,
        Target, //
    },
    sunrpc::{
        Call,
        Class,
        ConnectLock,
        ConnectStatus,
        Names,
        Params,
        ReverseReply,
        SendStatus,
        Transport,
        WriteLock,
        WriteLocked,
        Xprt, //
    },
    view, //
};

/// The class that `proto=rdma` and `proto=rdma6` find.
pub(crate) static CLASS: Class = Class::new::<RdmaTransport>();

/// Seconds before the second attempt to connect; each further one waits twice as long.
const FIRST_BACKOFF_SECS: u32 = 5;

/// A client transport to one server.
#[pin_data]
pub(crate) struct RdmaTransport {
    /// The current connection with its send queue, for the holder of the write lock.
    sender: WriteLocked<Option<Sender>>,
    /// The lock of an attempt to connect, on its way to the worker.
    #[pin]
    lock: SpinLock<Option<ConnectLock<Request>>>,
    #[pin]
    work: DelayedWork<Self>,
    /// When that attempt may begin, in jiffies.
    due: Atomic<usize>,
    generation: Atomic<u64>,
    _counters: File<Shared>,
    _entry: transports::Entry,
    // Last: dropping it may drop the last reference to the module.
    shared: Arc<Shared>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for RdmaTransport { self.work }
}

impl RdmaTransport {
    /// The current connection.
    #[inline]
    fn current(&self) -> Option<Arc<Connection>> {
        self.shared.current()
    }

    /// The connection with this number; `None` once its teardown is over, when neither the device
    /// nor the server can reach anything through it.
    fn connection(&self, generation: u64) -> Option<Arc<Connection>> {
        self.current().filter(|c| c.generation() == generation)
    }

    /// Makes a connection, ready for sunrpc.
    fn establish(&self, lock: &mut ConnectLock<Request>) -> Result<Arc<Connection>, ConnectStatus> {
        let generation = self.generation.fetch_add(1, Relaxed).wrapping_add(1);
        let sender = connect::connect(&self.shared, generation, &lock.write_lock())?;
        let connection = sender.connection.clone();

        let receives = self.shared.xprt.counters().receives;
        connection.tenure.begin(lock.next_cookie(), receives);
        let lock = &mut lock.write_lock();
        self.shared.xprt.reset_credits();
        connection.open_window();
        self.shared
            .lessons
            .connected(connection.window.is_confirmed());
        // No sender is left here: sunrpc has closed the last connection.
        if let Some(Sender {
            connection, queue, ..
        }) = self.sender.replace(lock, Some(sender))
        {
            connection.close(queue);
        }
        *self.shared.current.lock() = Some(connection.clone());
        // An upper layer may set up the reverse direction at the same time: either it finds the
        // connection, or this finds that the direction is set up.
        if self.shared.xprt.backchannel().is_set_up() {
            connection.expect_reverse_calls();
        }
        Ok(connection)
    }

    /// The time until the next attempt to connect may begin, in jiffies, if the last connections
    /// have worked and not lasted.
    fn pause_after_brief(&self) -> usize {
        let secs = self.shared.lessons.pause_secs();
        // CAST: Few seconds.
        let pause = secs_to_jiffies(secs as u32);
        // The last attempt was due then.
        let since = jiffies().wrapping_sub(self.due.load(Relaxed));

        pause.saturating_sub(since)
    }

    /// Waits until an attempt to connect may begin, or sunrpc is done with the transport. Returns
    /// `true` if the pause is over.
    fn pause(this: &Arc<Self>) -> bool {
        let left = this.due.load(Relaxed).wrapping_sub(jiffies());

        // Beyond half of the range it is in the past.
        if left == 0 || left > usize::MAX / 2 || this.shared.xprt.is_released() {
            return true;
        }
        // sunrpc does not notify the transport when it drops its last reference: it waits for the
        // write lock, which is held during the pause (H-49). The work is not queued while it runs.
        let _ = os::transport_queue().enqueue_delayed(this.clone(), left.min(RELEASE_POLL));
        false
    }
}

impl WorkItem for RdmaTransport {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !Self::pause(&this) {
            return;
        }
        let Some(mut lock) = this.lock.lock().take() else {
            return;
        };
        if this.shared.xprt.is_released() {
            lock.failed(ConnectStatus::Retry);
            return;
        }
        // Connecting happens on behalf of memory reclaim, when dirty pages wait for the server.
        let _scope = os::ReclaimScope::enter(this.shared.xprt.is_swapping());

        match this.establish(&mut lock) {
            Ok(connection) => {
                lock.established();
                // A loss before this could not reach sunrpc; `publish` notices it.
                connection.publish();
            }
            Err(status) => {
                this.shared.lessons.failed();
                lock.failed(status);
            }
        }
    }
}

impl Transport for RdmaTransport {
    type Slot = Request;

    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: u32 = 256;

    const NAMES: Names = Names {
        class: c"rdma",
        protocol: c"rdma",
        netid: c"rdma",
        netid6: c"rdma6",
    };

    const PARAMS: Params = Params {
        // 1 MiB, and one page since it may start anywhere. CAST: Widening.
        payload: 1024 * 1024 + PAGE_SIZE as usize,
        idle_secs: 5 * 60,
        reconnect_secs: 5,
        bind_secs: 60,
        reply_secs: 60,
    };

    fn class() -> &'static Class {
        &CLASS
    }

    fn max_requests(server: SocketAddr, net: os::Net<'_>) -> u32 {
        // The device is known only when a connection is made.
        policy::table::most_credits(&Target::server(
            server.ip(),
            server.port(),
            None,
            net.number(),
        ))
    }

    fn new(xprt: Xprt<Request>, server: SocketAddr) -> Result<Arc<Self>> {
        let shared = Shared::new(xprt, server)?;
        let entry = transports::Entry::new(&shared)?;
        let counters = File::new(
            view::DEBUGFS,
            fmt!("xprt-{}", shared.xprt.id()),
            shared.clone(),
        );
        Arc::pin_init(
            pin_init!(Self {
                sender: WriteLocked::new(&shared.xprt, None),
                lock <- new_spinlock!(None, "rpcrdma_rs::RdmaTransport::lock"),
                work <- new_delayed_work!("rpcrdma_rs::connect"),
                due: Atomic::new(0),
                generation: Atomic::new(0),
                _counters: counters,
                _entry: entry,
                shared,
            }),
            GFP_KERNEL,
        )
    }

    fn connect(this: ArcBorrow<'_, Self>, mut lock: ConnectLock<Request>) {
        let delay = if this.shared.lessons.backs_off() {
            lock.write_lock()
                .next_backoff(secs_to_jiffies(FIRST_BACKOFF_SECS))
        } else {
            this.pause_after_brief()
        };
        if let Some(program) = lock.program() {
            this.shared.note_client(program);
        }
        this.shared.started.store(true, Release);
        let peer = this.shared.xprt.peer();
        let delay_ms = delay
            .saturating_mul(1000)
            .checked_div(secs_to_jiffies(1))
            .unwrap_or(0);
        // CAST: Pauses are minutes at most.
        this.shared
            .trace()
            .op_connect(peer.host(), peer.port(), delay_ms as u32);
        this.due.store(jiffies().wrapping_add(delay), Relaxed);
        *this.lock.lock() = Some(lock);
        // sunrpc starts no second attempt while this one is under way, so the work is not queued
        // already.
        let _ = os::transport_queue().enqueue_delayed(Arc::from(this), delay.min(RELEASE_POLL));
    }

    fn close(&self, lock: &mut WriteLock<'_>) {
        let sender = self.sender.replace(lock, None);

        if let Some(Sender {
            connection, queue, ..
        }) = sender
        {
            connection.close(queue);
        }
        // Not before: a task that has to wait for the teardown finds the connection there.
        let current = self.shared.current.lock().take();
        drop(current);
        lock.disconnected();
    }

    #[inline(always)]
    fn send(&self, lock: &mut WriteLock<'_>, call: Call<'_, Request>) -> Result<(), SendStatus> {
        let sender = self.sender.get(lock).and_then(Option::as_mut);
        let sender = sender.ok_or(SendStatus::NotConnected)?;
        if !self.shared.xprt.is_connected() {
            return Err(SendStatus::NotConnected);
        }
        if !call.take_credit() {
            return Err(SendStatus::NoCredit);
        }
        // The same call must not be sent twice on one connection: it would take two credits of the
        // server and bring two replies (H-11, V1-123). A server that has not replied for so long
        // gets a new connection instead.
        let sent = if call.was_sent_on(self.shared.xprt.connect_cookie()) {
            Err(SendStatus::NotConnected)
        } else {
            // A call that expects no reply is abandoned by its task once it is sent (H-12).
            sender.send(call)
        };
        if sent == Err(SendStatus::NotConnected) {
            self.close(lock);
        }
        sent
    }

    fn send_reverse(
        &self,
        lock: &mut WriteLock<'_>,
        reply: &ReverseReply<'_>,
    ) -> Result<(), SendStatus> {
        let sender = self.sender.get(lock).and_then(Option::as_mut);
        let sent = sender.ok_or(SendStatus::NotConnected)?.send_reverse(reply);
        if sent == Err(SendStatus::NotConnected) {
            self.close(lock);
        }
        sent
    }

    fn released(&self, request: &Request) -> Option<u32> {
        // Not a reference of our own: it might be the last, and dropping that may sleep.
        self.shared.current.lock().as_ref()?.abandon(request)
    }

    fn release_buffers(&self, request: &Request) {
        // Outlives the lock: this may be the last reference, and dropping that may sleep.
        let mut connection = None;
        let mut state = request.state.lock();
        if state.call.is_idle() {
            return;
        }
        if let Some(generation) = state.call.abandoned_on() {
            drop(state);
            connection = self.connection(generation);
            if let Some(connection) = &connection {
                connection.record(request);
            }
            state = request.state.lock();
        }
        let release = state.call.release();
        // If the reply came while its record was made, a second one must find neither.
        let record = connection
            .as_ref()
            .filter(|_| release.has_replied())
            .and_then(|connection| connection.abandoned.forget(state.xid));
        drop(state);
        drop(record);
        match release {
            ReleaseAction::Done { .. } => {}
            ReleaseAction::EndConnection(of) => self.connection(of).map_or((), |c| c.end()),
            ReleaseAction::Invalidate {
                generation,
                exposed,
                ..
            } => {
                match self.connection(generation) {
                    Some(connection) => connection.invalidate_and_wait(request, exposed),
                    // Its teardown is over: the pool destroys them.
                    None => drop(exposed),
                }
                request.state.lock().call.released();
            }
        }
    }

    fn timed_out(&self, cookie: u32) {
        // Of calls that time out together the first ends the connection, and the others may come
        // when a new one exists. The state of the call does not matter: after a reply with a bad
        // verifier sunrpc keeps waiting for another reply, which never comes.
        let has_sent_it = |connection: &Arc<Connection>| connection.tenure.cookie() == cookie;
        let Some(connection) = self.current().filter(has_sent_it) else {
            return;
        };
        // A reliable connection has no keepalive of its own: if the server is gone, a new attempt
        // finds out. If it only does not reply to this call, the others must not wait for it again.
        self.shared.lessons.timed_out();
        connection.lost(CloseReason::CallTimeout);
    }

    fn reverse_set_up(&self) -> Result {
        if !self.shared.policy().0.reverse {
            pr_info!(
                "{}: no reverse direction, by rule or parameter: NFSv4.1 and later need it\n",
                self.shared.xprt.peer()
            );
            return Err(EOPNOTSUPP);
        }
        // A slot comes back some time after its reply was sent, and the server may use the credit
        // as soon as it has the reply.
        self.shared.xprt.backchannel().set_up(2 * REVERSE_SLOTS)?;
        // A connection that is being made checks this itself once it is current.
        if let Some(connection) = self.current() {
            connection.expect_reverse_calls();
        }
        Ok(())
    }

    fn reverse_payload(&self) -> usize {
        self.shared.reverse_payload.load(Relaxed).min(PAGE_SIZE) as usize
    }

    fn reverse_slots(&self) -> u32 {
        REVERSE_SLOTS
    }

    fn print_stats(&self, seq: &SeqFile) {
        let Shared {
            stats, xprt, slots, ..
        } = &*self.shared;
        stats.print(xprt, slots.grown_bytes(), seq);
    }
}
