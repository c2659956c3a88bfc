// SPDX-License-Identifier: GPL-2.0

//! The pure parts of the module (protocol, rules, sizes, the lives of calls and connections) as a
//! host crate, with property tests and explorers.
//!
//! The unit tests in `src/proto` are the same that run in the kernel under KUnit; the properties
//! here need an allocator. The words that threads share without a lock are built upon the
//! explorer's atomics.

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
        pub(crate) mod change;
        pub(crate) mod order;
        pub(crate) mod pattern;
        pub(crate) mod prefix;
        pub(crate) mod settings;
    }

    pub(crate) mod client {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        pub(crate) mod connect {
            pub(crate) mod size;
        }
        pub(crate) mod connection {
            #[cfg(test)]
            pub(crate) mod deadline;
            #[cfg(test)]
            pub(crate) mod growth;
            #[cfg(test)]
            pub(crate) mod receives;
            #[cfg(test)]
            pub(crate) mod waiters;
            #[cfg(test)]
            pub(crate) mod window;
        }
        #[cfg(test)]
        pub(crate) mod limits;
        pub(crate) mod pauses;
        pub(crate) mod request {
            pub(crate) mod state;
            pub(crate) mod unmapped;
        }
    }

    // The rest of that room needs a kernel.
    pub(crate) mod server {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        #[cfg(test)]
        pub(crate) mod connection {
            pub(crate) mod reading;
            pub(crate) mod space;
        }
        #[cfg(test)]
        pub(crate) mod room;
        pub(crate) mod size;
    }

    // The rest of that room needs a kernel.
    pub(crate) mod link {
        #![forbid(unsafe_code)]
        #![allow(dead_code)]
        pub(crate) mod life;
    }

    #[cfg(test)]
    pub(crate) mod os {
        #![allow(dead_code)]
        mod fifo;

        pub(crate) use fifo::Fifo;

        pub(crate) mod series {
            mod pointer;

            pub(crate) use crate::explorer::atomic::{fetch_sub, smp_mb};
            pub(crate) use pointer::AtomicPtr;
        }
    }

    // Sizes; words that are shared without a lock, and stand-ins for their neighbours.
    pub(crate) mod verbs {
        #![allow(dead_code)]

        #[cfg(test)]
        use buffer::RecvBuffer;
        pub(crate) use size::{DeviceLimits, MrSize, QpSize};

        #[cfg(test)]
        #[path = "../../selftests/host/src/words/buffer.rs"]
        mod buffer;
        #[cfg(test)]
        mod counters;
        mod size;
        #[cfg(test)]
        mod stack;
        #[cfg(test)]
        mod mr {
            use crate::stand_ins::{chain, list, pool};

            pub(super) mod kept;
        }
        #[cfg(test)]
        #[path = "mr"]
        mod chains {
            mod chain;

            #[path = "../../../selftests/host/src/properties/chains.rs"]
            mod properties;
        }

        // Splitting memory into requests, and the room for these.
        #[cfg(test)]
        mod rw {
            mod budget;
            mod split;

            #[path = "../../../selftests/host/src/properties/transfers.rs"]
            mod properties;
            #[path = "../../../selftests/host/src/words/budget.rs"]
            mod words;
        }

        #[cfg(test)]
        #[path = "../../selftests/host/src/words/verbs.rs"]
        mod words;
    }

    #[cfg(test)]
    mod sunrpc {
        mod svc {
            mod layout;
        }
        mod xprt {
            mod backchannel {
                #![allow(dead_code)]
                mod usage;
            }
            mod slot {
                mod free;

                #[path = "../../../../selftests/host/src/words/slots.rs"]
                mod words;
            }
        }
    }
}

#[cfg(test)]
#[path = "words/connection.rs"]
mod connection;
#[cfg(test)]
mod explorer;
#[cfg(test)]
mod figures;
#[cfg(test)]
#[path = "words/growth.rs"]
mod growth;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod served_call;
#[cfg(test)]
#[path = "words/space.rs"]
mod space;
#[cfg(test)]
mod stand_ins;

// The kernel's crate, to the sources.
#[cfg(test)]
extern crate self as kernel;
#[cfg(test)]
use stand_ins::{prelude, sync};
// A room of the module, to the sources.
#[cfg(test)]
use module::os;
