// SPDX-License-Identifier: GPL-2.0

//! The pure protocol core of the module as a host crate, with its property tests.
//!
//! The unit tests in `src/proto` are the same that run in the kernel under KUnit; the properties
//! here need an allocator.

// The path of an inline module is a folder, so that the files below find each other as they do in
// the module.
#[path = "../../../src"]
mod module {
    #[allow(
        dead_code,
        reason = "some of it is used by the kernel-facing rooms alone"
    )]
    pub(crate) mod proto;

    // The rest of that room needs a kernel.
    pub(crate) mod policy {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        pub(crate) mod order;
        pub(crate) mod prefix;
        pub(crate) mod rule;
    }

    pub(crate) mod client {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        pub(crate) mod connect {
            pub(crate) mod size;
        }
        pub(crate) mod connection {
            pub(crate) mod life;
        }
        pub(crate) mod request {
            pub(crate) mod state;
        }
    }

    pub(crate) mod verbs {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        mod size;
        pub(crate) use size::{DeviceLimits, QpSize};
    }
}

#[cfg(test)]
mod figures;
#[cfg(test)]
mod properties;
