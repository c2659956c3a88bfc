// SPDX-License-Identifier: GPL-2.0

//! The circumstances that are walked through.

use super::*;

/// One credit more than one, two sizes, both ends of the module.
const BASE: Model = Model {
    mistake: None,
    grant: 2,
    falls: false,
    calls: 3,
    changes: 1,
    losses: 0,
    sizes: 2,
    start: [1, 1],
    asks: [false, false],
    grows: [false, false],
    plans: 1,
    terse: false,
    short: false,
    delays: false,
    peer: Peer::Full,
    bare_client: false,
};

/// Each kind of change and of peer, a few together.
pub(super) fn small() -> Vec<(&'static str, Model)> {
    let asks = Model {
        asks: [true, false],
        ..BASE
    };
    let foreign = Model {
        grows: [true, false],
        calls: 5,
        ..asks
    };
    vec![
        (
            "server grows",
            Model {
                grows: [false, true],
                losses: 1,
                ..BASE
            },
        ),
        (
            "client grows",
            Model {
                grows: [true, false],
                calls: 5,
                ..BASE
            },
        ),
        ("client asks", Model { losses: 1, ..asks }),
        (
            "server asks",
            Model {
                asks: [false, true],
                calls: 5,
                ..BASE
            },
        ),
        (
            "client asks to shrink",
            Model {
                start: [1, 2],
                calls: 4,
                ..asks
            },
        ),
        (
            "all change",
            Model {
                asks: [true, true],
                grows: [true, true],
                changes: 2,
                terse: true,
                ..BASE
            },
        ),
        (
            "one credit",
            Model {
                grows: [true, true],
                grant: 1,
                changes: 2,
                ..BASE
            },
        ),
        (
            "three credits",
            Model {
                grant: 3,
                terse: true,
                ..asks
            },
        ),
        (
            "falling grant",
            Model {
                falls: true,
                grant: 3,
                grows: [true, false],
                ..BASE
            },
        ),
        (
            "three sizes",
            Model {
                sizes: 3,
                start: [1, 2],
                changes: 2,
                calls: 5,
                terse: true,
                ..asks
            },
        ),
        (
            "two plans",
            Model {
                plans: 2,
                start: [1, 2],
                ..asks
            },
        ),
        (
            "without memory",
            Model {
                short: true,
                ..asks
            },
        ),
        (
            "delayed responses",
            Model {
                delays: true,
                calls: 5,
                terse: true,
                ..asks
            },
        ),
        (
            "bare server",
            Model {
                peer: Peer::Bare,
                ..foreign
            },
        ),
        (
            "mute server",
            Model {
                peer: Peer::Mute,
                ..foreign
            },
        ),
        (
            "mute server, one credit",
            Model {
                peer: Peer::Mute,
                grant: 1,
                ..foreign
            },
        ),
        (
            "server without sizes",
            Model {
                peer: Peer::NoSize,
                ..foreign
            },
        ),
        (
            "server with INITXCH alone",
            Model {
                peer: Peer::InitAlone,
                ..foreign
            },
        ),
        (
            "bare client",
            Model {
                bare_client: true,
                grows: [false, true],
                ..BASE
            },
        ),
    ]
}

/// More calls, changes and losses.
pub(super) fn large() -> Vec<(&'static str, Model)> {
    let terse = Model {
        terse: true,
        calls: 8,
        ..BASE
    };
    let asks = Model {
        asks: [true, false],
        ..terse
    };
    let all = Model {
        asks: [true, true],
        grows: [true, true],
        ..terse
    };
    vec![
        (
            "all change",
            Model {
                changes: 2,
                calls: 5,
                ..all
            },
        ),
        (
            "all change, delayed",
            Model {
                delays: true,
                changes: 2,
                calls: 4,
                ..all
            },
        ),
        (
            "two losses",
            Model {
                losses: 2,
                calls: 4,
                ..all
            },
        ),
        (
            "three changes",
            Model {
                sizes: 3,
                start: [1, 2],
                changes: 3,
                calls: 6,
                ..asks
            },
        ),
        (
            "client asks, server grows",
            Model {
                sizes: 3,
                start: [1, 2],
                grows: [false, true],
                changes: 2,
                ..asks
            },
        ),
        (
            "three credits",
            Model {
                grant: 3,
                start: [1, 2],
                calls: 6,
                ..asks
            },
        ),
        (
            "delayed, three sizes",
            Model {
                sizes: 3,
                start: [1, 2],
                delays: true,
                changes: 2,
                ..asks
            },
        ),
        (
            "any lengths",
            Model {
                terse: false,
                start: [1, 2],
                calls: 6,
                ..asks
            },
        ),
        (
            "server without sizes",
            Model {
                peer: Peer::NoSize,
                grows: [true, false],
                changes: 2,
                terse: false,
                ..asks
            },
        ),
    ]
}

