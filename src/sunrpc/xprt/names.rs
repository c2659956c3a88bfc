// SPDX-License-Identifier: GPL-2.0

//! The strings that name a transport for users: in mount options, sysfs, messages and trace events.

use core::{
    net::{
        IpAddr,
        SocketAddr, //
    },
    ptr::null, //
};

use kernel::{
    ffi::{
        c_char,
        c_ushort, //
    },
    prelude::*, //
};

use super::Names;
use crate::{
    bindings,
    os::series::EAFNOSUPPORT,
    sunrpc::{
        address::{
            socket_address,
            Address,
            SHORTEST, //
        },
        memory::Memory, //
    }, //
};

const PROTO: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_PROTO;
const NETID: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_NETID;
pub(super) const ADDR: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_ADDR;
pub(super) const PORT: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_PORT;
const HEX_ADDR: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_HEX_ADDR;
const HEX_PORT: u32 = bindings::rpc_display_format_t_RPC_DISPLAY_HEX_PORT;

/// The place of a string in a transport object.
///
/// Not a reference: sysfs may replace the string of the address at any time.
///
/// # Safety
///
/// `xprt` must be valid, and `which` one of the constants above.
pub(super) unsafe fn place(xprt: *mut bindings::rpc_xprt, which: u32) -> *mut *const c_char {
    // SAFETY: By the safety requirements of this function `xprt` is valid and `which` one of the
    // constants, each the index of a string.
    unsafe {
        (&raw mut (*xprt).address_strings)
            .cast::<*const c_char>()
            // CAST: Widening.
            .add(which as usize)
    }
}

/// The address and the port of the peer in `args`.
///
/// # Errors
///
/// `EBADF` for a length that no address has; `EAFNOSUPPORT` for another family than IPv4 and IPv6.
///
/// # Safety
///
/// `args` must be arguments from sunrpc.
pub(super) unsafe fn peer(args: &bindings::xprt_create) -> Result<SocketAddr> {
    if !(SHORTEST..=size_of::<Address>()).contains(&args.addrlen) {
        return Err(EBADF);
    }
    // SAFETY: sunrpc's callers give an address in storage that has room for any.
    unsafe { socket_address(args.dstaddr) }.ok_or(EAFNOSUPPORT)
}

/// The address in hexadecimal digits.
fn hex(address: IpAddr) -> Result<Memory> {
    match address {
        IpAddr::V4(ip) => Memory::text(fmt!("{:08x}", u32::from(ip))),
        IpAddr::V6(ip) => Memory::text(fmt!("{:032x}", u128::from(ip))),
    }
}

/// Fills in the address of a transport to `server`, from `args`, and its strings, of a class with
/// these names.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// `xprt` must be valid, without any of the strings, and not used by anything else; `args` and
/// `server` as of [`peer`].
pub(super) unsafe fn fill_in(
    xprt: *mut bindings::rpc_xprt,
    args: &bindings::xprt_create,
    server: SocketAddr,
    names: &Names,
) -> Result {
    let mut text = [0u8; 128];

    // SAFETY: By the safety requirements of this function nothing else uses the object, and the
    // address is `addrlen` bytes long, which fit; `text` has the size given.
    unsafe {
        (*xprt).addrlen = args.addrlen;
        let address: *mut Address = &raw mut (*xprt).addr;
        core::ptr::copy_nonoverlapping(args.dstaddr.cast::<u8>(), address.cast(), args.addrlen);
        bindings::rpc_ntop(address.cast(), text.as_mut_ptr().cast(), text.len())
    };
    let addr = CStr::from_bytes_until_nul(&text)
        .map_err(|_| EINVAL)?
        .to_str()?;
    let port = server.port();
    let owned = [
        (ADDR, Memory::text(fmt!("{addr}"))?),
        (PORT, Memory::text(fmt!("{port}"))?),
        (HEX_PORT, Memory::text(fmt!("{port:4x}"))?),
        (HEX_ADDR, hex(server.ip())?),
    ];
    let owned = owned.map(|(which, text)| (which, text.into_raw()));
    let constant = [
        (PROTO, names.protocol.as_char_ptr()),
        (NETID, names.netid(server).as_char_ptr()),
    ];
    for (which, text) in Iterator::chain(owned.into_iter(), constant) {
        // SAFETY: By the safety requirements of this function nothing else uses the strings.
        unsafe { place(xprt, which).write(text) };
    }
    Ok(())
}

/// rpcbind has found the port.
///
/// # Safety
///
/// As `set_port` of `struct rpc_xprt_ops`.
pub(super) unsafe fn set_port(xprt: *mut bindings::rpc_xprt, port: c_ushort) {
    // SAFETY: By the safety requirements of this function the object is valid; a port is one word.
    unsafe { bindings::rpc_set_port((&raw mut (*xprt).addr).cast(), port) };
    let (Ok(dec), Ok(hex)) = (
        Memory::text(fmt!("{port}")),
        Memory::text(fmt!("{port:4x}")),
    ) else {
        return;
    };
    let old = [(PORT, dec), (HEX_PORT, hex)].map(|(which, text)| {
        // SAFETY: The object is valid. Only this function replaces these strings, and it runs once
        // at a time: while the transport is being bound. The old ones came from `Memory`.
        unsafe {
            let place = place(xprt, which);
            let old = place.read();
            place.write_volatile(text.into_raw());
            Memory::from_raw(old)
        }
    });
    // Readers (sysfs, trace events) take no lock but RCU's (H-98).
    // SAFETY: Has no preconditions but that it may sleep, as it may here.
    unsafe { bindings::synchronize_rcu() };
    drop(old);
}

/// Frees the strings.
///
/// # Safety
///
/// `xprt` must be valid, and nothing may read the strings after this.
pub(super) unsafe fn free(xprt: *mut bindings::rpc_xprt) {
    for which in [ADDR, PORT, HEX_PORT, HEX_ADDR] {
        // SAFETY: By the safety requirements of this function nothing else uses the strings. These
        // are null or came from `kstrdup`; the others are constants.
        drop(unsafe { Memory::from_raw(place(xprt, which).replace(null())) });
    }
}
