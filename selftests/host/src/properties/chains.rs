// SPDX-License-Identifier: GPL-2.0

//! Chains of items, compared with vectors.

use std::{cell::RefCell, ptr::null_mut, rc::Rc};

use proptest::{collection::vec, prelude::*};

use super::chain::{Chain, Invalidated, Linked, Mapped, Registered};
use crate::stand_ins::prelude::KBox;

/// The numbers of the items that were dropped, in that order.
type Dropped = Rc<RefCell<Vec<u32>>>;

/// An item of a chain.
struct Item {
    number: u32,
    next: *mut Item,
    dropped: Dropped,
}

// SAFETY: The pointer is null at first, and `set_next` alone changes it.
unsafe impl Linked for Item {
    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.dropped.borrow_mut().push(self.number);
    }
}

type Items = Chain<Item, Mapped>;

fn item(number: u32, dropped: &Dropped) -> KBox<Item> {
    KBox::new(Item {
        number,
        next: null_mut(),
        dropped: dropped.clone(),
    })
}

/// A chain of items with these numbers, or `None` without any.
fn chain(numbers: &[u32], dropped: &Dropped) -> Option<Items> {
    let numbers = numbers.iter().rev();
    numbers.fold(None, |rest, &number| {
        Some(Chain::push(rest, item(number, dropped)))
    })
}

/// The numbers of the items. All ways through the chain must agree.
fn numbers(chain: &mut Option<Items>) -> Vec<u32> {
    let Some(chain) = chain else {
        return Vec::new();
    };
    let numbers: Vec<u32> = chain.iter().map(|item| item.number).collect();
    let again: Vec<u32> = chain.iter_mut().map(|item| item.number).collect();
    assert_eq!(numbers, again);
    assert_eq!(numbers.first(), Some(&chain.head().number));
    assert_eq!(numbers.first(), Some(&chain.head_mut().number));
    assert_eq!(numbers.len() == 1, chain.is_single());
    numbers
}

/// Takes the first item with this number out. Returns the item, and the numbers of the others.
fn take_out(chain: Items, number: u32) -> (Option<Items>, Option<Items>) {
    match chain.take_out(|item| item.number == number) {
        Ok((item, rest)) => (Some(item), rest),
        Err(all) => (None, Some(all)),
    }
}

fn destroy(chain: Option<Items>) {
    if let Some(chain) = chain {
        chain.destroy();
    }
}

/// Takes `number` out of a chain of `all`.
fn taken_out(all: &[u32], number: u32) -> (Vec<u32>, Vec<u32>) {
    let dropped = Dropped::default();
    let (mut taken, mut rest) = take_out(chain(all, &dropped).expect("not empty"), number);
    let result = (numbers(&mut taken), numbers(&mut rest));
    // Before they are dropped: not twice.
    assert_eq!(result.0.len() + result.1.len(), all.len());
    assert!(dropped.borrow().is_empty());
    destroy(taken);
    destroy(rest);
    let mut dropped = dropped.take();
    dropped.sort_unstable();
    assert_eq!(dropped, all);
    result
}

#[test]
fn taken_out_at_each_place() {
    assert_eq!(taken_out(&[1, 2, 3], 1), (vec![1], vec![2, 3]));
    assert_eq!(taken_out(&[1, 2, 3], 2), (vec![2], vec![1, 3]));
    assert_eq!(taken_out(&[1, 2, 3], 3), (vec![3], vec![1, 2]));
    assert_eq!(taken_out(&[1, 2, 3], 4), (vec![], vec![1, 2, 3]));
    assert_eq!(taken_out(&[1], 1), (vec![1], vec![]));
    assert_eq!(taken_out(&[1], 2), (vec![], vec![1]));
    assert_eq!(taken_out(&[1, 1, 2], 1), (vec![1], vec![1, 2]));
}

#[test]
fn the_first_of_several_is_taken_out() {
    let dropped = Dropped::default();
    let all = chain(&[1, 2, 3, 4], &dropped).expect("not empty");
    let is_even = |item: &Item| item.number % 2 == 0;
    let Ok((item, mut rest)) = all.take_out(is_even) else {
        panic!("two items are even");
    };
    let mut item = Some(item);
    assert_eq!(numbers(&mut item), [2]);
    assert_eq!(numbers(&mut rest), [1, 3, 4]);
    destroy(rest);
    destroy(item);
    assert_eq!(dropped.take(), [1, 3, 4, 2]);
}

