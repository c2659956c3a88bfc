# SPDX-License-Identifier: GPL-2.0
"""The side of a connection whose transports are compared; the in-tree transport is at the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guests.harness.config import Options
from guests.harness.guest import Guest
from guests.harness.network import CLIENT, SERVER, End
from guests.harness.pair import Pair
from guests.lib.nfsd import START

from .builds import Build

CLIENT_SIDE, SERVER_SIDE = "client", "server"
SERVICE = "rpcload_echo"


@dataclass(frozen=True)
class Side:
    """The client's or the server's."""

    name: str

    @property
    def serves(self) -> bool:
        """Returns `True` for the server's side."""
        return self.name == SERVER_SIDE

    @property
    def ends(self) -> tuple[End, End]:
        """The compared end and the other one."""
        return (SERVER, CLIENT) if self.serves else (CLIENT, SERVER)

    def guests(self, pair: Pair) -> tuple[Guest, Guest]:
        """Likewise, the guests."""
        return (pair.server, pair.client) if self.serves else (pair.client, pair.server)

    def options(self, options: Options, guest: dict[str, object] | None = None) -> Options:
        """Options of guests that boot with ours on this side, `guest` those that the compared guest has otherwise."""
        own = guest or {}
        if self.serves:
            return replace(options, client="in-tree", server="ours", server_guest={**options.server_guest, **own})
        return replace(options, client="ours", server="in-tree", client_guest={**options.client_guest, **own})

    def change(self, pair: Pair, old: Build, new: Build) -> None:
        """Takes the compared guest from one build to another."""
        guest, _ = self.guests(pair)
        if self.serves:
            guest.run(f"rmmod {SERVICE}; rpc.nfsd 0", 60)
        old.unload(guest)
        new.load(guest, pair.options.module_parameters)
        if self.serves:
            guest.run(f"{START}insmod /share/{SERVICE}.ko", 60)
        else:
            pair.options = replace(pair.options, client=new.family)
