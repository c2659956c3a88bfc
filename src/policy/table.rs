// SPDX-License-Identifier: GPL-2.0

//! The table of rules.

use kernel::{
    fmt,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    }, //
};

use super::{
    defaults,
    order,
    order::Key,
    pattern::{
        Pattern,
        Target, //
    },
    peers,
    settings::{
        Policy,
        Settings, //
    }, //
};
use crate::os;
use crate::os::series::ENAMETOOLONG;

/// The name of a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name([u8; Self::MAX]);

impl Name {
    /// The longest name, in bytes.
    const MAX: usize = 63;

    /// Takes the name of a directory.
    ///
    /// # Errors
    ///
    /// `ENAMETOOLONG`, and `EINVAL` for a name that would be ambiguous in tables and messages.
    pub(crate) fn new(text: &CStr) -> Result<Self> {
        let text = text.to_str()?;
        if text == "none" || !text.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(EINVAL);
        }
        let mut name = [0; Self::MAX];

        name.get_mut(..text.len())
            .ok_or(ENAMETOOLONG)?
            .copy_from_slice(text.as_bytes());
        Ok(Self(name))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().position(|&c| c == 0).unwrap_or(Self::MAX);
        let name = self.0.get(..len).unwrap_or(&[]);

        f.write_str(core::str::from_utf8(name).unwrap_or("?"))
    }
}

/// A rule.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The administrator's name for it.
    pub(crate) name: Name,
    /// The connections that it is for.
    pub(crate) pattern: Pattern,
    /// The settings for them.
    pub(crate) settings: Settings,
}

/// The number of a rule in the table, which no other rule ever has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleId(u64);

impl AsRef<Pattern> for Rule {
    fn as_ref(&self) -> &Pattern {
        &self.pattern
    }
}

/// The rules in their order.
struct Rules {
    /// `None` without rules: a static value is not freed when the module is unloaded.
    list: Option<RBTree<Key, Rule>>,
    /// The number of the next rule.
    next: u64,
}

os::global! {
    static RULES: Rules = Rules { list: None, next: 1 };
}

impl Rules {
    /// The first rule at `place` or behind it.
    fn from(&self, place: &Key) -> Option<(Key, Rule)> {
        let cursor = self.list.as_ref()?.cursor_lower_bound(place)?;
        let (key, rule) = cursor.current();
        Some((*key, *rule))
    }

    /// The place of a rule.
    fn place_of(&self, id: RuleId) -> Option<Key> {
        let mut keys = self.list.iter().flat_map(RBTree::keys);
        keys.find(|key| key.id() == id.0).copied()
    }
}

/// Initializes the table.
pub(crate) fn init() {
    RULES.init();
    peers::init();
}

/// Adds a rule that is for no connection yet.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add(name: Name) -> Result<RuleId> {
    let rule = Rule {
        name,
        pattern: Pattern::default(),
        settings: Settings::default(),
    };
    // Before the lock: reclaim may wait for dirty pages, these for a connection, and the attempt to
    // connect for the lock.
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
    let mut rules = RULES.lock().ok_or(ENODEV)?;
    let id = rules.next;

    rules.next = id.wrapping_add(1);
    rules
        .list
        .get_or_insert_with(RBTree::new)
        .insert(node.into_node(Key::new(&rule.pattern, id), rule));
    Ok(RuleId(id))
}

/// Removes a rule. Existing connections stay as they are.
pub(crate) fn remove(id: RuleId) {
    let Some(mut rules) = RULES.lock() else {
        return;
    };
    let Some(place) = rules.place_of(id) else {
        return;
    };
    let Some(list) = &mut rules.list else {
        return;
    };
    let removed = list.remove_node(&place);
    if list.is_empty() {
        rules.list = None;
    }
    drop(rules);
    drop(removed);
}

/// The rule as it is now.
///
/// # Errors
///
/// `ENOENT` when it has been removed.
pub(crate) fn get(id: RuleId) -> Result<Rule> {
    let rules = RULES.lock().ok_or(ENODEV)?;
    let place = rules.place_of(id).ok_or(ENOENT)?;

    let rule = rules.list.as_ref().and_then(|list| list.get(&place));
    rule.copied().ok_or(ENOENT)
}

/// Changes a rule.
///
/// # Errors
///
/// `ENOENT` when it has been removed, `EINVAL` when it would contradict itself.
pub(crate) fn change(id: RuleId, act: impl FnOnce(&mut Rule)) -> Result {
    let mut rules = RULES.lock().ok_or(ENODEV)?;
    let place = rules.place_of(id).ok_or(ENOENT)?;
    let list = rules.list.as_mut().ok_or(ENOENT)?;
    let mut rule = list.get(&place).copied().ok_or(ENOENT)?;

    act(&mut rule);
    if rule.settings.contradict() {
        return Err(EINVAL);
    }
    let node = list.remove_node(&place).ok_or(ENOENT)?;
    // Its pattern decides on its place.
    let node = node.into_reservation();
    list.insert(node.into_node(Key::new(&rule.pattern, id.0), rule));
    drop(rules);
    // Written, a rule may be about the version (V2-71).
    peers::forget(|peer| {
        let target = Target::server(peer.address, peer.port, None, peer.netns);
        rule.pattern.matches(&target)
    });
    Ok(())
}

/// The policy for a connection before it is set up, and the name of the rule that applies, if any.
pub(crate) fn decide(target: &Target<'_>) -> (Policy, Option<Name>) {
    let rule = RULES
        .lock()
        .and_then(|rules| order::best(target, |place| rules.from(place)));

    match rule {
        Some(rule) => (
            defaults(target.side()).with(&rule.settings),
            Some(rule.name),
        ),
        None => (defaults(target.side()), None),
    }
}

/// The most credits of any rule that matches `target`, or of the defaults.
pub(crate) fn most_credits(target: &Target<'_>) -> u32 {
    let most = RULES.lock().and_then(|rules| {
        order::matches(target, |place| rules.from(place))
            .filter_map(|(_, rule)| rule.settings.credits)
            .max()
    });

    defaults(target.side()).credits.max(most.unwrap_or(0))
}
