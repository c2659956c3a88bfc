// SPDX-License-Identifier: GPL-2.0

//! Kernel facilities that the `kernel` crate does not offer yet, each as small as this module needs
//! it.
//!
//! - [`debugfs`]: read-only files.
//! - [`Completion`]: an event that a task waits for with a time limit (`struct completion`).
//! - [`ReclaimScope`]: allocations inside it do not recurse into file systems, or into swapping.
//! - [`PageSpan`]: bytes inside one page, the unit of copying.
//! - [`Pages`], [`LinearRuns`]: memory that is visited by runs of consecutive pages, the unit of
//!   memory registration.
//! - [`PageSet`]: pages with one owner, which a device may use for it.
//! - [`HeldPages`]: references to pages that their owner may free.
//! - [`Fifo`]: a queue of fixed capacity.
//! - [`Few`]: a list that is mostly short.
//! - [`this_module()`]: `THIS_MODULE` of C.
//! - [`Global`]: a value of the whole module, under a lock.
//! - [`Net`]: a network namespace, borrowed.
//! - [`transport_queue`]: sunrpc's workqueue for transports.
//! - [`cancel_delayed`]: takes delayed work off its queue.
//! - [`Stragglers`]: tasks that are still inside the module when it is unloaded.
//! - [`Counter`]: a number that only grows.
//! - [`Last`]: a limit on messages in the log.
//! - [`text()`]: a C string, borrowed.
//! - [`sysctl`]: numbers under `/proc/sys`.
//! - [`param`]: module parameters that can be changed while the module is loaded.
//! - [`series`]: parts of the `kernel` crate that some series lack.
//!
//! # Examples
//!
//! Copying `len` bytes out of an array of pages:
//!
//! ```ignore
//! # use crate::{bindings, os::Pages};
//! # use kernel::prelude::*;
//! # fn example(array: *const *mut bindings::page, len: u32, mut to: &mut [u8]) -> Result {
//! // SAFETY: `array` has a page of the page cache for each byte, and stays during this function.
//! for span in unsafe { Pages::new(array, 0, len) } {
//!     let (part, rest) = to.split_at_mut_checked(span.len() as usize).ok_or(EMSGSIZE)?;
//!     span.read(part);
//!     to = rest;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Waiting for an event for five seconds at most:
//!
//! ```ignore
//! # use crate::os::{secs_to_jiffies, Completion};
//! # use kernel::prelude::*;
//! # fn example() -> Result {
//! let established = KBox::pin_init(Completion::new(), GFP_KERNEL)?;
//! // In the callback: `established.signal()`.
//! if !established.wait(secs_to_jiffies(5)) {
//!     return Err(ETIMEDOUT);
//! }
//! # Ok(())
//! # }
//! ```

mod counter;
pub(crate) mod debugfs;
mod few;
mod fifo;
mod global;
mod held;
mod last;
mod memory;
mod module;
mod net;
mod page_set;
pub(crate) mod param;
mod queue;
mod reclaim;
mod run;
pub(crate) mod series;
mod span;
mod stragglers;
pub(crate) mod sysctl;
mod text;
mod time;
mod wait;

pub(crate) use counter::Counter;
pub(crate) use few::Few;
pub(crate) use fifo::Fifo;
pub(crate) use global::{
    global,
    Global, //
};
pub(crate) use held::HeldPages;
pub(crate) use last::Last;
pub(crate) use memory::memory;
pub(crate) use module::this_module;
pub(crate) use net::{
    HeldNet,
    Net, //
};
pub(crate) use page_set::{
    PageSet,
    Private,
    Shared, //
};
pub(crate) use queue::{
    cancel_delayed,
    transport_queue, //
};
pub(crate) use reclaim::ReclaimScope;
pub(crate) use run::{
    LinearRuns,
    Pages,
    Runs, //
};
pub(crate) use span::{
    PageSpan,
    PAGE_SIZE, //
};
pub(crate) use stragglers::Stragglers;
pub(crate) use text::text;
pub(crate) use time::{
    jiffies,
    secs_since,
    secs_to_jiffies,
    uptime_secs, //
};
pub(crate) use wait::Completion;
