// SPDX-License-Identifier: GPL-2.0

//! Networks of IPv4 and IPv6, as administrators write them. Pure.

use core::net::IpAddr;

/// The addresses of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The network's address in the space of IPv6; IPv4 addresses are mapped into it.
    bits: u128,
    /// The leading bits that count, 0 to 128.
    pub(super) length: u8,
    /// Set for IPv4, where 96 fewer bits are written.
    v4: bool,
}

/// The bits in front of an IPv4 address that is mapped into the space of IPv6 (RFC 4291, section
/// 2.5.5.2), and their number.
const MAPPED: u128 = 0xffff << 32;
const MAPPED_LENGTH: u8 = 96;

/// An address as a number in the space of IPv6, and whether it is one of IPv4.
pub(super) fn number(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (MAPPED | u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

/// A number with zeros in its last `wide` bits, and ones before them.
pub(super) fn mask(wide: u8) -> u128 {
    u128::MAX.checked_shl(u32::from(wide)).unwrap_or(0)
}

impl Prefix {
    /// Reads `ADDRESS` or `ADDRESS/LENGTH`. Bits behind the length must be zero, so that a typing
    /// error does not pass for a network.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) =
            match (0..text.len()).find(|&at| text.as_bytes().get(at) == Some(&b'/')) {
                Some(at) => (text.get(..at)?, Some(text.get(at.checked_add(1)?..)?)),
                None => (text, None),
            };
        let address: IpAddr = address.parse().ok()?;
        let (bits, v4) = number(address);
        // An IPv4 address may be written in the way of IPv6, and the length then is, too.
        let (extra, most) = if address.is_ipv4() {
            (MAPPED_LENGTH, 32)
        } else {
            (0, 128)
        };
        let length = match length {
            Some(text) => u8::try_from(decimal(text)?).ok()?,
            None => most,
        };
        if length > most {
            return None;
        }
        let length = extra.checked_add(length)?;
        if v4 && length < MAPPED_LENGTH {
            return None;
        }
        let prefix = Self { bits, length, v4 };
        (bits & !mask(prefix.wide()) == 0).then_some(prefix)
    }

    /// The bits of an address that do not count, 0 to 128.
    pub(super) fn wide(&self) -> u8 {
        128u8.saturating_sub(self.length)
    }

    /// The network's number.
    pub(super) fn bits(&self) -> u128 {
        self.bits
    }

    /// Returns `true` if it contains the address with this number.
    #[inline]
    pub(super) fn contains(&self, (bits, v4): (u128, bool)) -> bool {
        // `::/0` is all of IPv6, and none of IPv4.
        v4 == self.v4 && (bits ^ self.bits) & mask(self.wide()) == 0
    }
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (address, length, most) = if self.v4 {
            // CAST: The low half of the low half.
            #[allow(clippy::as_conversions)]
            let v4 = core::net::Ipv4Addr::from_bits(self.bits as u32);
            (
                IpAddr::V4(v4),
                self.length.saturating_sub(MAPPED_LENGTH),
                32,
            )
        } else {
            (
                IpAddr::V6(core::net::Ipv6Addr::from_bits(self.bits)),
                self.length,
                128,
            )
        };
        write!(f, "{address}")?;
        if length != most {
            write!(f, "/{length}")?;
        }
        Ok(())
    }
}

/// Reads a decimal number, of digits alone.
pub(crate) fn decimal(text: &str) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0u32, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_policy_prefix))]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_written() {
        for text in [
            "192.0.2.0/24",
            "192.0.2.1",
            "0.0.0.0/0",
            "128.0.0.0/1",
            "192.0.2.254/31",
            "2001:db8::/32",
            "2001:db8::1",
            "::/0",
            "fe80::/10",
        ] {
            let mut out = Text::default();
            let prefix = Prefix::parse(text);
            assert!(prefix.is_some());
            if let Some(prefix) = prefix {
                assert!(core::fmt::Write::write_fmt(&mut out, format_args!("{prefix}")).is_ok());
            }
            assert!(out.as_bytes() == text.as_bytes());
        }
    }

    #[test]
    fn decimal_numbers() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("99999999999", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("0x10", None),
        ] {
            assert!(decimal(text) == number);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "/",
            "192.0.2.0/",
            "192.0.2.0/33",
            "192.0.2.0/-1",
            "192.0.2.0/+8",
            "192.0.2.1/24",
            "192.0.2/24",
            "2001:db8::/129",
            "2001:db8::1/64",
            "2001:db8::/8/8",
            "server",
            " 192.0.2.0/24",
            "192.0.2.0/256",
            "::ffff:192.0.2.0/24",
            "::ffff:192.0.2.1/120",
        ] {
            assert!(Prefix::parse(text).is_none());
        }
    }

    /// A place to write short texts to.
    struct Text([u8; 64], usize);

    impl Default for Text {
        fn default() -> Self {
            Self([0; 64], 0)
        }
    }

    impl Text {
        fn as_bytes(&self) -> &[u8] {
            self.0.get(..self.1).unwrap_or(&[])
        }
    }

    impl core::fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            let end = self.1.saturating_add(text.len());
            let room = self.0.get_mut(self.1..end).ok_or(core::fmt::Error)?;
            room.copy_from_slice(text.as_bytes());
            self.1 = end;
            Ok(())
        }
    }
}
