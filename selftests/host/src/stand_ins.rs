// SPDX-License-Identifier: GPL-2.0

//! Stand-ins for the kernel's crate and for the neighbours of the sources with lock-free words. A
//! node is never freed, so that a mistake which gives it two owners harms only the run that finds
//! it.

/// `kernel::sync`.
pub(crate) mod sync {
    pub(crate) use crate::explorer::atomic;
    pub(crate) use std::sync::Arc;
}

/// `kernel::prelude`.
pub(crate) mod prelude {
    pub(crate) const GFP_KERNEL: () = ();

    pub(crate) type KBox<T> = Box<T>;

    #[derive(Debug)]
    pub(crate) struct Error;

    pub(crate) type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// A vector that does not grow by itself.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub(crate) struct KVec<T>(Vec<T>);

    impl<T> KVec<T> {
        pub(crate) const fn new() -> Self {
            Self(Vec::new())
        }

        pub(crate) fn with_capacity(capacity: usize, _flags: ()) -> Result<Self> {
            Ok(Self(Vec::with_capacity(capacity)))
        }

        pub(crate) fn push_within_capacity(&mut self, value: T) -> Result {
            if self.0.len() == self.0.capacity() {
                return Err(Error);
            }
            self.0.push(value);
            Ok(())
        }
    }

    impl<T> std::ops::Deref for KVec<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> std::ops::DerefMut for KVec<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

/// The pool of registrations.
pub(crate) mod pool {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::{chain::Chain, sync::Arc};
    use crate::explorer::Plain;

    pub(crate) type MrChain<S> = Chain<S>;

    pub(crate) struct Mr {
        pub(crate) pool: Option<Arc<MrPool>>,
        pub(crate) memory: Plain,
    }

    /// Counts the registrations that come back.
    #[derive(Default)]
    pub(crate) struct MrPool(AtomicUsize);

    impl MrPool {
        pub(crate) fn reclaim<S>(&self, chain: &Chain<S>) {
            chain.mr().memory.write();
            self.0.fetch_add(1, Relaxed);
        }

        pub(crate) fn reclaimed(&self) -> usize {
            self.0.load(Relaxed)
        }
    }
}

/// Registrations in a row.
pub(crate) mod chain {
    use std::{marker::PhantomData, ptr::NonNull};

    use super::pool::Mr;

    pub(crate) struct Invalidated;

    /// One registration.
    pub(crate) struct Chain<S>(NonNull<Mr>, PhantomData<S>);

    // SAFETY: A registration belongs to one chain.
    unsafe impl<S> Send for Chain<S> {}

    impl<S> Chain<S> {
        /// # Safety
        ///
        /// `head` must come from [`Self::into_raw`], or be a registration of no other chain.
        pub(crate) unsafe fn from_raw(head: NonNull<Mr>) -> Self {
            Self(head, PhantomData)
        }

        pub(crate) fn into_raw(self) -> NonNull<Mr> {
            self.0
        }

        pub(super) fn mr(&self) -> &Mr {
            // SAFETY: Registrations are never freed, and each belongs to one chain.
            unsafe { self.0.as_ref() }
        }
    }
}

/// Lists of registrations.
pub(crate) mod list {
    use super::{
        chain::{Chain, Invalidated},
        pool::{Mr, MrPool},
        sync::Arc,
    };
    use crate::explorer::Plain;

    /// A list of one registration.
    pub(crate) struct MrList<S>(Option<Chain<S>>);

    impl MrList<Invalidated> {
        /// A registration of `pool`.
        pub(crate) fn of(pool: &Arc<MrPool>) -> Self {
            let mr = Box::leak(Box::new(Mr {
                pool: Some(pool.clone()),
                memory: Plain::new("a registration"),
            }));
            // SAFETY: The registration is new.
            Self::new(unsafe { Chain::from_raw(mr.into()) })
        }

        pub(crate) fn new(chain: Chain<Invalidated>) -> Self {
            Self(Some(chain))
        }

        pub(crate) fn into_chain(mut self) -> Chain<Invalidated> {
            let chain = self.0.take().expect("there until now");
            // The call before has used it.
            chain.mr().memory.write();
            chain
        }

        pub(crate) fn count(&self) -> u32 {
            1
        }
    }

