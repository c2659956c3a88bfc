// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)
//!
//! Unlike the files of `kernel::debugfs` these name their module as owner, so that the module stays
//! while one of them is open, and they can be read without being root where debugfs itself can.

use core::{
    marker::PhantomData,
    ptr::null_mut, //
};

use kernel::{
    error::from_err_ptr,
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    fmt,
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

use crate::bindings;

/// Read by all. Where the kernel is locked down, a file with another mode could not be read either;
/// root may write to it all the same.
const MODE: u16 = 0o444;

/// Bytes of the longest text that may be written.
const LONGEST: usize = 64;

/// A directory at the root of debugfs; dropping it removes it with all it contains.
pub(crate) struct Dir {
    /// A directory, or an error that every function of debugfs accepts.
    dentry: *mut bindings::dentry,
}

// SAFETY: debugfs does its own locking.
unsafe impl Send for Dir {}
// SAFETY: debugfs does its own locking.
unsafe impl Sync for Dir {}

impl Dir {
    /// Creates the directory. Without debugfs it does not exist, nor any file in it.
    pub(crate) fn new(name: &CStr) -> Self {
        Self {
            // SAFETY: `name` is a C string; without a parent the directory is at the root.
            dentry: unsafe { bindings::debugfs_dir(name.as_char_ptr(), null_mut()) },
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: `dentry` is the directory that `new` has made, or an error, which is accepted
        // too.
        unsafe { bindings::debugfs_unlink(self.dentry) };
    }
}

/// The content of a [`File`].
pub(crate) trait Show: Send + Sync + 'static {
    /// Set if root may write to the file.
    const IS_SET: bool = false;

    /// Prints the content.
    fn show(&self, seq: &SeqFile);

    /// Acts on a text that was written to the file.
    ///
    /// # Errors
    ///
    /// The result of the write.
    fn set(&self, _text: &str) -> Result {
        Err(EINVAL)
    }
}

/// A file that shows a `T` until it is dropped, which waits for its readers.
///
/// # Invariants
///
/// `dentry` is a file whose private data is `data`, or an error.
pub(crate) struct File<T: Show> {
    dentry: *mut bindings::dentry,
    _data: Arc<T>,
}

// SAFETY: debugfs does its own locking, and `T` may be shared.
unsafe impl<T: Show> Send for File<T> {}
// SAFETY: debugfs does its own locking, and `T` may be shared.
unsafe impl<T: Show> Sync for File<T> {}

impl<T: Show> File<T> {
    /// Creates the file `name` in the [`Dir`] called `dir`. A file that cannot be created is
    /// missing; nothing depends on it.
    pub(crate) fn new(dir: &CStr, name: fmt::Arguments<'_>, data: Arc<T>) -> Self {
        let mut dentry = null_mut();

        if let Ok(name) = CString::try_from_fmt(name) {
            // SAFETY: `dir` is a C string. The reference to the directory is dropped below.
            let parent = unsafe { bindings::debugfs_find(dir.as_char_ptr(), null_mut()) };
            // Null, or an error without debugfs.
            if let Some(parent) = from_err_ptr(parent).ok().filter(|parent| !parent.is_null()) {
                let private = Arc::as_ptr(&data).cast_mut().cast();
                let ops = const { &Ops::<T>::TABLE };
                // SAFETY: `name` is a C string, `parent` a directory, and `private` a `T`, which
                // stays until the file is removed. `ops` expects one.
                dentry = unsafe {
                    bindings::debugfs_show(name.as_char_ptr(), MODE, parent, private, ops)
                };
                // SAFETY: `parent` is a reference of ours, which nothing uses after this.
                unsafe { bindings::dentry_put(parent) };
            }
        }
        // INVARIANT: Made above with `data`; a null pointer is no file and counts as an error.
        Self {
            dentry,
            _data: data,
        }
    }
}

impl<T: Show> Drop for File<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `dentry` is a file of ours, an error or null, which are
        // accepted too.
        unsafe { bindings::debugfs_unlink(self.dentry) };
    }
}

/// The methods of a file that shows a `T`.
struct Ops<T>(PhantomData<T>);

impl<T: Show> Ops<T> {
    const TABLE: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        open: Some(open::<T>),
        read: Some(bindings::seq_read),
        write: if T::IS_SET { Some(write::<T>) } else { None },
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..pin_init::zeroed()
    };
}

/// Opens a file.
///
/// # Safety
///
/// Called by debugfs for a [`File`] of a `T` that is not removed yet.
unsafe extern "C" fn open<T: Show>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: `inode` belongs to the file; its private data is the pointer given to debugfs.
    unsafe { bindings::single_open(file, Some(show::<T>), (*inode).i_private) }
}

/// Prints a file.
///
/// # Safety
///
/// Called by seq_file for a file that [`open`] has opened. debugfs lets nothing read a file that is
/// being removed, so that its data is there.
unsafe extern "C" fn show<T: Show>(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: The private data is the `T` of the file, valid during this call.
    let data = unsafe { &*(*seq).private.cast::<T>() };
    // SAFETY: `seq` is valid and used by this thread alone.
    data.show(unsafe { SeqFile::from_raw(seq) });
    0
}

/// Writes to a file.
///
/// # Safety
///
/// Called by debugfs for a file that [`open`] has opened, with `len` bytes of user space. debugfs
/// lets nothing write to a file that is being removed, so that its data is there.
unsafe extern "C" fn write<T: Show>(
    file: *mut bindings::file,
    from: *const c_char,
    len: usize,
    _: *mut bindings::loff_t,
) -> isize {
    let written = || {
        let mut text = [0; LONGEST];
        let text = text.get_mut(..len).ok_or(EINVAL)?;
        let from = UserPtr::from_ptr(from.cast_mut().cast());

        UserSlice::new(from, len).reader().read_slice(text)?;
        let text = core::str::from_utf8(text.trim_ascii()).map_err(|_| EINVAL)?;
        // SAFETY: `single_open` has stored the `seq_file`, whose private data is the `T` of the
        // file, valid during this call.
        let data = unsafe {
            &*(*(*file).private_data.cast::<bindings::seq_file>())
                .private
                .cast::<T>()
        };
        data.set(text)
    };

    match written() {
        // CAST: At most the longest text.
        Ok(()) => len as isize,
        // CAST: Widening.
        Err(error) => error.to_errno() as isize,
    }
}
