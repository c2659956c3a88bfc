# SPDX-License-Identifier: GPL-2.0
"""Sets the module's parameters in a guest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.guest import Guest
from guests.harness.pair import Pair

DEFAULTS = {
    "max_inline_send": 4096,
    "max_inline_receive": 4096,
    "credits": 128,
    "remote_invalidation": 1,
    "reverse": 1,
    "server_inline": 4096,
    "server_credits": 128,
    "server_reads": 16,
    "server_connections": 65536,
    "server_memory": 0,
}


def parameter(client: Guest, name: str) -> str:
    """The value of a module parameter."""
    return client.run(f"cat /sys/module/rpcrdma_rs/parameters/{name}").out.strip()


@contextmanager
def parameters(pair: Pair, guest: Guest | None = None, **values: int) -> Iterator[None]:
    """Sets module parameters for the block, in the client without another guest."""

    def assign(values: dict[str, int]) -> None:
        (guest or pair.client).run(
            "\n".join(f"echo {v} >/sys/module/rpcrdma_rs/parameters/{k}" for k, v in values.items())
        )

    assign(values)
    try:
        yield
    finally:
        assign(DEFAULTS)
