// SPDX-License-Identifier: GPL-2.0

//! Rules for single peers as directories: `/sys/kernel/config/rpcrdma_rs/<rule>/`.
//!
//! C header: [`include/linux/configfs.h`](srctree/include/linux/configfs.h)
//!
//! Each attribute is a file. One that a rule leaves open shows as `any` or `default`, which can be
//! written as well. The table of rules is [`policy::table`]; a directory holds the number of
//! its rule there.

use core::fmt::Write;

use kernel::{
    configfs::{
        configfs_attrs,
        AttributeOperations,
        Group,
        GroupOperations,
        Subsystem, //
    },
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    str::CString, //
};

use crate::os::series::EMSGSIZE;
#[allow(unused_imports, reason = "`configfs_attrs!` of some series uses it")]
use crate::os::series::THIS_MODULE;
use crate::{
    client,
    policy::{
        self,
        pattern::DeviceName,
        prefix::{
            decimal,
            Prefix, //
        },
        settings::parse_switch,
        table::{
            Name,
            Rule,
            RuleId, //
        },
        RemoteInvalidation,
        Side, //
    },
    proto::{
        InlineSize,
        Versions, //
    },
    server, //
};

/// The directory of all rules.
pub(crate) struct Rules;

/// The directory, ready to be registered.
pub(crate) fn directory() -> impl PinInit<Subsystem<Rules>, Error> {
    let attributes = configfs_attrs! {
        container: Subsystem<Rules>,
        data: Rules,
        child: Directory,
        attributes: [],
    };

    // Before 7.3 the crate looks for this value in a `Group`, at another offset.
    const { assert!(size_of::<Rules>() == 0) };
    Subsystem::new(c"rpcrdma_rs", attributes, Ok(Rules))
}

/// The directory of one rule, which is in the table as long as this is.
pub(crate) struct Directory {
    rule: RuleId,
}

impl Drop for Directory {
    fn drop(&mut self) {
        policy::table::remove(self.rule);
    }
}

#[vtable]
impl GroupOperations for Rules {
    type Child = Directory;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Directory>, Error>> {
        let attributes = configfs_attrs! {
            container: Group<Directory>,
            data: Directory,
            attributes: [
                peer: 0,
                port: 1,
                device: 2,
                netns: 3,
                inline_send: 4,
                inline_receive: 5,
                remote_invalidation: 6,
                credits: 7,
                private_data: 8,
                reverse: 9,
                memory: 10,
                reconnect: 11,
                side: 12,
                connections: 13,
                version: 14,
                inline_max: 15,
            ],
        };
        let name = Name::new(name)?;
        let directory = Directory {
            rule: policy::table::add(name)?,
        };

        Ok(Group::new(
            CString::try_from_fmt(fmt!("{name}"))?,
            attributes,
            Ok(directory),
        ))
    }
}

/// A page of text.
struct Text<'a> {
    page: &'a mut [u8; PAGE_SIZE],
    len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let text = text.as_bytes();
        let free = self.page.get_mut(self.len..).ok_or(core::fmt::Error)?;
        // As long as `text` for every compiler, which would otherwise keep a call to panic.
        let (room, _) = free
            .split_at_mut_checked(text.len())
            .ok_or(core::fmt::Error)?;

        room.copy_from_slice(text);
        self.len = self.len.saturating_add(text.len());
        Ok(())
    }
}

/// Shows a line of text.
fn show(page: &mut [u8; PAGE_SIZE], text: fmt::Arguments<'_>) -> Result<usize> {
    let mut out = Text { page, len: 0 };

    writeln!(out, "{text}").map_err(|_| EMSGSIZE)?;
    Ok(out.len)
}

/// Shows a value, or `none`.
fn show_value<T: fmt::Display>(
    page: &mut [u8; PAGE_SIZE],
    value: Option<T>,
    none: &str,
) -> Result<usize> {
    match value {
        Some(value) => show(page, fmt!("{value}")),
        None => show(page, fmt!("{none}")),
    }
}

/// Reads a written text with `parse`, or `none`, and passes the value to `set`. Logs a text that is
/// no value.
fn store_value<T>(
    directory: &Directory,
    page: &[u8],
    attribute: &Attribute,
    parse: impl Fn(&str) -> Option<T>,
    set: impl FnOnce(&mut Rule, Option<T>),
) -> Result {
    let text = core::str::from_utf8(page.trim_ascii()).map_err(|_| EINVAL)?;
    let value = match text {
        "" => None,
        text if text == attribute.none => None,
        text => match parse(text) {
            Some(value) => Some(value),
            None => {
                let name = policy::table::get(directory.rule)?.name;
                pr_err!(
                    "rule {name}: {}: '{}' is not {}\n",
                    attribute.name,
                    Quoted(text),
                    attribute.range
                );
                return Err(EINVAL);
            }
        },
    };
    let changed = policy::table::change(directory.rule, |rule| set(rule, value));
    if changed == Err(EINVAL) {
        let name = policy::table::get(directory.rule)?.name;
        pr_err!("rule {name}: version 2 needs private data, and inline_receive of 4096 or more\n");
    }
    changed
}

