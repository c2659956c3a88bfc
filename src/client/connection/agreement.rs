// SPDX-License-Identifier: GPL-2.0

//! The terms that both ends have agreed on, and the two exchanges that settle them: the offer of a
//! version, and the characteristics of version 2.

use kernel::{
    prelude::*,
    sync::SetOnce, //
};

use super::{
    super::negotiated::Negotiated,
    characteristics::Characteristics,
    offer::Offer, //
};
use crate::proto::Wire;

/// The agreement of both ends.
#[pin_data]
pub(in crate::client) struct Agreement {
    /// The terms, once they are settled.
    terms: SetOnce<Negotiated>,
    /// The offer of another version.
    #[pin]
    pub(in crate::client) offer: Offer,
    /// The characteristics of both ends, in version 2.
    #[pin]
    pub(in crate::client) characteristics: Characteristics,
}

impl Agreement {
    /// None yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            terms: SetOnce::new(),
            offer <- Offer::new(),
            characteristics <- Characteristics::new(),
        })
    }

    /// The terms; `None` before both ends have agreed on them.
    #[inline]
    pub(super) fn terms(&self) -> Option<&Negotiated> {
        self.terms.as_ref()
    }

    /// Publishes the terms.
    pub(super) fn settle(&self, terms: Negotiated) {
        self.terms.populate(terms);
    }

    /// Both ends have agreed on `version`, with a grant of `credits`. Returns the terms;
    /// `None` while they are not settled.
    pub(in crate::client) fn agree(&self, version: u32, credits: u32) -> Option<&Negotiated> {
        let terms = self.terms()?;

        if let Some(wire) = Wire::of(version) {
            terms.agree(wire);
            if wire == Wire::V2 {
                self.characteristics.begin(terms, credits);
            }
        }
        Some(terms)
    }

    /// Returns `true` if a message to the server may be longer than its first size.
    pub(super) fn permits_long_sends(&self) -> bool {
        self.terms()
            .is_some_and(|terms| terms.limits.get().thresholds.call > terms.told().call)
    }
}
