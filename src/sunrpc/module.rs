// SPDX-License-Identifier: GPL-2.0

//! References to this module.

use crate::{
    bindings,
    os::this_module, //
};

/// A reference to this module.
pub(super) struct ModuleRef(());

impl ModuleRef {
    /// Takes one.
    ///
    /// # Safety
    ///
    /// The module must be held during the call.
    pub(super) unsafe fn new() -> Self {
        // SAFETY: By the safety requirements of this function the module has a reference already.
        unsafe { bindings::__module_get(this_module()) };
        Self(())
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: `new` has taken a reference, which is given back only here.
        unsafe { bindings::module_put(this_module()) };
    }
}
