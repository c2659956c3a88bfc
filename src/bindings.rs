// SPDX-License-Identifier: GPL-2.0

//! The generated bindings of sunrpc, rdma_cm and ib_verbs, over the bindings of the `kernel` crate.
//!
//! Only the safe layers (`os`, `verbs`, `cm`, `sunrpc`) and `trace` use this module. Its functions
//! are unsafe to call and state no contracts; the layers do.

#![allow(
    dead_code,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use kernel::ffi;
use pin_init::MaybeZeroable;

/// Types and functions of the C headers. A local item takes precedence over one of the `kernel`
/// crate.
mod raw {
    use super::*;

    pub(crate) use kernel::bindings::*;

    include!(concat!(env!("RPCRDMA_RS_OUT"), "/bindings_generated.rs"));
}

/// Inline functions and macros, through the shims in `helpers.c`.
mod helpers {
    use super::{raw::*, *};

    include!(concat!(env!("RPCRDMA_RS_OUT"), "/bindings_helpers.rs"));
}

// SAFETY: A flexible array has no size of its own.
unsafe impl<T> pin_init::Zeroable for raw::__IncompleteArrayField<T> {}

// SAFETY: A field of a union has no size of its own; the storage beside it is an integer array.
unsafe impl<T> pin_init::Zeroable for raw::__BindgenUnionField<T> {}

pub(crate) use helpers::*;
pub(crate) use raw::*;
