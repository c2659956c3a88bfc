// SPDX-License-Identifier: GPL-2.0

//! Socket addresses.

use core::{
    fmt::Write,
    net::{
        IpAddr,
        SocketAddr, //
    }, //
};

use kernel::{
    fmt,
    str::CStr, //
};

use crate::bindings;

/// The offsets of the parts of `struct sockaddr_in` and `struct sockaddr_in6`.
const PORT: usize = 2;
const V4: usize = 4;
const V6: usize = 8;

/// The `N` bytes at `at`.
///
/// # Safety
///
/// `address` must be valid for reading `at + N` bytes.
unsafe fn bytes<const N: usize>(address: *const bindings::sockaddr, at: usize) -> [u8; N] {
    // SAFETY: By the safety requirements of this function the bytes are there; arrays of bytes need
    // no alignment.
    unsafe { address.cast::<u8>().add(at).cast::<[u8; N]>().read() }
}

/// The length of `struct sockaddr_in`, the shorter one.
pub(super) const SHORTEST: usize = 16;

/// Storage that has room for any address.
pub(crate) type Address = bindings::__kernel_sockaddr_storage;

/// The length of `address`; `None` for families other than IPv4 and IPv6.
pub(super) fn len(address: &Address) -> Option<usize> {
    let raw: *const bindings::sockaddr = core::ptr::from_ref(address).cast();
    // SAFETY: Every address begins with its family, and any bits are one.
    match u32::from(unsafe { (*raw).sa_family }) {
        bindings::AF_INET => Some(SHORTEST),
        bindings::AF_INET6 => Some(size_of::<bindings::sockaddr_in6>()),
        _ => None,
    }
}

/// The address and the port in storage; `None` for families other than IPv4 and IPv6.
pub(crate) fn address_in(storage: &Address) -> Option<SocketAddr> {
    // SAFETY: The storage has room for any address.
    unsafe { socket_address(core::ptr::from_ref(storage).cast()) }
}

/// The address and the port in `address`; `None` for families other than IPv4 and IPv6.
///
/// # Safety
///
/// `address` must be valid for reading as many bytes as an address of its family has.
pub(super) unsafe fn socket_address(address: *const bindings::sockaddr) -> Option<SocketAddr> {
    // SAFETY: By the safety requirements of this function it can be read, and every address begins
    // with its family.
    let family = u32::from(unsafe { (*address).sa_family });
    let host = match family {
        // SAFETY: By the safety requirements of this function the four bytes of an IPv4 address are
        // there.
        bindings::AF_INET => IpAddr::from(unsafe { bytes::<4>(address, V4) }),
        // SAFETY: By the safety requirements of this function the sixteen bytes of an IPv6 address
        // are there.
        bindings::AF_INET6 => IpAddr::from(unsafe { bytes::<16>(address, V6) }),
        _ => return None,
    };
    // SAFETY: By the safety requirements of this function the port is there; it stands in the same
    // place in both.
    let port = u16::from_be_bytes(unsafe { bytes::<2>(address, PORT) });

    Some(SocketAddr::new(host, port))
}

/// The part of a text's room that is left; its last byte stays a terminator.
struct Words<'a>(&'a mut [u8]);

impl Write for Words<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for from in text.bytes() {
            let (to, rest) = core::mem::take(&mut self.0)
                .split_first_mut()
                .filter(|(_, rest)| !rest.is_empty())
                .ok_or(core::fmt::Error)?;
            *to = from;
            self.0 = rest;
        }
        Ok(())
    }
}

/// An address and a port, for messages.
pub(crate) struct Peer {
    pub(super) host: [u8; 72],
    pub(super) port: [u8; 8],
}

impl Peer {
    /// Without any words.
    pub(super) const fn unknown() -> Self {
        Self {
            host: [0; 72],
            port: [0; 8],
        }
    }

    /// `address` in words.
    pub(crate) fn new(address: &SocketAddr) -> Self {
        let mut this = Self::unknown();

        // Both are long enough.
        let _ = write!(Words(&mut this.host), "{}", address.ip());
        let _ = write!(Words(&mut this.port), "{}", address.port());
        this
    }

    /// The address in words.
    pub(crate) fn host(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.host).unwrap_or(c"?")
    }

    /// The port in words.
    pub(crate) fn port(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.port).unwrap_or(c"?")
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 96];
        let mut len = 0usize;

        for part in [&self.host[..], b" port ", &self.port[..]] {
            for from in part.iter().take_while(|&&c| c != 0) {
                if let Some(to) = text.get_mut(len) {
                    *to = *from;
                    len = len.saturating_add(1);
                }
            }
        }
        // Padded, where a table wants it so.
        let text = text.get(..len).unwrap_or(&[]);
        f.pad(core::str::from_utf8(text).unwrap_or("?"))
    }
}
