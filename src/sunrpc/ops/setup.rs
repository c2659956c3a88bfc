// SPDX-License-Identifier: GPL-2.0

//! Making and unmaking transport objects.

use core::ptr::NonNull;

use kernel::{
    ffi::{
        c_char,
        c_int,
        c_ushort, //
    },
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
    types::ForeignOwnable, //
};

use super::{
    super::{
        address::{
            socket_address,
            SHORTEST, //
        },
        xprt::XprtAlloc,
        Transport,
        Xprt, //
    },
    transport,
    write_lock,
    Table, //
};
use crate::{
    bindings,
    os::{
        self,
        secs_to_jiffies,
        this_module,
        PAGE_SIZE, //
    }, //
};

/// Seconds after which an idle connection is closed.
const IDLE_SECS: u32 = 5 * 60;
/// Seconds between attempts to connect, at first.
const RECONNECT_SECS: u32 = 5;
/// Seconds that asking for a port may take.
const BIND_SECS: u32 = 60;
/// Seconds until a call without a reply is looked at.
const REPLY_SECS: u32 = 60;

/// When calls time out, for callers that say nothing.
static DEFAULT_TIMEOUT: bindings::rpc_timeout = bindings::rpc_timeout {
    to_initval: secs_to_jiffies(REPLY_SECS),
    to_maxval: secs_to_jiffies(REPLY_SECS),
    ..pin_init::zeroed()
};

/// Bytes in the largest payload: 1 MiB, and one page since it may start anywhere.
const MAX_PAYLOAD: usize = 1024 * 1024 + PAGE_SIZE as usize;

/// `setup` of `struct xprt_class`.
///
/// # Safety
///
/// Called by sunrpc with valid arguments.
pub(in super::super) unsafe extern "C" fn setup<T: Transport>(
    args: *mut bindings::xprt_create,
) -> *mut bindings::rpc_xprt {
    // SAFETY: By the safety requirements of this function `args` are valid.
    match unsafe { create::<T>(&*args) } {
        Ok(xprt) => xprt,
        Err(e) => e.to_ptr(),
    }
}

/// Makes a transport object and the transport behind it.
///
/// # Safety
///
/// `args` must be valid arguments from sunrpc.
unsafe fn create<T: Transport>(args: &bindings::xprt_create) -> Result<*mut bindings::rpc_xprt> {
    if !(SHORTEST..=size_of::<bindings::__kernel_sockaddr_storage>()).contains(&args.addrlen) {
        return Err(EBADF);
    }
    // SAFETY: sunrpc's callers give an address in storage that has room for any.
    let server = unsafe { socket_address(args.dstaddr) }.ok_or(EAFNOSUPPORT)?;
    // SAFETY: The caller keeps the namespace during this call.
    let requests = T::max_requests(server, unsafe { os::Net::new(args.net) });
    // SAFETY: sunrpc holds the module during this call.
    unsafe { bindings::__module_get(this_module()) };
    // SAFETY: `net` is valid.
    let raw = unsafe { bindings::xprt_alloc(args.net, size_of::<XprtAlloc>(), 0, requests) };
    let Some(raw) = NonNull::new(raw) else {
        // SAFETY: Taken above.
        unsafe { bindings::module_put(this_module()) };
        return Err(ENOMEM);
    };
    // SAFETY: Allocated with the size of an `XprtAlloc`, with a reference to the module. Its
    // requests will be those of the transport.
    let handle = unsafe { Xprt::<T::Slot>::new(raw.cast()) }?;
    let xprt = handle.as_ptr();

    // SAFETY: The object is ours until it is returned.
    let fields = unsafe { &mut *xprt };
    fields.ops = const { &Table::<T>::OPS };
    fields.xprt_class = T::class().as_ptr();
    fields.timeout = &raw const DEFAULT_TIMEOUT;
    fields.connect_timeout = DEFAULT_TIMEOUT.to_initval;
    fields.max_reconnect_timeout = DEFAULT_TIMEOUT.to_maxval;
    fields.bind_timeout = secs_to_jiffies(BIND_SECS);
    fields.reestablish_timeout = secs_to_jiffies(RECONNECT_SECS);
    fields.idle_timeout = secs_to_jiffies(IDLE_SECS);
    fields.max_payload = MAX_PAYLOAD;
    // Side protocols (mount, locks, rpcbind) read this and go over TCP.
    fields.prot = bindings::IPPROTO_TCP as c_int;
    fields.addrlen = args.addrlen;
    // SAFETY: The address is `addrlen` bytes long, which fits.
    unsafe {
        core::ptr::copy_nonoverlapping(
            args.dstaddr.cast::<u8>(),
            (&raw mut fields.addr).cast(),
            args.addrlen,
        )
    };
    // SAFETY: The address is set.
    unsafe {
        if bindings::rpc_get_port(args.dstaddr) != 0 {
            bindings::xprt_set_bound(xprt);
        }
        name_addresses(xprt)?;
    }

    let transport = T::new(handle, server)?;
    // SAFETY: The transport holds the handle, so that the object is valid; `destroy` takes the
    // reference back.
    unsafe { (*xprt.cast::<XprtAlloc>()).transport = transport.into_foreign() };
    Ok(xprt)
}

