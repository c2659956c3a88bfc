// SPDX-License-Identifier: GPL-2.0

//! Module parameters that can be read and changed under `/sys/module/*/parameters`.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)
//!
//! The parameters of the `module!` macro can only be given when the module is loaded, and are not
//! visible afterwards.

use kernel::{
    error::to_result,
    ffi::{
        c_char,
        c_int, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::bindings;

/// An unsigned parameter with a range.
pub(crate) struct Uint {
    value: Atomic<u32>,
    min: u32,
    max: u32,
}

impl Uint {
    /// A parameter that is `default` until it is set to a value from `min` to `max`.
    pub(crate) const fn new(default: u32, min: u32, max: u32) -> Self {
        Self {
            value: Atomic::new(default),
            min,
            max,
        }
    }

    /// The value and the ends of its range, for C code that reads and writes it as a word.
    pub(super) const fn as_ptrs(&self) -> (*mut u32, *const u32, *const u32) {
        (
            self.value.as_ptr(),
            &raw const self.min,
            &raw const self.max,
        )
    }

    /// The value now.
    pub(crate) fn get(&self) -> u32 {
        self.value.load(Relaxed)
    }
}

/// The C side of a parameter, for the section that the module loader reads.
#[repr(transparent)]
pub(crate) struct Entry(bindings::kernel_param);

// SAFETY: The structure is never written.
unsafe impl Sync for Entry {}

impl Entry {
    /// A parameter that everybody may read and root may change.
    pub(crate) const fn new(name: &'static core::ffi::CStr, value: &'static Uint) -> Self {
        const OPS: &bindings::kernel_param_ops = &bindings::kernel_param_ops {
            flags: 0,
            set: Some(set),
            get: Some(get),
            free: None,
        };

        Self(bindings::kernel_param {
            name: kernel::str::as_char_ptr_in_const_context(name),
            mod_: super::this_module(),
            ops: OPS,
            perm: 0o644,
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                arg: core::ptr::from_ref(value).cast_mut().cast(),
            },
        })
    }
}

/// Sets a parameter from text.
///
/// # Safety
///
/// Called by the kernel for an [`Entry`], with a C string.
unsafe extern "C" fn set(text: *const c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: By the safety requirements of this function `param` is an entry, whose argument is a
    // static `Uint` and whose name is a C string.
    let (this, name) = unsafe {
        (
            &*(*param).__bindgen_anon_1.arg.cast::<Uint>(),
            super::text((*param).name),
        )
    };
    let mut value = 0;

    // SAFETY: By the safety requirements of this function `text` is a C string.
    if let Err(e) = to_result(unsafe { bindings::kstrtouint(text, 0, &mut value) }) {
        return e.to_errno();
    }
    if value < this.min || value > this.max {
        pr_err!(
            "parameter {name}: {value} is not in {}..{}\n",
            this.min,
            this.max
        );
        return EINVAL.to_errno();
    }
    this.value.store(value, Relaxed);
    0
}

/// Prints a parameter.
///
/// # Safety
///
/// Called by the kernel for an [`Entry`], with a buffer of one page.
unsafe extern "C" fn get(buf: *mut c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: By the safety requirements of this function `param` is an entry, whose argument is a
    // static `Uint`.
    let this = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<Uint>() };

    // SAFETY: By the safety requirements of this function the buffer is a page long; the format
    // takes one unsigned integer.
    unsafe {
        bindings::scnprintf(
            buf,
            kernel::page::PAGE_SIZE,
            c"%u\n".as_char_ptr(),
            this.get(),
        )
    }
}

/// An array from a slice of the same length.
pub(crate) const fn array<const N: usize>(text: &[u8]) -> [u8; N] {
    match text.first_chunk() {
        Some(array) => *array,
        None => [0; N],
    }
}

/// Declares a [`Uint`] and its entry for the module loader, with the description that `modinfo`
/// shows.
macro_rules! module_uint {
    ($vis:vis $static:ident, $name:literal, $default:expr, $range:expr, $about:literal) => {
        #[doc = $about]
        $vis static $static: $crate::os::param::Uint = {
            let range = $range;
            $crate::os::param::Uint::new($default, *range.start(), *range.end())
        };

        const _: () = {
            const NAME: &core::ffi::CStr =
                match core::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };

            #[link_section = "__param"]
            #[used(compiler)]
            static ENTRY: $crate::os::param::Entry = $crate::os::param::Entry::new(NAME, &$static);

            const ABOUT: &[u8] = concat!("parm=", $name, ":", $about, "\0").as_bytes();
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static MODINFO_ABOUT: [u8; ABOUT.len()] = $crate::os::param::array(ABOUT);

            const TYPE: &[u8] = concat!("parmtype=", $name, ":uint\0").as_bytes();
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static MODINFO_TYPE: [u8; TYPE.len()] = $crate::os::param::array(TYPE);
        };
    };
}
pub(crate) use module_uint;