/// A value for the log: its first characters, with `?` for control characters.
struct Quoted<'a>(&'a str);

impl Quoted<'_> {
    /// The most characters that the log gets.
    const MOST: usize = 64;
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(Self::MOST) {
            fmt::Write::write_char(f, if c.is_ascii_control() { '?' } else { c })?;
        }
        Ok(())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// The properties of an attribute that the functions above need.
struct Attribute {
    name: &'static str,
    none: &'static str,
    range: &'static str,
}

/// Declares an attribute: its number and name, the field of a rule with its value, the functions
/// that parse and show it, the text for no value, and the texts that may be written.
macro_rules! attribute {
    (
        $id:literal $name:literal, $($field:ident).+,
        $parse:expr, $show:expr, $none:literal, $range:literal
    ) => {
        #[vtable]
        impl AttributeOperations<$id> for Directory {
            type Data = Directory;

            fn show(directory: &Directory, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
                let value = policy::table::get(directory.rule)?.$($field).+;
                let show = $show;
                show_value(page, value.as_ref().map(show), $none)
            }

            fn store(directory: &Directory, page: &[u8]) -> Result {
                const ATTRIBUTE: Attribute = Attribute {
                    name: $name,
                    none: $none,
                    range: $range,
                };
                store_value(directory, page, &ATTRIBUTE, $parse, |rule, value| {
                    rule.$($field).+ = value;
                })
            }
        }
    };
}

/// Reads a number of a range.
fn number(text: &str, range: core::ops::RangeInclusive<u32>) -> Option<u32> {
    decimal(text).filter(|value| range.contains(value))
}

/// Reads an inline size; the range is checked before it is rounded down.
fn inline_size(text: &str) -> Option<InlineSize> {
    number(text, InlineSize::MIN..=InlineSize::MAX).and_then(InlineSize::from_bytes)
}

/// Reads a port.
fn port(text: &str) -> Option<u16> {
    u16::try_from(decimal(text)?).ok().filter(|&port| port != 0)
}

fn switch(on: &bool) -> &'static str {
    if *on {
        "on"
    } else {
        "off"
    }
}

attribute!(0 "peer", pattern.peer, Prefix::parse, |v: &Prefix| *v, "any",
    "an address, a network such as 192.0.2.0/24 (no bits set behind its length), or any");
attribute!(1 "port", pattern.port, port,
    |v: &u16| *v, "any", "a port, 1 to 65535, or any");
attribute!(2 "device", pattern.device, DeviceName::parse, DeviceName::as_str, "any",
    "the name of an RDMA device, or any");
attribute!(3 "netns", pattern.netns, decimal, |v: &u32| *v, "any",
    "the number of a network namespace as in /proc/PID/ns/net, or any");
attribute!(4 "inline_send", settings.inline_send, inline_size, |v: &InlineSize| v.bytes(),
    "default", "a number of bytes, 1024 to 262144, or default");
attribute!(5 "inline_receive", settings.inline_receive, inline_size, |v: &InlineSize| v.bytes(),
    "default", "a number of bytes, 1024 to 262144, or default");
attribute!(6 "remote_invalidation", settings.remote_invalidation, RemoteInvalidation::parse,
    |v: &RemoteInvalidation| v.as_str(), "default", "off, on, strict or default");
attribute!(7 "credits", settings.credits, |text| number(text, policy::settings::CREDITS),
    |v: &u32| *v, "default", "a number of calls, 4 to 16384, or default");
attribute!(8 "private_data", settings.private_data, parse_switch, switch, "default",
    "on, off or default");
attribute!(9 "reverse", settings.reverse, parse_switch, switch, "default",
    "on, off or default");
attribute!(10 "memory", settings.memory, |text| number(text, policy::settings::MEMORY),
    |v: &u32| *v, "default", "a number of KiB, 256 to 1048576, or default");

attribute!(12 "side", pattern.side, Side::parse, |v: &Side| v.as_str(), "client",
    "client or server");
attribute!(13 "connections", settings.connections,
    |text| number(text, policy::settings::CONNECTIONS), |v: &u32| *v, "default",
    "a number of connections, 0 to 65536, or default");
attribute!(14 "version", settings.version, Versions::parse, |v: &Versions| v.as_str(), "default",
    "1, 2, auto or default");
attribute!(15 "inline_max", settings.inline_max, inline_size, |v: &InlineSize| v.bytes(),
    "default", "a number of bytes, 1024 to 262144, or default");

#[vtable]
impl AttributeOperations<11> for Directory {
    type Data = Directory;

    fn show(_directory: &Directory, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show(
            page,
            fmt!("write 1 to have the connections that this rule matches made again"),
        )
    }

    fn store(directory: &Directory, page: &[u8]) -> Result {
        let pattern = policy::table::get(directory.rule)?.pattern;

        if page.trim_ascii() != b"1" {
            return Err(EINVAL);
        }
        match pattern.side {
            Some(Side::Server) => server::end(&pattern),
            _ => client::reconnect(&pattern),
        }
    }
}