    impl<S> MrList<S> {
        fn pool(&self) -> Option<&Arc<MrPool>> {
            self.0.as_ref()?.mr().pool.as_ref()
        }
    }

    impl<S> Drop for MrList<S> {
        fn drop(&mut self) {
            if let (Some(chain), Some(pool)) = (&self.0, self.pool()) {
                pool.reclaim(chain);
            }
        }
    }
}

/// A delayed work item.
pub(crate) mod work {

    use crate::explorer::atomic::{Atomic, Full, Relaxed};

    /// Its `WORK_STRUCT_PENDING` bit, and its timer. One thread runs it.
    pub(crate) struct DelayedWork {
        pending: Atomic<bool>,
    }

    impl DelayedWork {
        pub(crate) fn new() -> Self {
            let pending = Atomic::new(false);
            pending.load(Relaxed);
            Self { pending }
        }

        /// queue_delayed_work(): the bit is set in a fully ordered operation, also if it was set
        /// before. A pause may take no time.
        pub(crate) fn enqueue(&self) {
            self.pending.xchg(true, Full);
        }

        /// A worker clears the bit, with a full barrier, before it runs the item. Returns whether
        /// the bit was set.
        pub(crate) fn dequeue(&self) -> bool {
            self.pending.xchg(false, Full)
        }
    }
}

/// sunrpc's object.
pub(crate) mod xprt {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use crate::{
        explorer::{
            atomic::{Atomic, Full, Relaxed},
            fail, remembers, Lock,
        },
        module::client::connection::waiters::UpperLayer,
    };

    /// Its bits `XPRT_WRITE_SPACE` and `XPRT_CWND_WAIT`, and `transport_lock`.
    pub(crate) struct Xprt {
        space_wanted: Atomic<bool>,
        window_waits: Atomic<bool>,
        lock: Lock,
        has_woken: AtomicBool,
        /// Set if a sender did not have to wait when it gave its credit back.
        looks_again: AtomicBool,
        /// Set if the wait for replies was ended.
        is_ended: AtomicBool,
    }

    impl Xprt {
        pub(crate) fn new() -> Self {
            let (space_wanted, window_waits) = (Atomic::new(false), Atomic::new(false));
            space_wanted.load(Relaxed);
            window_waits.load(Relaxed);
            Self {
                space_wanted,
                window_waits,
                lock: Lock::new(),
                has_woken: AtomicBool::new(false),
                looks_again: AtomicBool::new(false),
                is_ended: AtomicBool::new(false),
            }
        }

        /// `Call::give_credit_back`. If the sender need not wait, it looks again immediately.
        pub(crate) fn give_credit_back(&self, must_wait: impl FnOnce() -> bool) {
            self.lock.with(|| {
                let waits = must_wait();
                self.window_waits.store(waits, Relaxed);
                if !waits {
                    self.has_woken.store(true, SeqCst);
                    self.looks_again.store(true, SeqCst);
                }
            });
        }

        /// Returns `true` if sunrpc makes senders wait, for either reason.
        pub(crate) fn has_senders_wait(&self) -> bool {
            self.is_space_wanted() || self.window_waits.load(Relaxed)
        }

        fn want_space(&self) {
            self.space_wanted.store(true, Relaxed);
        }

        fn end_space_wait(&self) {
            if self.space_wanted.load(Relaxed) && self.space_wanted.xchg(false, Full) {
                self.has_woken.store(true, SeqCst);
            }
        }

        fn end_wait_for_replies(&self) {
            self.is_ended.store(true, SeqCst);
            self.lock.with(|| self.window_waits.store(false, Relaxed));
            self.has_woken.store(true, SeqCst);
        }

        /// No sender waits at the end of a run; a sender that `sleeps`, since it has found nothing,
        /// was woken.
        pub(crate) fn check(&self, sleeps: bool) {
            if self.has_senders_wait() {
                fail("sunrpc waits although there is room, or no attempt is queued");
            }
            if sleeps && !self.has_woken.load(SeqCst) {
                fail("a sender waits without sunrpc");
            }
            if self.looks_again.load(SeqCst) && !self.is_ended.load(SeqCst) {
                fail("a sender looks again although nothing has come back");
            }
        }
    }

