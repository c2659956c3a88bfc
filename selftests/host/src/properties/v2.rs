// SPDX-License-Identifier: GPL-2.0

//! Version 2: both ends of a connection, in every order.

mod ends;
mod negotiation;
