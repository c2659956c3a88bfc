// SPDX-License-Identifier: GPL-2.0

//! This module itself.

use kernel::types::Opaque;

use crate::bindings;

/// `THIS_MODULE` of C.
pub(crate) const fn this_module() -> *mut bindings::module {
    // Some configurations have structures without fields in it.
    #[allow(improper_ctypes)]
    extern "C" {
        static __this_module: Opaque<bindings::module>;
    }

    // SAFETY: The kernel makes it when it loads the module, and keeps it as long as code runs here.
    unsafe { __this_module.get() }
}