    /// Each call may be left out.
    impl UpperLayer for Xprt {
        /// xprt_wait_for_buffer_space()
        #[track_caller]
        fn wait_for_buffer_space(&self) {
            if remembers() {
                self.want_space();
            }
        }

        fn is_space_wanted(&self) -> bool {
            self.space_wanted.load(Relaxed)
        }

        /// xprt_write_space()
        #[track_caller]
        fn space_available(&self) {
            if remembers() {
                self.end_space_wait();
            }
        }

        /// `Xprt::wake_sender`
        #[track_caller]
        fn wake_sender(&self) {
            if remembers() {
                self.end_wait_for_replies();
            }
        }
    }
}

/// Buffers or registrations that are free.
pub(crate) mod stock {
    use crate::explorer::{
        atomic::{Atomic, Relaxed},
        Lock,
    };

    /// The number of them, under a lock.
    pub(crate) struct Stock {
        lock: Lock,
        free: Atomic<u32>,
    }

    impl Stock {
        pub(crate) fn new() -> Self {
            let free = Atomic::new(0);
            free.load(Relaxed);
            Self {
                lock: Lock::new(),
                free,
            }
        }

        pub(crate) fn add(&self) {
            self.lock.with(|| {
                let free = self.free.load(Relaxed);
                self.free.store(free + 1, Relaxed);
            });
        }

        /// Takes one. Returns `false` if it is empty.
        pub(crate) fn take(&self) -> bool {
            self.lock.with(|| {
                let free = self.free.load(Relaxed);
                if free != 0 {
                    self.free.store(free - 1, Relaxed);
                }
                free != 0
            })
        }
    }
}

/// sunrpc's object at a server.
pub(crate) mod svc_xprt {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use crate::explorer::atomic::{Atomic, Full, Relaxed};

    /// Its bits `XPT_DATA`, while a call waits, and `XPT_BUSY`, from when it is given to a thread
    /// on.
    pub(crate) struct SvcXprt {
        data: Atomic<bool>,
        busy: Atomic<bool>,
        is_given: AtomicBool,
    }

    impl SvcXprt {
        pub(crate) fn new() -> Self {
            let (data, busy) = (Atomic::new(false), Atomic::new(false));
            data.load(Relaxed);
            busy.load(Relaxed);
            Self {
                data,
                busy,
                is_given: AtomicBool::new(false),
            }
        }

        /// `Inbox::push`: set_bit(), svc_xprt_enqueue()
        pub(crate) fn push(&self, has_space: impl FnOnce() -> bool) {
            self.data.store(true, Relaxed);
            self.enqueue(has_space);
        }

        /// svc_xprt_enqueue()
        pub(crate) fn enqueue(&self, has_space: impl FnOnce() -> bool) {
            let is_ready = !self.busy.load(Relaxed) && self.data.load(Relaxed) && has_space();
            if is_ready && !self.busy.xchg(true, Full) {
                self.is_given.store(true, SeqCst);
            }
        }

        /// Returns `true` if the call was given to a thread.
        pub(crate) fn is_given(&self) -> bool {
            self.is_given.load(SeqCst)
        }

        /// Returns `true` if a call waits.
        pub(crate) fn has_call(&self) -> bool {
            self.data.load(Relaxed) && !self.is_given()
        }
    }
}

/// Requests that complete in the order in which they were posted.
pub(crate) mod completions {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use crate::explorer::atomic::{Acquire, Atomic, Release};

    /// The number of completed requests, which one handler counts, and of posted ones, which is
    /// under a lock of its user.
    pub(crate) struct Completions {
        completed: Atomic<u32>,
        posted: AtomicU32,
    }

    impl Completions {
        pub(crate) fn new() -> Self {
            let completed = Atomic::new(0);
            completed.load(Acquire);
            Self {
                completed,
                posted: AtomicU32::new(0),
            }
        }

        /// One more has completed.
        pub(crate) fn complete(&self) {
            let completed = self.completed.load(Acquire);
            self.completed.store(completed + 1, Release);
        }

        /// Posts one if there is room.
        pub(crate) fn post(&self) -> bool {
            let has_room = self.completed.load(Acquire) > self.posted.load(SeqCst);
            if has_room {
                self.posted.fetch_add(1, SeqCst);
            }
            has_room
        }
    }
}