/// The mistakes, each in circumstances that expose it.
pub(super) fn mistakes() -> Vec<(Mistake, Model)> {
    use Mistake::*;
    let grows = Model {
        grows: [false, true],
        calls: 6,
        ..BASE
    };
    let asks = Model {
        asks: [true, false],
        calls: 6,
        ..BASE
    };
    let shrinks = Model {
        start: [1, 2],
        calls: 8,
        ..asks
    };
    let foreign = Model {
        peer: Peer::NoSize,
        grows: [true, false],
        calls: 8,
        ..BASE
    };
    let three = Model {
        sizes: 3,
        changes: 2,
        terse: true,
        ..shrinks
    };
    let many = Model {
        grant: 3,
        sizes: 3,
        changes: 2,
        ..foreign
    };
    let seeded = [
        (AnnouncesAtOnce, grows),
        (DoneWhenBegun, asks),
        (UsesRequested, asks),
        (
            LowersAtResponse,
            Model {
                sizes: 3,
                start: [1, 3],
                delays: true,
                ..shrinks
            },
        ),
        (PostsReturned, grows),
        (
            ChecksWhenPlanned,
            Model {
                plans: 2,
                ..shrinks
            },
        ),
        (
            ShrinksUnasked,
            Model {
                asks: [false, false],
                ..shrinks
            },
        ),
        (KeepsLimit, Model { losses: 1, ..grows }),
        (NeedsNoEvidence, foreign),
        (InitIsEvidence, foreign),
        (
            ServerAsksToShrink,
            Model {
                asks: [false, true],
                start: [2, 1],
                ..BASE
            },
        ),
        (
            NeedsNoCredit,
            Model {
                peer: Peer::Bare,
                grant: 1,
                ..BASE
            },
        ),
        (SeveralUnconfirmed, many),
        (
            TakesLastCredit,
            Model {
                peer: Peer::Mute,
                grant: 1,
                ..BASE
            },
        ),
        (
            ConfirmsByEarlier,
            Model {
                peer: Peer::Bare,
                grant: 3,
                calls: 4,
                ..BASE
            },
        ),
        (
            Unprompted,
            Model {
                bare_client: true,
                ..BASE
            },
        ),
        (
            ForgetsFinished,
            Model {
                delays: true,
                ..asks
            },
        ),
        (
            UpdateLiftsCap,
            Model {
                grows: [false, true],
                ..three
            },
        ),
        (
            LateUpdate,
            Model {
                grows: [false, true],
                ..three
            },
        ),
        (
            AsksWhilePending,
            Model {
                delays: true,
                calls: 10,
                ..three
            },
        ),
        (
            CountsExtra,
            Model {
                falls: true,
                grows: [true, false],
                calls: 6,
                terse: true,
                ..BASE
            },
        ),
        (XidsOfCalls, Model { grant: 3, ..BASE }),
        (
            NoCapOnGrowth,
            Model {
                grows: [false, true],
                start: [1, 1],
                ..three
            },
        ),
        (
            PlansByUnconfirmed,
            Model {
                peer: Peer::InitAlone,
                ..foreign
            },
        ),
        (
            GrantFallsBelow,
            Model {
                falls: true,
                grant: 3,
                ..BASE
            },
        ),
    ];
    let model = |(mistake, model)| {
        (
            mistake,
            Model {
                mistake: Some(mistake),
                ..model
            },
        )
    };
    seeded.map(model).into()
}