/// `destroy` of `struct rpc_xprt_ops`: the last call.
///
/// # Safety
///
/// As the methods in [`super`].
pub(super) unsafe extern "C" fn destroy<T: Transport>(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: By the safety requirements of this function `xprt` is set up; sunrpc holds the write
    // lock and does not give it back.
    unsafe { transport::<T>(xprt).close(&mut write_lock(xprt)) };
    // SAFETY: Put there by `create`, and not used again. Dropping it drops the last handle, which
    // frees the object.
    drop(unsafe { Arc::<T>::from_foreign((*xprt.cast::<XprtAlloc>()).transport) });
}

/// Allocates a string that sunrpc frees.
fn string(text: fmt::Arguments<'_>) -> Result<*const c_char> {
    let text = CString::try_from_fmt(text)?;
    // SAFETY: `text` is a C string.
    let copy = unsafe { bindings::kstrdup(text.as_char_ptr(), bindings::GFP_KERNEL) };

    if copy.is_null() {
        Err(ENOMEM)
    } else {
        Ok(copy)
    }
}

/// Fills in the strings by which users know the transport.
///
/// # Safety
///
/// `xprt` must be valid, with its address set and not used by anything else.
unsafe fn name_addresses(xprt: *mut bindings::rpc_xprt) -> Result {
    // SAFETY: By the safety requirements of this function `xprt` is valid and not used by anything
    // else.
    let fields = unsafe { &mut *xprt };
    let sap: *mut bindings::sockaddr = (&raw mut fields.addr).cast();
    let mut text = [0u8; 128];

    // SAFETY: `sap` is an address, and `text` has the size given.
    unsafe { bindings::rpc_ntop(sap, text.as_mut_ptr().cast(), text.len()) };
    // SAFETY: `sap` is the address of a valid transport object.
    let port = unsafe { bindings::rpc_get_port(sap) };
    let addr = CStr::from_bytes_until_nul(&text)
        .map_err(|_| EINVAL)?
        .to_str()?;
    // SAFETY: The family is the first word of any address.
    let v6 = u32::from(unsafe { (*sap).sa_family }) == bindings::AF_INET6;

    let strings = &mut fields.address_strings;
    let mut set = |which: u32, text: *const c_char| {
        if let Some(slot) = strings.get_mut(which as usize) {
            *slot = text;
        }
    };
    set(
        bindings::rpc_display_format_t_RPC_DISPLAY_PROTO,
        c"rdma".as_char_ptr(),
    );
    set(
        bindings::rpc_display_format_t_RPC_DISPLAY_NETID,
        if v6 { c"rdma6" } else { c"rdma" }.as_char_ptr(),
    );
    set(
        bindings::rpc_display_format_t_RPC_DISPLAY_ADDR,
        string(fmt!("{addr}"))?,
    );
    set(
        bindings::rpc_display_format_t_RPC_DISPLAY_PORT,
        string(fmt!("{port}"))?,
    );
    set(
        bindings::rpc_display_format_t_RPC_DISPLAY_HEX_PORT,
        string(fmt!("{port:4x}"))?,
    );
    // SAFETY: The storage holds an address of the family looked at.
    let hex = unsafe { hex_address(sap, v6) }?;
    set(bindings::rpc_display_format_t_RPC_DISPLAY_HEX_ADDR, hex);
    Ok(())
}

