# SPDX-License-Identifier: GPL-2.0
"""The modes of transfer on purpose: pairs of calls and replies in all sizes and places, and the counters that they move.

The calls come from selftests/modules/rpcload. The transport's counters count segments, including the segments of Long calls
for Read lists. In-tree a call that found too few registrations counts once more when it is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from guests.harness.pair import Pair
from guests.lib.mountstats import SUSPICIOUS
from guests.lib.rpcload import Outcome, loaded

KIB, MIB = 1 << 10, 1 << 20
# Odd sizes are in between because of their padding.
SIZES = (1, 1000, 4000, 16 * KIB, 64 * KIB, 64 * KIB + 1, 256 * KIB, MIB - 3, MIB)
CONTIGUOUS = 64 * KIB  # the most that head and tail take
COUNTERS = ("read_chunks", "write_chunks", "reply_chunks", "nomsg_calls")

# The largest of these sizes that is sent inline at the default threshold of 4096. With 4000 bytes of data a call has
# 4060 bytes and a reply 4040, and we add the header's 28 bytes; in-tree always leaves room for the largest header
# with all segments that the device may need (212 bytes and more).
INLINE = {"ours": 4000, "in-tree": 1000}


@dataclass(frozen=True)
class Message:
    """One direction: the place of its data, and the mode of data that is too large to go inline."""

    place: str = "head"
    ddp: bool = False
    large: str = ""  # the counter that rises
    size: int = 0

    def words(self, name: str) -> str:
        """Its part of the command."""
        # The page data begins inside a page in every second case, so that it needs a page more.
        base = 1234 if self.place == "pages" and self.size % 8 else 0
        return f"{name}={self.size} {name}_in={self.place} {name}_ddp={self.ddp:d} {name}_base={base}"


SHORT = Message()
READ_CHUNK = Message("pages", True, "read_chunks")
LONG = Message("pages", False, "nomsg_calls")
WRITE_CHUNK = Message("pages", True, "write_chunks")
REPLY_CHUNK = Message("pages", False, "reply_chunks")


def sizes(message: Message) -> list[Message]:
    """The same in all sizes that its place takes."""
    most = MIB if message.place in ("pages", "parts") else CONTIGUOUS
    return [replace(message, size=size) for size in SIZES if size <= most]


def sizes_and_places(message: Message) -> list[Message]:
    """The same in each place, for modes that do not depend on it."""
    return [m for place in ("head", "pages", "tail", "parts") for m in sizes(replace(message, place=place))]


def modes(pair: Pair, call: Message, reply: Message) -> set[str]:
    """The counters that a call and its reply have to move; none if both go inline."""
    most = INLINE[pair.options.client]
    wanted = set()
    if reply.size > most:
        wanted.add(reply.large)
        # The chunk is in the header of the call, which leaves that much less room.
        most = min(most, 1000)
    if call.size > most:
        wanted.add(call.large)
    return wanted


def check_modes(pair: Pair, outcome: Outcome, call: Message, reply: Message, count: int) -> None:
    """The mode that was to be used, and no other, was used for every call."""
    wanted = modes(pair, call, reply)
    for name in COUNTERS:
        seen = outcome.counted[name]
        if name in wanted:
            # A Long call counts once, however many segments it has.
            right = seen >= count if name != "nomsg_calls" or pair.options.client != "ours" else seen == count
        elif name == "read_chunks" and "nomsg_calls" in wanted:
            right = seen >= count
        else:
            right = seen == 0
        assert right, f"{name} rose by {seen} with {count} calls; to be used: {wanted}\n{outcome}"
    check_counters(outcome)


def check_counters(outcome: Outcome) -> None:
    """Nothing strange was seen."""
    odd = {name: outcome.counted[name] for name in ("bad_xids", "bad_replies") if outcome.counted[name]}
    odd |= {name: outcome.counted[name] for name in SUSPICIOUS if outcome.counted.get(name)}
    assert not odd, f"{odd}\n{outcome}"


def try_all(pair: Pair, pairs: list[tuple[Message, Message]], extra: str = "") -> None:
    """Makes calls of each pair of messages, two at a time if they are small, and checks the modes used."""
    counts = [1 if max(call.size, reply.size) > 65 * KIB else 2 for call, reply in pairs]
    commands = [
        f"run count={count} depth={count} seed={seed} {call.words('call')} {reply.words('reply')} {extra}"
        for seed, (count, (call, reply)) in enumerate(zip(counts, pairs, strict=True))
    ]
    with loaded(pair) as load:
        load.open()
        for outcome, count, (call, reply) in zip(load.do(*commands, timeout=60), counts, pairs, strict=True):
            assert outcome.good().values["calls"] == count, str(outcome)
            check_modes(pair, outcome, call, reply, count)
        assert load.bad_calls() == 0


def reply_end(pair: Pair, ddp: bool) -> str:
    """The words for a reply with nothing behind its data, if that is necessary.

    In-tree puts inline bytes that follow data in a Write chunk on top of that data: no upper layer of its has any.
    """
    return "reply_end=0" if ddp and pair.options.client == "in-tree" else ""


Pairs = list[tuple[Message, Message]]


def inline(pair: Pair) -> Pairs:
    """Messages that fit, with data marked or not, anywhere in the buffers."""
    small = [m for m in sizes_and_places(SHORT) if m.size <= INLINE[pair.options.client]]
    small += [replace(m, ddp=True) for m in small if m.place == "pages"]
    return list(zip(small, reversed(small), strict=True))


def calls(mode: list[Message]) -> Pairs:
    """Calls with these data, and short replies."""
    return [(call, replace(SHORT, size=100)) for call in mode]


def replies(mode: list[Message]) -> Pairs:
    """Short calls, and replies with these data."""
    return [(replace(SHORT, size=100), reply) for reply in mode]


def both(some: list[Message], others: list[Message]) -> Pairs:
    """Calls with these data, and replies with those, the largest for the smallest."""
    return list(zip(some, reversed(others), strict=True))


# By the name of the mode.
MODES: dict[str, Callable[[Pair], Pairs]] = {
    "inline both ways": inline,
    "Read chunk": lambda _: calls(sizes(READ_CHUNK)),
    "Write chunk": lambda _: replies(sizes(WRITE_CHUNK)),
    "Read chunk and Write chunk": lambda _: both(sizes(READ_CHUNK), sizes(WRITE_CHUNK)),
    "Reply chunk": lambda _: replies(sizes_and_places(REPLY_CHUNK)),
    "Long call": lambda _: calls(sizes_and_places(LONG)),
    "Long call and Reply chunk": lambda _: both(sizes(LONG), sizes(REPLY_CHUNK)),
    "Long call and Write chunk": lambda _: both(sizes(LONG), sizes(WRITE_CHUNK)),
}


def try_mode(pair: Pair, mode: str) -> None:
    """Makes calls in that mode, of all sizes, and checks each byte and the counters."""
    try_all(pair, MODES[mode](pair), reply_end(pair, "Write chunk" in mode))
