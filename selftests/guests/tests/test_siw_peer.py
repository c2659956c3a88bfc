# SPDX-License-Identifier: GPL-2.0
"""The peer over iWARP, whose private data is not padded and whose messages are split otherwise than RoCE's."""

from __future__ import annotations

from guests.harness.pair import Pair
from guests.harness.registry import test

from . import test_private_data as private_data
from . import test_hostile_server as hostile
from . import test_reply_fields as cases

LOGGED = r"port \d+: "

VECTORS = [
    *private_data.ACCEPTS,
    # A field longer than InfiniBand's; with 4 bytes more siw's client fails by itself.
    ("in the last 8 of 248 bytes", ("PD-36", "PD-40", "PD-49"), private_data.GOOD.rjust(2 * 248, "0"), {}),
    # Here it can be cut short anywhere.
    ("TV-PD-6, cut short", ("PD-40", "PD-41"), private_data.GOOD[:14], private_data.NONE),
    ("TV-PD-6, behind other data", ("PD-40", "PD-41"), "aabb" + private_data.GOOD[:14], private_data.NONE),
]


def accepted_with(pair: Pair, **values: object) -> None:
    """The private data of the accept decides the thresholds."""
    private_data.accepted_with(pair, **values)


for title, rows, accepted, expected in VECTORS:
    values = {"what": title, "bytes": accepted, "received": private_data.GOOD, "call": 4096, "reply": 4096, **expected}
    test("siw: the peer's private data: {what}", *rows, "V1-142", limit=60, device="siw", cases=[values])(accepted_with)


def group(pair: Pair, name: str) -> None:
    """Look-ups, each with another edit of the right reply."""
    cases.group(pair, name)


for part, (its_cases, rows) in cases.GROUPS.items():
    test(
        f"siw: {len(its_cases)} replies with another {{name}}",
        *rows,
        limit=240,
        device="siw",
        allowed=(LOGGED, cases.STRONGER),
        cases=[{"name": part}],
    )(group)


def chunks(pair: Pair, procedure: str) -> None:
    """Calls that offer a chunk, each with another edit of the right reply."""
    cases.chunks(pair, procedure)


for procedure, (_, _, its_cases, rows) in cases.CHUNKS.items():
    test(
        f"siw: {len(its_cases)} replies to {{procedure}} with other chunks",
        *rows,
        limit=300,
        device="siw",
        allowed=(LOGGED,),
        cases=[{"procedure": procedure}],
    )(chunks)


@test(
    "siw: remote invalidation of a handle that is not the call's: {mode}",
    *("H-30", "PD-30"),
    limit=120,
    device="siw",
    allowed=(r"siw: got TERMINATE\. layer 0, type 2, code 9",),
    cases=[{"mode": "invalidate-stale"}, {"mode": "invalidate-dead"}],
)
def foreign(pair: Pair, mode: str) -> None:
    """The device refuses it by itself, unlike rxe, and ends the connection; calls without a reply are sent again."""
    with hostile.hostile(pair, mount="nordirplus") as server:
        hostile.stale_handle(pair, server)
        told, risen, sent = hostile.misbehave(pair, server, mode)
        assert hostile.ABSENT in told, told
        assert hostile.odd(risen) == {"connect_count": 1} and sent == 2, (risen, sent)
        assert hostile.ABSENT in hostile.ask(pair, "do-right")


@test(
    "siw: disconnected in the middle of a call", "V1-122", "PD-20", "H-45", limit=120, device="siw", allowed=(LOGGED,)
)
def disconnect(pair: Pair) -> None:
    """The call is sent again on a new connection."""
    hostile.disconnect(pair)


@test("siw: garbage", "V1-15", "V1-20", "V1-105", "V1-108", "V1-139", "H-24", limit=120, device="siw")
def garbage(pair: Pair) -> None:
    """Messages without meaning cost nothing but themselves."""
    hostile.garbage(pair)


@test("siw: every reply twice", "H-18", "V1-113", limit=90, device="siw", allowed=(hostile.SECOND,))
def twice(pair: Pair) -> None:
    """The call completes once."""
    hostile.twice(pair)
