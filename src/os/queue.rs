// SPDX-License-Identifier: GPL-2.0

//! The workqueue for transports, and the end of delayed work.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use kernel::{
    container_of,
    sync::Arc,
    workqueue::{
        HasDelayedWork,
        Queue,
        Work,
        WorkItem, //
    }, //
};

use crate::bindings;

/// The workqueue that sunrpc keeps for its transports. It has a rescuer, so that a connection can
/// be made even when memory waits for it (H-90).
pub(crate) fn transport_queue() -> &'static Queue {
    // SAFETY: sunrpc makes the queue when it is loaded, and cannot be unloaded before this module.
    unsafe { Queue::from_raw(bindings::xprtiod_workqueue) }
}

/// Takes the delayed work `ID` of `item` off its queue, with its reference to `item`, and waits if
/// it is running; it cannot be queued again during the wait. Process context, but not in the work
/// itself.
pub(crate) fn cancel_delayed<T, const ID: u64>(item: &Arc<T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID>,
{
    let raw = Arc::as_ptr(item).cast_mut();
    // SAFETY: `item` keeps the value valid.
    let work = unsafe { T::raw_get_work(raw) };
    // SAFETY: `raw_get_work` returns a valid pointer.
    let work = unsafe { Work::raw_get(work) };
    // SAFETY: By the safety requirements of `HasDelayedWork` this is the `work` field of a
    // `delayed_work`.
    let delayed = unsafe { container_of!(work, bindings::delayed_work, work) };

    // SAFETY: `Arc` owns only values that are initialised; the work is part of one. The caller may
    // sleep, and does not run as that work.
    if unsafe { bindings::cancel_delayed_work_sync(delayed) } {
        // SAFETY: Only `Queue::enqueue_delayed` queues the work, which leaves it the reference that
        // `Arc::into_raw` makes a pointer of; running it would have taken that back, and it no
        // longer runs for this time.
        drop(unsafe { Arc::from_raw(raw) });
    }
}