/// An action on some of four chains.
#[derive(Clone, Debug)]
enum Action {
    /// Adds an item in front.
    Push(usize),
    /// Takes the first item, and drops it or puts it in front of another chain.
    Pop(usize, Option<usize>),
    /// Puts a chain behind another.
    Join(usize, usize),
    /// Takes an item out, if the chain is that long, and puts it in front of another chain.
    TakeOut(usize, usize, usize),
    Destroy(usize),
    /// Through a pointer and all states.
    Convert(usize),
}

const CHAINS: usize = 4;

fn action() -> impl Strategy<Value = Action> {
    let which = || 0..CHAINS;
    prop_oneof![
        4 => which().prop_map(Action::Push),
        2 => (which(), proptest::option::of(which())).prop_map(|(of, to)| Action::Pop(of, to)),
        2 => (which(), which()).prop_map(|(first, then)| Action::Join(first, then)),
        3 => (which(), 0..6_usize, which()).prop_map(|(of, at, to)| Action::TakeOut(of, at, to)),
        1 => which().prop_map(Action::Destroy),
        1 => which().prop_map(Action::Convert),
    ]
}

/// The chains, and vectors of the numbers that they have to have.
#[derive(Default)]
struct World {
    chains: [Option<Items>; CHAINS],
    model: [Vec<u32>; CHAINS],
    next: u32,
    dropped: Dropped,
    gone: Vec<u32>,
}

impl World {
    /// Puts `front` in front of a chain.
    fn put(&mut self, to: usize, front: Option<Items>, numbers: &[u32]) {
        let rest = self.chains[to].take();
        self.chains[to] = match front {
            Some(front) => Some(front.followed_by(rest)),
            None => rest,
        };
        self.model[to].splice(0..0, numbers.iter().copied());
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Push(to) => {
                let item = item(self.next, &self.dropped);
                self.chains[to] = Some(Chain::push(self.chains[to].take(), item));
                self.model[to].insert(0, self.next);
                self.next += 1;
            }
            Action::Pop(of, to) => {
                let item = Chain::pop(&mut self.chains[of]);
                assert_eq!(
                    item.as_ref().map(|item| item.number),
                    self.model[of].first().copied()
                );
                let Some(item) = item else { return };
                let number = self.model[of].remove(0);
                if let Some(to) = to {
                    self.chains[to] = Some(Chain::push(self.chains[to].take(), item));
                    self.model[to].insert(0, number);
                } else {
                    self.gone.push(number);
                }
            }
            Action::Join(first, then) => {
                if first != then {
                    let front = self.chains[first].take();
                    let numbers = std::mem::take(&mut self.model[first]);
                    self.put(then, front, &numbers);
                }
            }
            Action::TakeOut(of, at, to) => {
                let Some(chain) = self.chains[of].take() else {
                    return;
                };
                let wanted = self.model[of].get(at).copied();
                let (item, rest) = take_out(chain, wanted.unwrap_or(u32::MAX));
                assert_eq!(item.as_ref().map(|item| item.head().number), wanted);
                assert!(item.as_ref().is_none_or(Chain::is_single));
                self.chains[of] = rest;
                if let Some(number) = wanted {
                    self.model[of].remove(at);
                    self.put(to, item, &[number]);
                }
            }
            Action::Destroy(of) => {
                destroy(self.chains[of].take());
                self.gone.append(&mut self.model[of]);
            }
            Action::Convert(of) => {
                self.chains[of] = self.chains[of].take().map(|chain| {
                    let head = chain.into_raw();
                    // SAFETY: The head begins a chain of boxes that nothing else owns; the
                    // items of this test are in any state.
                    unsafe {
                        Chain::<Item, Registered>::from_raw(head)
                            .assume::<Invalidated>()
                            .assume()
                    }
                });
            }
        }
    }
}

proptest! {
    /// Chains have the items of the vectors, in their order, after any actions; each item is
    /// dropped once.
    #[test]
    fn chains(actions in vec(action(), 0..60)) {
        let mut world = World::default();
        for action in &actions {
            world.act(action);
            for (chain, model) in world.chains.iter_mut().zip(&world.model) {
                prop_assert_eq!(&numbers(chain), model);
            }
            prop_assert_eq!(&*world.dropped.borrow(), &world.gone);
        }
        for of in 0..CHAINS {
            world.act(&Action::Destroy(of));
        }
        let mut dropped = world.dropped.take();
        prop_assert_eq!(&dropped, &world.gone);
        dropped.sort_unstable();
        prop_assert_eq!(dropped, (0..world.next).collect::<Vec<_>>());
    }
}
