// SPDX-License-Identifier: GPL-2.0

//! Messages as a requester receives them, and its checks of the replies among them.
//!
//! With calls in the reverse direction each end is both: a client is the requester of its own calls
//! and the responder of the server's.

pub(crate) mod incoming;
pub(crate) mod reply;
pub(crate) mod usual;
