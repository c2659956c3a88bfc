// SPDX-License-Identifier: GPL-2.0

//! The order of the rules: it finds the applicable one among many. Pure.
//!
//! Rules whose patterns have the same prefix and port stand together, and the more specific groups
//! come first. For a connection only two groups of each length of prefix come into question, which
//! are found without walking the others.

use super::pattern::{
    Pattern,
    Target, //
};

/// The place of a rule in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The bits of an address that do not count; [`Key::ANY_PEER`] where no prefix is named.
    wide: u8,
    /// The network.
    bits: u128,
    /// The port; [`Key::ANY_PORT`] where none is named.
    port: u32,
    /// The number of the rule: of two alike the older one comes first.
    id: u64,
}

impl Key {
    const ANY_PEER: u8 = u8::MAX;
    const ANY_PORT: u32 = u32::MAX;
    const FIRST: Self = Self {
        wide: 0,
        bits: 0,
        port: 0,
        id: 0,
    };

    /// The place of the rule with this pattern and number.
    pub(crate) fn new(pattern: &Pattern, id: u64) -> Self {
        let (wide, bits) = match &pattern.peer {
            Some(peer) => (peer.wide(), peer.bits()),
            None => (Self::ANY_PEER, 0),
        };

        Self {
            wide,
            bits,
            port: pattern.port.map_or(Self::ANY_PORT, u32::from),
            id,
        }
    }

    /// The number of the rule.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The beginning of the group of rules for `port` and the network of `target` that is `wide`.
    fn group(wide: u8, target: &Target<'_>, port: u32) -> Self {
        Self {
            wide,
            bits: if wide == Self::ANY_PEER {
                0
            } else {
                target.network(wide)
            },
            port,
            id: 0,
        }
    }

    /// Returns `true` if both belong to one group.
    fn is_beside(&self, other: &Self) -> bool {
        (self.wide, self.bits, self.port) == (other.wide, other.bits, other.port)
    }
}

/// The rules that match a connection, in their order: see [`matches()`].
pub(crate) struct Matches<'t, F> {
    target: &'t Target<'t>,
    from: F,
    /// Rules before this are done with; `None` when all are.
    at: Option<Key>,
}

impl<R, F> Iterator for Matches<'_, F>
where
    R: AsRef<Pattern>,
    F: Fn(&Key) -> Option<(Key, R)>,
{
    type Item = (Key, R);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (found, rule) = (self.from)(&self.at?)?;
            let port = Key::group(found.wide, self.target, self.target.port());
            let any_port = Key {
                port: Key::ANY_PORT,
                ..port
            };
            if found.is_beside(&port) || found.is_beside(&any_port) {
                self.at = found.id.checked_add(1).map(|id| Key { id, ..found });
                if rule.as_ref().matches(self.target) {
                    return Some((found, rule));
                }
            } else if found < port {
                self.at = Some(port);
            } else if found < any_port {
                self.at = Some(any_port);
            } else {
                self.at = found
                    .wide
                    .checked_add(1)
                    .map(|wide| Key { wide, ..Key::FIRST });
            }
        }
    }
}

/// The rules that match `target`, the more specific groups first. `from` finds the first rule at a
/// place of the order or behind it.
pub(crate) fn matches<'t, R, F>(target: &'t Target<'t>, from: F) -> Matches<'t, F>
where
    R: AsRef<Pattern>,
    F: Fn(&Key) -> Option<(Key, R)>,
{
    Matches {
        target,
        from,
        at: Some(Key::FIRST),
    }
}

/// The rule in force for `target`: the most specific match, and of several such matches the oldest.
/// `from` is as for [`matches()`].
pub(crate) fn best<R: AsRef<Pattern>>(
    target: &Target<'_>,
    from: impl Fn(&Key) -> Option<(Key, R)>,
) -> Option<R> {
    let mut matches = matches(target, from);
    let (group, mut best) = matches.next()?;

    for (key, rule) in matches {
        if !key.is_beside(&group) {
            break;
        }
        if rule.as_ref().rank(best.as_ref()).is_lt() {
            best = rule;
        }
    }
    Some(best)
}
