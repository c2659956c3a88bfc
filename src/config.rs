// SPDX-License-Identifier: GPL-2.0

//! The module's directory in configfs, on kernels that have it.

use kernel::prelude::*;

#[cfg(CONFIG_CONFIGFS_FS)]
mod rules;

/// The registered directory; dropping it removes it. Rules in it keep the module loaded.
#[cfg(CONFIG_CONFIGFS_FS)]
pub(crate) type Directory = kernel::configfs::Subsystem<rules::Rules>;

/// No directory, without configfs: only the defaults hold.
#[cfg(not(CONFIG_CONFIGFS_FS))]
pub(crate) type Directory = ();

/// Registers the directory.
///
/// # Errors
///
/// `EEXIST` when another directory has this name, `ENOMEM`.
pub(crate) fn directory() -> impl PinInit<Directory, Error> {
    #[cfg(CONFIG_CONFIGFS_FS)]
    return rules::directory();
    #[cfg(not(CONFIG_CONFIGFS_FS))]
    return Ok::<(), Error>(());
}
