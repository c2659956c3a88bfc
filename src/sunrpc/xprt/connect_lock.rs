// SPDX-License-Identifier: GPL-2.0

//! The right to connect a transport.

use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};

use super::{
    WriteLock,
    Xprt, //
};
use crate::{
    bindings,
    os,
    sunrpc::ConnectStatus, //
};

/// The write lock, held on behalf of an attempt to connect.
///
/// Every way of losing the value unlocks and wakes the tasks that wait (H-52).
///
/// # Invariants
///
/// The write lock of `xprt` is held with [`cookie`].
pub(crate) struct ConnectLock<S> {
    xprt: Xprt<S>,
    /// The errno that the tasks are woken with.
    wake_with: c_int,
    /// The program of the task's client, and its version.
    program: Option<(u32, u32)>,
}

/// The cookie that the write lock is held with: distinct from every task, and the same for all
/// attempts of a transport.
fn cookie<S>(xprt: &Xprt<S>) -> *mut c_void {
    xprt.as_ptr().cast()
}

impl<S> ConnectLock<S> {
    /// Takes the write lock over from `task`, which holds it.
    ///
    /// # Safety
    ///
    /// As `connect` of `struct rpc_xprt_ops`.
    pub(super) unsafe fn take(xprt: Xprt<S>, task: *mut bindings::rpc_task) -> Option<Self> {
        // SAFETY: By the safety requirements of this function `task` holds the write lock.
        let taken = unsafe { bindings::xprt_lock_connect(xprt.as_ptr(), task, cookie(&xprt)) };
        // SAFETY: By the safety requirements of this function the task is valid, and has a
        // reference to its client, if it has one.
        let client = unsafe { (*task).tk_client.as_ref() };
        // INVARIANT: If `taken`, sunrpc has passed the lock on to this cookie.
        taken.then_some(Self {
            xprt,
            wake_with: ConnectStatus::Retry.to_errno(),
            program: client.map(|client| (client.cl_prog, client.cl_vers)),
        })
    }

    /// The program that wants the connection, and its version.
    pub(crate) fn program(&self) -> Option<(u32, u32)> {
        self.program
    }

    /// The lock as a proof.
    pub(crate) fn write_lock(&mut self) -> WriteLock<'_> {
        // SAFETY: By the type invariants the lock is held, by this value alone.
        unsafe { WriteLock::assume(self.xprt.as_non_null()) }
    }

    /// The number of the connection that is being made, as sunrpc counts them
    /// ([`Xprt::connect_cookie`]).
    pub(crate) fn next_cookie(&self) -> u32 {
        self.xprt.connect_cookie().wrapping_add(1)
    }

    /// The connection is complete and ready to send on.
    pub(crate) fn established(mut self) {
        let (xprt, cookie) = (self.xprt.as_ptr(), self.next_cookie());

        // SAFETY: The object is valid, and these fields change only under the write lock, which is
        // held.
        unsafe {
            (*xprt).connect_cookie = cookie;
            // Not a reference: other counters in it may change at the same time.
            let stat = &raw mut (*xprt).stat;
            let took = os::jiffies().wrapping_sub((*stat).connect_start);
            (*stat).connect_count = (*stat).connect_count.wrapping_add(1);
            (*stat).connect_time = (*stat).connect_time.wrapping_add(took);
            bindings::xprt_set_connected(xprt);
        }
        // The sleepers look again, and find a connection.
        self.wake_with = EAGAIN.to_errno();
    }

    /// The attempt has failed, and nothing is left of it.
    pub(crate) fn failed(mut self, status: ConnectStatus) {
        self.wake_with = status.to_errno();
    }
}

impl<S> Drop for ConnectLock<S> {
    fn drop(&mut self) {
        let xprt = self.xprt.as_ptr();

        // Waking comes first. On the same queue sleep the calls that wait for their reply: a call
        // sent between the unlocking and the waking would be woken as well, be sent again, and so
        // cost the new connection (H-11).
        // SAFETY: The object is valid, and by the type invariants the lock is held with this
        // cookie.
        unsafe {
            bindings::xprt_wake_pending_tasks(xprt, self.wake_with);
            bindings::xprt_clear_connecting(xprt);
            bindings::xprt_unlock_connect(xprt, cookie(&self.xprt));
        }
    }
}