/// The address in hexadecimal.
///
/// # Safety
///
/// `sap` must be an IPv6 address if `v6`, else an IPv4 address.
unsafe fn hex_address(sap: *const bindings::sockaddr, v6: bool) -> Result<*const c_char> {
    /// The offset of the address in `struct sockaddr_in` and `struct sockaddr_in6`.
    const V4: usize = 4;
    const V6: usize = 8;

    if v6 {
        // SAFETY: The sixteen bytes of the address; no alignment is needed to read them.
        let addr: [u8; 16] = unsafe { sap.cast::<u8>().add(V6).cast::<[u8; 16]>().read() };
        string(fmt!("{:032x}", u128::from_be_bytes(addr)))
    } else {
        // SAFETY: The four bytes of the address.
        let addr: [u8; 4] = unsafe { sap.cast::<u8>().add(V4).cast::<[u8; 4]>().read() };
        string(fmt!("{:08x}", u32::from_be_bytes(addr)))
    }
}

/// rpcbind has found the port.
///
/// # Safety
///
/// As the methods in [`super`].
pub(super) unsafe fn set_port(xprt: *mut bindings::rpc_xprt, port: c_ushort) {
    const PORT: usize = bindings::rpc_display_format_t_RPC_DISPLAY_PORT as usize;
    const HEX_PORT: usize = bindings::rpc_display_format_t_RPC_DISPLAY_HEX_PORT as usize;

    // SAFETY: The object is valid; a port is one word.
    unsafe { bindings::rpc_set_port((&raw mut (*xprt).addr).cast(), port) };
    let Ok(dec) = string(fmt!("{port}")) else {
        return;
    };
    let Ok(hex) = string(fmt!("{port:4x}")) else {
        // SAFETY: Made above, and not known elsewhere.
        unsafe { bindings::kfree(dec.cast()) };
        return;
    };
    // Not a reference to the array: sysfs may replace the string of the address meanwhile.
    let swap = |which: usize, to| {
        // SAFETY: The object is valid, and the index is below the length of the array. Only this
        // function replaces these strings, and it runs once at a time: while the transport is being
        // bound.
        unsafe {
            let at = (&raw mut (*xprt).address_strings)
                .cast::<*const c_char>()
                .add(which);
            let old = at.read();
            at.write_volatile(to);
            old
        }
    };
    let [old_dec, old_hex] = [swap(PORT, dec), swap(HEX_PORT, hex)];
    // Readers (sysfs, trace events) take no lock but that of RCU (H-98).
    // SAFETY: Has no preconditions but that it may sleep, as it may here.
    unsafe { bindings::synchronize_rcu() };
    // SAFETY: From `kstrdup`, and no reader is left.
    unsafe {
        bindings::kfree(old_dec.cast());
        bindings::kfree(old_hex.cast());
    }
}

/// Allocates the pages that a receive buffer lacks. Returns 0, or an errno after which sunrpc tries
/// again.
///
/// # Safety
///
/// `buf` must be a buffer of a request that is being prepared.
pub(super) unsafe fn fill_sparse_pages(buf: *mut bindings::xdr_buf) -> c_int {
    // SAFETY: By the safety requirements of this function `buf` is valid, and only the caller uses
    // it.
    let buf = unsafe { &mut *buf };
    if buf.flags & bindings::XDRBUF_SPARSE_PAGES == 0 || buf.page_len == 0 {
        return 0;
    }
    let pages = buf
        .page_base
        .saturating_add(buf.page_len)
        .div_ceil(PAGE_SIZE);
    for i in (buf.page_base / PAGE_SIZE)..pages {
        // SAFETY: The array has an element for each page of the buffer.
        let page = unsafe { &mut *buf.pages.add(i as usize) };
        if page.is_null() {
            // SAFETY: Called in process context; any flags will do.
            *page = unsafe {
                bindings::alloc_pages(bindings::rpc_task_gfp_mask() | bindings::__GFP_NOWARN, 0)
            };
            if page.is_null() {
                return ENOMEM.to_errno();
            }
        }
    }
    0
}
