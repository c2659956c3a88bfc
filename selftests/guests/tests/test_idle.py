# SPDX-License-Identifier: GPL-2.0
"""A connection without users is closed, and made again for the next call."""

from __future__ import annotations

from guests.harness.network import SERVER
from guests.harness.pair import Pair
from guests.harness.registry import test
from guests.lib.hostile import nothing_left
from guests.lib.peer import peer
from guests.lib.rpcload import loaded
from guests.lib.sight import ends


# The in-tree transport's time, too.
IDLE_SECONDS = 300


@test("an idle connection ends, and the next call makes another", "V1-122", "H-85", limit=90, device="rxe")
def idle(pair: Pair) -> None:
    """The time is five minutes, which the test makes two seconds. The resources of the connection are freed with it."""
    with peer(pair, "--private-data", "f6ab0e1801010303") as server, loaded(pair) as load:
        opened = load.one(f"open addr={SERVER.ipv4} port={server.port} idle=1").good()
        assert opened.values["idle_seconds"] == IDLE_SECONDS, opened
        load.one("idle seconds=2").good()
        event = server.wait(lambda event: event["event"] == "disconnected", "the connection stays")
        last = [message for message in server.messages() if message["at"] < event["at"]][-1]
        waited = event["at"] - last["at"]
        assert 2 <= waited < 2 + 3 * pair.options.slowness, f"it ended after {waited:.1f} s"
        nothing_left(pair)
        assert ends(pair.client, server.port)[0] == "sunrpc closed it", ends(pair.client, server.port)
        load.one("run count=10 call=500 reply=500").good()
        assert len(server.of("established")) == 2
        load.one("close").good()
