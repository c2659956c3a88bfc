# SPDX-License-Identifier: GPL-2.0
"""Many clients in one process (peer/crowd.py) of the client guest, all at once."""

from __future__ import annotations

import json

from guests.harness.network import SERVER
from guests.harness.pair import NFS_PORT, Pair
from guests.lib.requester import share_peer

ENOUGH = "/tmp/crowd.enough"


class Crowd:
    """A crowd that has begun."""

    def __init__(self, pair: Pair, kind: str, count: int, **orders: object):
        self._client = pair.client
        share_peer(self._client)
        (self._client.share / "crowd.json").write_text(json.dumps({"enough": ENOUGH, **orders}))
        self._client.run(f"modprobe -a rdma_ucm ib_uverbs; rm -f {ENOUGH}")
        program = 'import sys; sys.path.insert(0, "/share/peer"); import crowd; crowd.main()'
        python = f"python3 -I -S -B -c '{program}'"
        self._command = (
            f"ulimit -n 8192; {python} {SERVER.ipv4} {NFS_PORT} {kind} {count} /share/crowd.json || [ {kind} = killed ]"
        )
        self._job = self._client.spawn(self._command)

    def finish(self) -> dict[str, int]:
        """Ends it; its numbers of connections and replies."""
        self._client.run(f"touch {ENOUGH}")
        return self.wait()

    def wait(self) -> dict[str, int]:
        """Waits until it is over; its numbers."""
        lines = self._client.finish(self._job, self._command, 300).lines
        # The shell has a word about a process that was killed.
        return json.loads(next(line for line in reversed(lines) if line.startswith("{")))
